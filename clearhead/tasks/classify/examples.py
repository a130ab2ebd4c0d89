"""Labelled texts as tokens and label numbers."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ...data.encoding import Encoded
from ...readers.pairs import Pairs
from ...readers.skipped import Skipped
from ...tokenization.ragged import IntArray, Ragged
from ...tokenization.tokenizer import Tokenizer
from ..examples import Examples

_NAMED = 3  # unknown words in a message
UNSEEN = "with a label that isn't in the training data"
_UNKNOWN = "texts with words or characters missing from the vocabulary, which become <unk>"


@dataclass(frozen=True)
class LabelledTexts(Examples):
    """Tokenized texts. The target of each text is its label number."""

    given: ClassVar[int] = 0
    counts_sources: ClassVar[bool] = True

    @cached_property
    def numbers(self) -> IntArray:
        """The label of each text. (N,)"""
        return np.asarray(self.targets.tokens, np.int64)

    def weights(self, n_labels: int) -> NDArray[np.float32]:
        """Return a weight for each label. All labels have the same total weight, and the mean weight is 1. (C,)

        w_c = N / (C * number of texts with label c)
        """
        counts = np.bincount(self.numbers, minlength=n_labels)
        return (len(self) / (n_labels * counts.clip(min=1))).astype(np.float32)


@dataclass(frozen=True)
class LabelledEncoder:
    """Tokenizes texts and numbers their labels.

    Args:
        tokenizer: the tokenizer of the texts.
        labels: all labels, in the order of their numbers.
        longest: maximum number of tokens in a text. Longer texts are truncated.
        limit: name of the setting that `longest` comes from.
        begins: True if texts begin with BOS. They always end with EOS.
    """

    tokenizer: Tokenizer
    labels: Sequence[str]
    longest: int
    limit: str
    begins: bool = False

    def tokens(self, texts: Sequence[str]) -> tuple[list[list[int]], list[int]]:
        """Return the tokens of each text, and how many of its tokens were cut off."""
        encoded, special = self.tokenizer.encode_batch(texts), self.tokenizer.special
        cut = [max(len(ids) - self.longest, 0) for ids in encoded]
        return [special.source(ids[: self.longest], begins=self.begins) for ids in encoded], cut

    def __call__(self, pairs: Pairs) -> Encoded:
        """Tokenize all texts. Truncated texts and unknown words are reported."""
        numbers = {label: number for number, label in enumerate(self.labels)}
        tokens, cut = self.tokens(pairs.sources)
        reason = f"texts longer than {self.longest} tokens ({self.limit}); only their beginning is read"
        noticed = [Skipped(int(pairs.lines[i]), reason, pairs.sources[i]) for i, count in enumerate(cut) if count]
        for i in (i for i, ids in enumerate(tokens) if self.tokenizer.special.unk in ids):
            words = ", ".join(self.tokenizer.unknown_words(pairs.sources[i])[:_NAMED])
            noticed.append(Skipped(int(pairs.lines[i]), _UNKNOWN, words))
        targets = Ragged([[numbers[label]] for label in pairs.targets])
        return Encoded(Ragged(tokens), targets, [*range(len(tokens))], [], noticed)

    def each(self, chunks: Iterable[Pairs], count: int, processes: int) -> Iterator[Encoded]:
        """Tokenize each chunk in this process; the tokenizer library uses all cores."""
        yield from map(self, chunks)


@dataclass(frozen=True)
class HeldOutTexts:
    """Held-out texts for scoring.

    Args:
        examples: the texts whose label the model knows, for the loss.
        too_long: the texts with an unknown label.
        cut: the number of truncated texts.
        sources: all texts.
        tokens: their tokens.
        labels: the labels of the model, followed by the ones it doesn't know.
        truth: the label number of each text (N,).
    """

    examples: LabelledTexts
    too_long: list[Skipped]
    cut: int
    sources: Sequence[str]
    tokens: Ragged
    labels: tuple[str, ...]
    truth: IntArray

    @property
    def references(self) -> list[list[str]]:
        """The label of each text."""
        return [[self.labels[number]] for number in self.truth]

    @classmethod
    def of(cls, pairs: Pairs, encoder: LabelledEncoder) -> "HeldOutTexts":
        """Prepare texts for scoring. Every answer to a text with an unknown label counts as wrong."""
        known = set(encoder.labels)
        labels = (*encoder.labels, *sorted({*pairs.targets} - known))
        numbers = {label: number for number, label in enumerate(labels)}
        tokens, cut = encoder.tokens(pairs.sources)
        can_be = [i for i, label in enumerate(pairs.targets) if label in known]
        truth = [numbers[label] for label in pairs.targets]
        unseen = [
            Skipped(line, UNSEEN, f"{label}: {text}")
            for line, text, label in zip(pairs.lines, pairs.sources, pairs.targets)
            if label not in known
        ]
        examples = LabelledTexts(Ragged([tokens[i] for i in can_be]), Ragged([[truth[i]] for i in can_be]))
        places = np.array(truth, np.int64)
        return cls(examples, unseen, sum(map(bool, cut)), pairs.sources, Ragged(tokens), labels, places)
