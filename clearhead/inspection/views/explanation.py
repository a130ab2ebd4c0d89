"""Explanation of one answer, as shown by `clearhead explain`, as text and as plain values."""

import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

from torch import Tensor, nn

from ...config import Config
from ...config.front_geometry import position_seconds
from ...errors import ConfigError
from ...model.transformer import Decoder
from ...tokenization.codebook import Codebook
from ..record.forward_pass import Pass
from ..record.parts import part_rows, render_part_rows, stacks
from .alignment import align, alignment_layer, render_alignment, word_weights
from .attribution import Attribution
from .contrast import NO_LABEL, Choice, Labels, Words
from .flow import ShapeStep
from .head_grid import heads_of
from .lens import Lens, lens
from .recorded_attention import RecordedAttention, in_words
from .search_tree import SearchTree
from .text_columns import WIDTH, folded, with_note, wrapped
from .token_attribution import TokenAttribution, attribute_tokens

_FORMAT_VERSION = 2


@dataclass(frozen=True, kw_only=True)
class Explanation(RecordedAttention):
    """A text, the model's answer, and the record of one forward pass over both.

    Attributes:
        values: numbers about the answer, such as its score, or one for each of several labels.
        forward: the recorded pass, which can run again.
        choice: what the model chose, and from what: words, a label, or tokens in the place of masks.
        prefix: the token ids that the answer had to start with.
        forced: the indices of the answer's tokens that nothing else was allowed for: the prefix, and the end token at
            the longest length.
        unknown: the original text of each unknown token that the model read, in order.
        source_words: the index of the word that each source token belongs to, without the end token; -1 for BOS.
        flow: the shapes of the tensors inside the model.
        config: the settings of the model, and those of the search.
        search: the search tree, if there was a search.
        span: the first and the last position of an answer that was found in the text.
        context: the text that the answer was searched for in.
        in_context: where each position that it read is in `context`, or None where no answer can start or end.
        codebook: the sounds that the answer's tokens stand for, if it's speech.
        draw_page: returns the page of an explanation, for notebooks.
    """

    text: str
    answer: str
    values: Mapping[str, Any]
    forward: Pass = field(repr=False)
    choice: Choice | None = field(default=None, repr=False)
    prefix: tuple[int, ...] = ()
    forced: tuple[int, ...] = ()
    unknown: tuple[str, ...] = ()
    source_words: tuple[int, ...] = ()
    flow: tuple[ShapeStep, ...] = ()
    config: Config = field(repr=False)
    search: SearchTree | None = field(default=None, repr=False)
    span: tuple[int, int] | None = None
    context: str = ""
    in_context: tuple[tuple[int, int] | None, ...] = ()
    codebook: Codebook | None = field(default=None, repr=False)
    draw_page: Callable[["Explanation"], str] | None = field(default=None, repr=False)

    @property
    def model(self) -> nn.Module:
        return self.forward.model

    @property
    def said(self) -> tuple[int, ...]:
        """The token ids of `outputs`."""
        return tuple(self.choice.said) if isinstance(self.choice, Words) else ()

    @property
    def target_words(self) -> tuple[int, ...]:
        """The index of the word that each token of the answer belongs to."""
        return tuple(self.choice.word_of) if isinstance(self.choice, Words) else ()

    @property
    def translation(self) -> str:
        """Alias of `answer`, for translation models."""
        return self.answer

    @property
    def shown_answer(self) -> str:
        """The answer, or a note that a classifier gave no label."""
        return self.answer or (NO_LABEL if isinstance(self.choice, Labels) else "")

    @property
    def answer_words(self) -> list[str]:
        """The words of the answer. If they're codes of a sound, the time at which each begins comes before it."""
        words, model = self.answer.split(), self.config.model
        if model.front != "tokens" or model.sample_rate is None:
            return words
        return [f"{n * position_seconds(model.sample_rate):.2f}s {word}" for n, word in enumerate(words)]

    @property
    def alignment_layer(self) -> int:
        """The layer whose cross-attention is closest to an alignment."""
        return alignment_layer(sum(name.endswith(".cross") for name in self.trace.calls))

    def alignment(self, layer: int | None = None) -> list[tuple[int, int]]:
        """Return pairs (i, j): word j of the answer attends most to word i of the text, on average over heads.

        Args:
            layer: a layer of the cross-attention (default: `alignment_layer`).

        Raises:
            ConfigError: the model has no cross-attention.
        """
        return align(self._cross_weights(layer), self.source_words, self.target_words)

    def word_weights(self, layer: int | None = None) -> Tensor:
        """Return how much each word of the answer attends to each word of the text, on average over heads.

        -> (words of the answer, words of the text). Rows sum to less than 1, since the end token gets the rest.
        """
        return word_weights(self._cross_weights(layer), self.source_words, self.target_words)

    def _cross_weights(self, layer: int | None) -> Tensor:
        if "decoder.cross" not in self.places:
            what = "word alignment needs cross-attention, and this model has none"
            raise ConfigError(what, expected="a model for translation or summarization", name="alignment")
        return self.weights("decoder.cross", self.alignment_layer if layer is None else layer).mean(0)

    @cached_property
    def lens(self) -> Lens:
        """The logit lens: the predictions of each decoder layer. Raise ConfigError if the model has no decoder."""
        decoder = stacks(self.model).get("decoder")
        if not isinstance(decoder, Decoder):
            what = "the logit lens needs a decoder, and this model has none"
            raise ConfigError(what, expected="a model that writes text", name="lens")
        return lens(decoder, self.trace, self.said, self.forward.pieces["decoder"])

    @property
    def searched(self) -> SearchTree:
        """The tree of the search that led to the answer. Raise ConfigError if there was no search, or a diverse one."""
        if self.search is None:
            what = "there's no search to show"
            raise ConfigError(what, expected="a model that writes text, with decode.diverse off", name="search")
        return self.search

    @cached_property
    def words(self) -> TokenAttribution:
        """Importance of each input token for the model's output.

        Raises:
            ConfigError: the model doesn't read tokens.
        """
        if not (self.forward.targets and self.forward.reads_tokens):
            what = "this model doesn't read tokens"
            raise ConfigError(what, expected="a model that reads text", fix="use --occlusion", name="words")
        return attribute_tokens(self.forward)

    def about(self, label: str) -> Self:
        """Return the explanation with `words` and occlusion of a label, which is by default the most likely one.

        Args:
            label: a label of the model, or a name that is unique among several targets.

        Raises:
            ConfigError: there's no such label, or the model isn't a classifier.
        """
        if not isinstance(self.choice, Labels):
            what = "this view shows the whole answer, and only that of a classifier can be about one label"
            raise ConfigError(what, expected="a model that classifies", fix="leave out `why`", name="why", value=label)
        number = self.choice.number("why", label)
        forward = replace(self.forward, targets=(number,), said=(self.choice.labels[number],))
        return replace(self, forward=forward)

    @property
    def chosen(self) -> Choice:
        """The model's choice and its alternatives. Raise ConfigError if the task has neither words nor labels."""
        if self.choice is None:
            what = "this task has no word or label to explain"
            raise ConfigError(what, expected="a model that writes or classifies", name="why")
        return self.choice

    def why(self, said: str | None = None, other: str | None = None) -> Attribution:
        """Attribute the choice of a word or label to the parts of the model, on its own or compared with another one.

        Args:
            said: a word of the answer, or a label (default: the first word, or the predicted label).
            other: the word or label to compare with (default: none, which explains the logit itself).

        Raises:
            ConfigError: the word isn't part of the answer, or the task has neither words nor labels.
        """
        return self.chosen.why(self.forward, self.trace, said, other)

    def to_dict(self, place: str, layer: int, head: int) -> dict[str, Any]:
        """Return everything as plain values for JSON, with the attention steps of one head.

        Args:
            place: the place of the head, such as "decoder.cross".
            layer: its layer, from 0.
            head: its number, from 0.
        """
        found: dict[str, Any] = {
            "format_version": _FORMAT_VERSION,
            "source": self.text,
            "text": self.answer,
            **self.values,
            "tokens": {**self.tokens, "outputs": self.outputs},
            "flow": [step.to_dict() for step in self.flow],
            "parts": [it.to_dict() for it in part_rows(self.model, self.trace)],
            "compiled": {"parts": self.trace.uncompiled, "largest_difference": self.trace.compiled_difference},
            "without": self.trace.off,
            "attention": self.attention_values(place, layer, head),
            "heads": {
                name: [it.to_dict() for it in heads_of(calls[-1].weights.select(row=0))]
                for name, calls in self.trace.calls.items()
                if calls[-1].known_weights is not None
            },
        }
        aligned = f"decoder.{self.alignment_layer}.cross"
        if self.source_words and aligned in self.trace.calls and aligned not in self.without_weights:
            found |= {"alignment": self.alignment(), "alignment_layer": self.alignment_layer}
            found["word_weights"] = self.word_weights().tolist()
        if self.said:
            found["lens"] = self.lens.to_dict()
        if self.search is not None:
            found["search"] = self.search.to_dict()
        return found

    def render(self) -> str:
        """Render the text, the answer, their tokens and a table of the model's parts, in 80 columns."""
        each = [
            it
            for name, value in self.values.items()
            for it in (value if isinstance(value, Mapping) else {name: value}).items()
        ]
        numbers = [f"{name.replace('_', ' ') if name in self.values else name} {value:.4f} " for name, value in each]
        (noun, first), (_, *others) = self._described, self.tokens.values()
        width = max(8, len(noun) + 2)
        lines = [*folded(noun.ljust(width), self.text), *folded("answer".ljust(width), self.shown_answer)]
        lines += [*wrapped(" " * width, numbers), ""]
        for (stack, read), words in zip(self.tokens.items(), (first, *others)):
            lines += wrapped(f"the {stack} reads {len(read):>3}: ", words)
        if self.outputs:
            lines += wrapped(f"it says {len(self.outputs):>12}: ", self.outputs)
        table = render_part_rows(part_rows(self.model, self.trace))
        return "\n".join([*lines, "", table, "", self._accuracy()])

    @property
    def _described(self) -> tuple[str, Iterable[str]]:
        """The model's input: a name for it, and its positions in words."""
        return "text", next(iter(self.tokens.values()))

    def _accuracy(self) -> str:
        sentences, silent = [self.trace.note or "Recorded during a normal run."], self.without_weights
        if silent:
            sentences.append(f"Attention without reported weights: {', '.join(silent)}.")
        if len(silent) < len(self.trace.calls):
            difference = in_words(self.trace.largest_difference, "the model's own")
            sentences.append(f"Attention recomputed from Equation 1 {difference}.")
        return textwrap.fill(" ".join(sentences), WIDTH)

    def render_alignment(self, layer: int | None = None) -> str:
        """Render the alignment as pairs i-j, and for each word of the answer the words of the text it attends to."""
        weights, pairs = self.word_weights(layer), self.alignment(layer)
        number = self.alignment_layer if layer is None else layer
        view = render_alignment(pairs, weights, self.text.split(), self.answer_words, number)
        return with_note(view, self.trace.note)

    def _repr_html_(self) -> str:
        """Return the page as a frame, for notebooks."""
        return "" if self.draw_page is None else self.draw_page(self)

    def __repr__(self) -> str:
        return f"Explanation({self.text!r} -> {self.answer!r})"
