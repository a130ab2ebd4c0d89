"""Why a model chose one token or label over another: a logit, or a difference of two, projected from the last state.

Words, labels and masks each know how to name what was chosen, and how the model reads it from its last stack.
"""

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Self, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import one_hot

from ...errors import ConfigError, unknown
from ...model.fronts.tokens import Projection
from ...model.heads import ClassPredictor, TokenPredictor
from ...model.linear import Linear
from ...model.transformer import Decoder, Encoder
from ...tokenization.tokenizer import Tokenizer, words_of
from ..record.forward_pass import Pass
from ..record.parts import stacks
from ..record.trace import Trace
from .attribution import Attribution, Contribution, attribute

NO_LABEL = "no label"  # how an answer without labels is shown
_SPACE = "▁"  # marks a space before a token


@dataclass(frozen=True)
class Readout:
    """The last projection of a model, which reads its output at the places where it chooses.

    Attributes:
        stack: the last stack of the model.
        reading: the weight of each position at each place, (R, T). None if each position is a place.
        logits: the model's own logits, (R, V), or numbers in the unit of the data.
        scale: mean and deviation of numbers, which the projection says without them. None for logits.
    """

    stack: Encoder | Decoder
    linear: Linear
    reading: Tensor | None
    logits: Tensor
    scale: tuple[float, float] | None = None

    def read(self, term: Tensor) -> Tensor:
        """Return what the projection reads at each place of a term of the output in float64. (T, D) -> (R, D)"""
        return term if self.reading is None else self.reading.double().cpu() @ term

    def rows(self, ids: Tensor) -> Tensor:
        """Return the rows of the projection for these tokens or labels, (..., D) in float64."""
        rows = self.linear.weight.detach()[ids].double().cpu()
        if self.scale is not None:
            return rows * self.scale[1]
        return rows * self.linear.scale if isinstance(self.linear, Projection) else rows

    def biases(self, ids: Tensor) -> Tensor:
        """Return the biases of these tokens or labels in float64: 0 if the projection has none."""
        bias, (_, deviation) = self.linear.bias, self.scale or (0.0, 1.0)
        return torch.zeros(ids.shape).double() if bias is None else bias.detach()[ids].double().cpu() * deviation

    def attribute(self, trace: Trace, place: int, ids: Sequence[int], names: Sequence[str]) -> Attribution:
        """Attribute the logit of a token or label at a place, or the difference of two, to the parts of the model.

        Args:
            trace: the recorded pass.
            place: the index of the place, below R.
            ids: the id of the token or label, and that of the other one, if any.
            names: their names.
        """
        at, (said, other) = torch.tensor(ids), (names[0], names[1] if len(names) > 1 else None)
        terms = self.rows(at), self.biases(at), self.logits[place].cpu()[at].double()
        direction, bias, logit = (it[0] if other is None else it[0] - it[1] for it in terms)
        own = one_hot(torch.tensor(place), len(self.logits)) if self.reading is None else self.reading[place]
        found = attribute(self.stack, trace, own, direction)
        if bias:
            found.append(Contribution("projection.bias", float(bias)))
        measure = "logit" if self.scale is None else "number"
        if self.scale is not None:
            found.append(Contribution("projection.mean", self.scale[0]))
        return Attribution(said, other, float(logit), tuple(found), trace.note, measure)


