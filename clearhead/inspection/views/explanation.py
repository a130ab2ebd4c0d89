"""One answer with all that happened on the way to it: what `clearhead explain` shows, as text and as plain values."""

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from torch import Tensor, nn

from ...errors import ConfigError, did_you_mean
from ...model.transformer import Decoder
from ..record.calls import AttentionCall
from ..record.labelled import Labelled
from ..record.parts import stacks
from ..record.trace import Trace
from .alignment import align, render_alignment, word_weights
from .attention_distance import PLACES
from .attribution import Attribution
from .contrast import Contrast
from .equation import equation_steps, render_matrix, render_steps
from .flow import Step
from .head_grid import heads_of, render_heads, render_keys
from .journey import journey, render_journey, to_dicts
from .lens import Lens, lens
from .search_tree import SearchTree
from .text_columns import folded, noted, preformatted, wrapped

_FORMAT_VERSION = 2
_WIDTH = 80  # columns of a terminal


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A text, what a model made of it, and the record of one pass with both.

    `tokens` are what each stack read, {"encoder": S, "decoder": T}. `outputs` are what a decoder said after each of its
    tokens, and `said` their numbers; the last is the end token, unless the answer was cut off before it came to an end.
    `source_words` and `target_words` tell of each token, the end aside, which word it belongs to. `values` are numbers
    of the answer, such as its score. `contrast` is what `why` asks, of (said, other).
    """

    text: str
    answer: str
    values: Mapping[str, float]
    tokens: Mapping[str, tuple[str, ...]]
    outputs: tuple[str, ...] = ()
    said: tuple[int, ...] = ()
    source_words: tuple[int, ...] = ()
    target_words: tuple[int, ...] = ()
    flow: tuple[Step, ...] = ()
    trace: Trace
    model: nn.Module = field(repr=False)
    pieces: Callable[[Iterable[int]], list[str]] = field(repr=False)
    contrast: Callable[[str | None, str | None], Contrast] | None = field(default=None, repr=False)
    search: SearchTree | None = field(default=None, repr=False)

    @property
    def translation(self) -> str:
        """The answer, of a translator."""
        return self.answer

    @property
    def places(self) -> list[str]:
        """Where attention happened, as `PLACES` describes it."""
        found = {f"{name.split('.')[0]}.{name.split('.')[-1]}" for name in self.trace.calls}
        return [it for it in PLACES if it in found]

    @property
    def main_place(self) -> str:
        """The attention that is shown where nobody says which: the last kind there is, to the source if it can be."""
        return self.places[-1]

    def weights(self, place: str, layer: int) -> Tensor:
        """The attention weights of every head of a layer, (H, T, S); `place` is one of `places`.

        A ConfigError says which places and layers there are.
        """
        return self.attention(place, layer).weights.values[0]

    def axes(self, place: str) -> tuple[Sequence[str], Sequence[str]]:
        """The tokens of the rows, which attend, and of the columns, which are attended, of a place's weights.

        Towards the source a row is called by what is said there.
        """
        self._check(place)
        stack, kind = place.split(".")
        if kind == "cross":
            return self.outputs, self.tokens["encoder"]
        return self.tokens[stack], self.tokens[stack]

    def n_layers(self, place: str) -> int:
        """How many layers have an attention at a place; a ConfigError says which places there are."""
        self._check(place)
        stack, kind = place.split(".")
        return sum(name.startswith(f"{stack}.") and name.endswith(f".{kind}") for name in self.trace.calls)

    def attention(self, place: str, layer: int) -> AttentionCall:
        """The record of a layer's attention; a ConfigError says which places and layers there are."""
        n_layers, (stack, kind) = self.n_layers(place), place.split(".")
        if layer not in range(n_layers):
            raise ConfigError(f"layer {layer} of {place} is not there; expected 0 to {n_layers - 1}")
        return self.trace.calls[f"{stack}.{int(layer)}.{kind}"][-1]

    @property
    def alignment_layer(self) -> int:
        """The layer whose attention is the nearest to an alignment: the last but one (Garg et al. 2019).

        Of fewer than three it is the last.
        """
        last = sum(name.endswith(".cross") for name in self.trace.calls) - 1
        return last - 1 if last >= 2 else last

    def alignment(self, layer: int | None = None) -> list[tuple[int, int]]:
        """(i, j): word i of the text is what word j of the answer looks at most, by the mean of a layer's heads.

        Without a layer it is `alignment_layer`.
        """
        return align(self._cross_weights(layer), self.source_words, self.target_words)

    def word_weights(self, layer: int | None = None) -> Tensor:
        """How much each word of the answer looks at each word of the text, by the mean of a layer's heads; what is
        missing to 1 looks at the end token. (words of the answer, words of the text)"""
        return word_weights(self._cross_weights(layer), self.source_words, self.target_words)

    def _cross_weights(self, layer: int | None) -> Tensor:
        if "decoder.cross" not in self.places:
            raise ConfigError(
                "no words are aligned here: expected a model that writes while it looks at a text, as those for "
                "`translate` and `summarize` do"
            )
        return self.weights("decoder.cross", self.alignment_layer if layer is None else layer).mean(0)

    @cached_property
    def lens(self) -> Lens:
        """What each layer of the decoder would have said; a ConfigError where there is none."""
        decoder = stacks(self.model).get("decoder")
        if not isinstance(decoder, Decoder):
            raise ConfigError("a lens shows what a decoder would have said, and this model has none")
        return lens(decoder, self.trace, self.said, self.pieces)

    def why(self, said: str | None = None, other: str | None = None) -> Attribution:
        """Which part made the model say a word (a label), and not another, whose logit it is compared with.

        A ConfigError: the word was not said, or the task says nothing of which that could be asked.
        """
        if self.contrast is None:
            raise ConfigError("there is no word or label to ask for here; expected a model that writes or classifies")
        found = self.contrast(said, other)
        *_, last = stacks(self.model).values()  # the decoder, where there is one
        return found.explained(last, self.trace)

    def to_dict(self, place: str, layer: int, head: int) -> dict[str, Any]:
        """Plain values for JSON: everything, and of attention the steps of one head."""
        attention = self.attention(place, layer)
        rows, columns = self.axes(place)
        shown = {"place": place, "layer": layer, "head": head, "rows": list(rows), "columns": list(columns)}
        shown["largest_difference"] = attention.largest_difference
        found: dict[str, Any] = {
            "format_version": _FORMAT_VERSION,
            "source": self.text,
            "text": self.answer,
            **self.values,
            "tokens": {**self.tokens, "outputs": self.outputs},
            "flow": [step.to_dict() for step in self.flow],
            "parts": to_dicts(journey(self.model, self.trace)),
            "compiled": {"parts": self.trace.uncompiled, "largest_difference": self.trace.compiled_difference},
            "without": self.trace.off,
            "attention": {**shown, "steps": [step.to_dict() for step in equation_steps(attention, head)]},
            "heads": {
                name: [it.to_dict() for it in heads_of(calls[-1].weights.select(row=0))]
                for name, calls in self.trace.calls.items()
                if calls[-1].known_weights is not None
            },
        }
        if self.source_words and self._tells_alignment:
            found |= {"alignment": self.alignment(), "alignment_layer": self.alignment_layer}
            found["word_weights"] = self.word_weights().tolist()
        if self.said:
            found["lens"] = self.lens.to_dict()
        if self.search is not None:
            found["search"] = self.search.to_dict()
        return found

    def render(self) -> str:
        """For people, in 80 columns: the text on its way through the model, part by part."""
        numbers = "  ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in self.values.items())
        lines = [*folded("text    ", self.text), *folded("answer  ", self.answer), f"        {numbers}", ""]
        for stack, read in self.tokens.items():
            lines += wrapped(f"the {stack} reads {len(read):>3}: ", read)
        if self.outputs:
            lines += wrapped(f"it says {len(self.outputs):>12}: ", self.outputs)
        return "\n".join([*lines, "", render_journey(journey(self.model, self.trace)), "", self._exact()])

    def _repr_html_(self) -> str:
        """For notebooks, what `render` gives."""
        return preformatted(self.render())

    def __repr__(self) -> str:
        return f"Explanation({self.text!r} -> {self.answer!r})"

    def render_attention(self, place: str, layer: int, head: int) -> str:
        """Equation 1 step by step, with the numbers of a head, and its weights as a table."""
        attention = self.attention(place, layer)
        steps = equation_steps(attention, head)
        title = f"attention {place}, layer {layer}, head {head}:\n{PLACES[place]}"
        if attention.known_weights is None:
            silent = f"A {attention.kind} does not tell its weights."
            return noted(f"{title}\n{render_steps(steps, *self.axes(place))}\n{silent}", self.trace.note)
        exact = f"The model's own output {_apart(attention.largest_difference, 'these steps')}."
        table = render_matrix(attention.weights.values[0, head], *self.axes(place))
        shown = render_steps(steps, *self.axes(place))
        view = f"{title}\n{shown}\n{exact}\n\nweights: a row looks at the columns\n{table}"
        return noted(view, self.trace.note)

    def render_heads(self, place: str, layer: int | None, *, color: bool = False) -> str:
        """All heads of a layer, or of all layers, as small pictures."""
        wanted = range(self.n_layers(place)) if layer is None else [layer]
        (stack, kind), (rows, columns) = place.split("."), self.axes(place)
        found = []
        for number in wanted:
            call = self.attention(place, number)
            if call.known_weights is None:
                found.append(f"{call.name}: a {call.kind} does not tell its weights")
                continue
            weights = call.weights.select(row=0)
            named = Labelled(weights.values, weights.axes, {"query": rows, "key": columns})
            found += ["\n".join(keys)] if not found and (keys := render_keys(named)) else []
            found.append(render_heads(f"{stack}.{number}.{kind}", named, color=color))
        return noted("\n\n".join(found), self.trace.note)

    def render_alignment(self, layer: int | None = None) -> str:
        """A line of pairs i-j, and below it for each word of the answer which words of the text it looked at."""
        weights, pairs = self.word_weights(layer), self.alignment(layer)
        of_layer = self.alignment_layer if layer is None else layer
        view = render_alignment(pairs, weights, self.text.split(), self.answer.split(), of_layer)
        return noted(view, self.trace.note)

    @property
    def searched(self) -> SearchTree:
        """How the search came to the answer; a ConfigError where nothing was searched for."""
        if self.search is None:
            raise ConfigError("no search can be shown here; expected a model that writes, and no decode.diverse")
        return self.search

    @property
    def _tells_alignment(self) -> bool:
        calls = self.trace.calls.get(f"decoder.{self.alignment_layer}.cross")
        return calls is not None and calls[-1].known_weights is not None

    def _exact(self) -> str:
        said = [self.trace.note or "Recorded during a normal run."]
        if silent := [name for name, calls in self.trace.calls.items() if calls[-1].known_weights is None]:
            said.append(f"No weights are told by {', '.join(silent)}.")
        if len(silent) < len(self.trace.calls):
            apart = _apart(self.trace.largest_difference, "the model's own")
            said.append(f"Attention by the equation {apart}.")
        return textwrap.fill(" ".join(said), _WIDTH)

    def _check(self, place: str) -> None:
        if place not in self.places:
            raise ConfigError(
                f"{place!r} is no place of attention; there are {', '.join(self.places)}"
                f"{did_you_mean(place, self.places)}"
            )


def _apart(difference: float, other: str) -> str:
    """How far something is from another, in words."""
    return f"differs from {other} by at most {difference:.1e}" if difference else f"is {other}, bit for bit"
