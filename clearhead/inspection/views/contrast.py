"""What "why this and not that" asks of a model: which places of its last state are read, and along which direction."""

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ...errors import ConfigError, did_you_mean
from ...model.heads import Classifier
from ...model.linear import Linear
from ...model.transformer import Decoder, Encoder
from ...tokenization.tokenizer import UNK
from ..record.trace import Trace
from .attribution import Attribution, Contribution, attribute

_BEGINS = "▁"  # where tokens are the words: what stands for the space before one


@dataclass(frozen=True)
class Contrast:
    """The difference of two logits, or one logit: <mean of the stack's output by `reading`, `direction`> + `bias`."""

    said: str
    other: str | None
    reading: Tensor  # (T,)
    direction: Tensor  # (D,)
    bias: float
    difference: float  # of the model's own logits

    def explained(self, stack: Encoder | Decoder, trace: Trace) -> Attribution:
        """Which part of a recorded pass adds how much to it."""
        found = attribute(stack, trace, self.reading, self.direction)
        if self.bias:
            found.append(Contribution("projection.bias", self.bias))
        return Attribution(self.said, self.other, self.difference, tuple(found), trace.note)


@dataclass(frozen=True)
class Words:
    """The words of an answer, and for each token that was said (T) which of them it is of, -1 for none.

    `first` is the token of a text that is to stand at a place of the answer: (text, place) -> id. Words before
    `begins` were given, and are asked for last.
    """

    words: Sequence[str]
    word_of: Sequence[int]
    said: Sequence[int]
    pieces: Callable[[Iterable[int]], list[str]]
    first: Callable[[str, int], int]
    begins: int = 0

    def contrast(self, decoder: Decoder, trace: Trace, word: str | None, other: str | None) -> Contrast:
        """Why the first token of a word was said (without one, of the first), and not that of another. A ConfigError
        where the word was not."""
        word = self.words[min(self.begins, len(self.words) - 1)] if word is None and self.words else word or ""
        if word not in self.words and f"{_BEGINS}{word}" in self.words:  # of a token that begins a word
            word = f"{_BEGINS}{word}"
        if word and word not in self.words:  # what stands behind one may be left out: `faim` is `faim.`
            word = next((it for it in self.words[self.begins :] if _without_marks(it) == word), word)
        if word not in self.words:
            some = ", ".join(dict.fromkeys(self.words))
            raise ConfigError(
                f"{word!r} is no word of the answer; expected one of {some or 'none'}{did_you_mean(word, self.words)}"
            )
        number = next((n for n in range(self.begins, len(self.words)) if self.words[n] == word), self.words.index(word))
        place = self.word_of.index(number)
        ids = [self.said[place]]
        if other is not None:
            ids.append(self.first(other, number))
            if ids[1] == UNK:
                raise ConfigError(f"{other!r} is no word that the model can say; expected one of its training")
            if ids[0] == ids[1]:
                raise ConfigError(f"{word!r} and {other!r} begin with the same token; expected words that do not")
        logits = trace["decoder.projection"].output[0, place]
        reading = torch.nn.functional.one_hot(torch.tensor(place), len(self.said))
        said, *others = self.pieces(ids)
        return Contrast(said, others[0] if others else None, reading, *_along(decoder.projection, logits, ids))


def _without_marks(word: str) -> str:
    """A word without the marks at its end."""
    while word and unicodedata.category(word[-1]).startswith("P"):
        word = word[:-1]
    return word


def label_contrast(
    head: Classifier, trace: Trace, real: Tensor, labels: Sequence[str], label: str, other: str | None
) -> Contrast:
    """Why a text has this label and not another; `real` (T,) is True for the tokens that are pooled. ConfigError: it
    is no label of the model."""
    for name in (label, other):
        if name is not None and name not in labels:
            raise ConfigError(
                f"{name!r} is no label of the model; expected one of {', '.join(labels)}{did_you_mean(name, labels)}"
            )
    ids = [labels.index(name) for name in (label, other) if name is not None]
    if len({*ids}) < len(ids):
        raise ConfigError(f"{label!r} is the label on both sides; expected another to compare it with")
    reading = real.double() / real.sum()
    if head.pooling == "first":
        reading = torch.nn.functional.one_hot(real.long().argmax(), len(real))
    return Contrast(label, other, reading, *_along(head.linear, trace["head"].output[0], ids))


def _along(linear: Linear, logits: Tensor, ids: Sequence[int]) -> tuple[Tensor, float, float]:
    """The direction, the bias and the value of a logit, or of the difference of two."""
    rows, values = linear.weight.detach()[list(ids)].double(), logits[list(ids)].double()
    biases = torch.zeros(len(ids)) if linear.bias is None else linear.bias.detach()[list(ids)].double()
    if len(ids) == 1:
        return rows[0], float(biases[0]), float(values[0])
    return rows[0] - rows[1], float(biases[0] - biases[1]), float(values[0] - values[1])