@dataclass(frozen=True)
class Words:
    """The words of an answer.

    Attributes:
        words: the words, or the tokens of a language model.
        word_of: for each token, the index of its word.
        said: the token ids, (T,).
        pieces: converts token ids to text.
        first: returns the first token of a text that would replace the word at an index, or None if it's unknown.
        begins: index of the answer's first word. Earlier words belong to the prompt, and are searched last.
    """

    words: Sequence[str]
    word_of: Sequence[int]
    said: Sequence[int]
    pieces: Callable[[Iterable[int]], list[str]]
    first: Callable[[str, int], int | None]
    begins: int = 0

    @classmethod
    def of_text(cls, answer: str, ids: Sequence[int], said: Sequence[int], tokenizer: Tokenizer) -> Self:
        """Return the words of a text, separated by spaces.

        Args:
            ids: its tokens.
            said: its tokens, and the end token if it was said.
            tokenizer: the tokenizer of the target.
        """
        words, encode = answer.split(), tokenizer.encode

        def first(text: str, place: int) -> int | None:
            before = encode(" ".join(words[:place])) if place else []
            whole = encode(" ".join([*words[:place], text]))
            fits = whole[: len(before)] == before and len(whole) > len(before)
            return _first_known(whole[len(before) :] if fits else encode(text), tokenizer)

        return cls(words, words_of(ids, tokenizer.decode), said, tokenizer.pieces, first)

    @classmethod
    def of_tokens(cls, said: Sequence[int], tokenizer: Tokenizer, begins: int) -> Self:
        """Return the tokens of a language model, each as a word.

        Args:
            said: the token ids, (T,).
            tokenizer: the tokenizer of the model.
            begins: see `Words`.
        """
        first: Callable[[str, int], int | None] = lambda text, _place: _first_known(tokenizer.encode(text), tokenizer)  # noqa: E731
        return cls(tokenizer.pieces(said), range(len(said)), said, tokenizer.pieces, first, begins)

    def why(self, forward: Pass, trace: Trace, word: str | None, other: str | None) -> Attribution:
        """Explain a word of the answer by its first token, alone or compared with that of another word.

        Args:
            forward: the pass.
            trace: its record.
            word: the word. None stands for the first one.
            other: a word that could stand in its place, if any.

        Raises:
            ConfigError: the word isn't in the answer, `other` isn't in the vocabulary, or both start alike.
        """
        index = self._index(word)
        position = self.word_of.index(index)
        ids = [self.said[position]]
        if other is not None:
            ids.append(self._first_token(other, index, ids[0]))
        return self.readout(forward, trace).attribute(trace, position, ids, self.pieces(ids))

    def readout(self, forward: Pass, trace: Trace) -> Readout:
        """Return the decoder's projection, which chooses a token at each position."""
        decoder = stacks(forward.model)["decoder"]
        assert isinstance(decoder, Decoder)
        return Readout(decoder, decoder.projection, None, trace["decoder.projection"].output[0])

    def _index(self, word: str | None) -> int:
        """Return the index of a word, which may lack its leading "▁" or trailing punctuation."""
        if word is None and self.words:
            return min(self.begins, len(self.words) - 1)
        word = word or ""
        if word not in self.words and f"{_SPACE}{word}" in self.words:
            word = f"{_SPACE}{word}"
        if word and word not in self.words:
            word = next((it for it in self.words[self.begins :] if _without_punctuation(it) == word), word)
        if word not in self.words:
            what = f"{word!r} isn't a word of the answer"
            raise unknown(what if self.words else f"{what}, which is empty", word, dict.fromkeys(self.words), "why")
        return next((n for n in range(self.begins, len(self.words)) if self.words[n] == word), self.words.index(word))

    def _first_token(self, other: str, index: int, said: int) -> int:
        token = self.first(other, index)
        if token is None:
            what = f"the model can't generate {other!r}"
            raise ConfigError(what, expected="a word from its vocabulary", name="not", value=other)
        if token == said:
            raise _alike(self.words[index], other)
        return token


def _without_punctuation(word: str) -> str:
    """Return a word without trailing punctuation."""
    while word and unicodedata.category(word[-1]).startswith("P"):
        word = word[:-1]
    return word


@dataclass(frozen=True)
class Labels:
    """All labels of a classifier, or the name of the number that it predicts.

    Attributes:
        best: the most likely label.
        said: the labels in the answer.
        of_targets: True if there are several targets, each with labels such as "queue=billing".
        scale: mean and deviation of numbers. None for labels.
        answer: returns the answer that the scores of all labels mean, (C,).
    """

    labels: Sequence[str]
    best: str
    said: Sequence[str] = ()
    of_targets: bool = False
    scale: tuple[float, float] | None = None
    answer: Callable[[NDArray[np.float64]], str] | None = field(default=None, repr=False)

    def number(self, option: str, name: str) -> int:
        """Return the index of a label. One of a target may lack the target's name; that alone means the label it has.

        Raises:
            ConfigError: there's no such label, or several targets have it.
        """
        found = [it for it in self.labels if it == name]
        if self.of_targets and not found:
            found = [it for it in self.labels if it.partition("=")[2] == name]
            found += [it for it in self.said if it.partition("=")[0] == name]
        if not found:
            raise unknown(f"{name!r} isn't a label of this model", name, self.labels, option)
        if len(found) > 1:
            what = f"{name!r} can be {' or '.join(found)}"
            raise ConfigError(what, expected="a label of one target, such as NAME=LABEL", name=option, value=name)
        return self.labels.index(found[0])

    def why(self, forward: Pass, trace: Trace, label: str | None, other: str | None) -> Attribution:
        """Explain a label, alone or compared with another.

        Args:
            forward: the pass.
            trace: its record.
            label: the label. None stands for the most likely one.
            other: another label, if any.

        Raises:
            ConfigError: the model has no such label, both are the same or of different targets, or the head isn't a
                single projection.
        """
        label = label or self.best
        ids = [self.number("why", label)] + ([] if other is None else [self.number("not", other)])
        names = [self.labels[it] for it in ids]
        if other is not None and ids[0] == ids[1]:
            raise ConfigError(f"{label!r} is compared with itself", expected="another label", name="not", value=other)
        if self.of_targets and len({it.partition("=")[0] for it in names}) > 1:
            what = f"{names[0]!r} and {names[1]!r} are labels of different targets, whose logits can't be compared"
            raise ConfigError(what, expected="labels of the same target", name="not", value=other)
        return self.readout(forward, trace, names[0]).attribute(trace, 0, ids, names)

    def readout(self, forward: Pass, trace: Trace, label: str | None = None) -> Readout:
        """Return the head's projection, which reads the first position, or the mean of all.

        Args:
            forward: the pass.
            trace: its record.
            label: the label to explain, for the message (default: the most likely one).

        Raises:
            ConfigError: the head isn't a single projection.
        """
        stack, head = (forward.model.get_submodule(it) for it in ("encoder", "head"))
        assert isinstance(stack, Encoder) and isinstance(head, ClassPredictor)
        _check_single(head.hidden, "class head", "a label's", label or self.best)
        mask = stack.embedding.mask(forward.inputs[0])
        real = torch.ones(len(forward.read), dtype=torch.bool) if mask is None else mask.flatten()
        first = one_hot(real.long().argmax(), len(real))
        reading, (mean, deviation) = (
            first if head.pooling == "first" else real.double() / real.sum(),
            self.scale or (0, 1),
        )
        logits = trace["head"].output[:1].double() * deviation + mean
        return Readout(stack, head.linear, reading[None], logits, self.scale)


@dataclass(frozen=True)
class Masks:
    """The masks of a text, and the token that the model chose for the first of them."""

    tokenizer: Tokenizer
    best: str

    def why(self, forward: Pass, trace: Trace, word: str | None, other: str | None) -> Attribution:
        """Explain a word for the first mask by its first token, alone or compared with another.

        Args:
            forward: the pass.
            trace: its record.
            word: the word. None stands for the one that the model chose.
            other: another word, if any.

        Raises:
            ConfigError: a word isn't in the vocabulary, both begin alike, or the head isn't a single projection.
        """
        word = word or self.best
        ids = [self._first("why", word)] + ([] if other is None else [self._first("not", other)])
        if len({*ids}) < len(ids):
            raise _alike(word, other)
        return self.readout(forward, trace, word).attribute(trace, 0, ids, self.pieces(ids))

    def readout(self, forward: Pass, trace: Trace, word: str | None = None) -> Readout:
        """Return the head's projection, which reads the first mask.

        Args:
            forward: the pass.
            trace: its record.
            word: the word to explain, for the message (default: the one that the model chose).

        Raises:
            ConfigError: the head isn't a single projection.
        """
        stack, head = (forward.model.get_submodule(it) for it in ("encoder", "head"))
        assert isinstance(stack, Encoder) and isinstance(head, TokenPredictor)
        assert isinstance(head.projection, Linear) and forward.at is not None
        _check_single(head.transform, "head", "a token's", word or self.best)
        reading = one_hot(forward.at[0].long().argmax(), forward.at.size(1))
        return Readout(stack, head.projection, reading[None], trace["head.projection"].output[:1])

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return self.tokenizer.pieces(ids)

    def _first(self, option: str, word: str) -> int:
        """Return a token as `fill --json` prints it, or the first one of a word."""
        tokenizer = self.tokenizer
        known = word in tokenizer.vocabulary()
        token = tokenizer.token_id(word) if known else _first_known(tokenizer.encode(word), tokenizer)
        if token is None:
            what = f"{word!r} isn't in the vocabulary"
            raise ConfigError(what, expected="a word from the vocabulary", name=option, value=word)
        return token


Choice: TypeAlias = Words | Labels | Masks


def _alike(word: str, other: str | None) -> ConfigError:
    """Return the error for two words whose first tokens are the same."""
    what = f"{word!r} and {other!r} begin with the same token"
    return ConfigError(what, expected="a word that begins with another token", name="not", value=other)


def _check_single(hidden: nn.Module | None, head: str, score: str, explained: str) -> None:
    """Raise a ConfigError if a head has a hidden layer before its projection."""
    if hidden is not None:
        what = f"this model's {head} has a hidden layer, so {score} score isn't a sum over the model's parts"
        raise ConfigError(what, expected="a model with model.head_layer=none", name="why", value=explained)


def _first_known(ids: Sequence[int], tokenizer: Tokenizer) -> int | None:
    """Return the first id, or None if there is none or it's the unknown token."""
    return next((i for i in ids[:1] if i != tokenizer.special.unk), None)
