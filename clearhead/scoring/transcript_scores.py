"""Error rates of transcripts: the edits that turn them into the references, per word (WER) and per character (CER)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .bootstrap import FloatArray, draws, interval


@dataclass(frozen=True, eq=False)
class ErrorRate:
    """All edits divided by the length of all references, with its 95% interval.

    Attributes:
        edits: the substitutions, insertions and deletions of each transcript (N,).
        lengths: the words or characters of each reference (N,).
    """

    edits: FloatArray
    lengths: FloatArray
    rate: float
    low: float
    high: float

    @classmethod
    def of(cls, edits: Sequence[int], lengths: Sequence[int]) -> "ErrorRate":
        """Return the rate, and its interval by the bootstrap over transcripts."""
        wrong, total = np.array(edits, np.float64), np.array(lengths, np.float64)
        rates = np.array([(times * wrong).sum() / max((times * total).sum(), 1) for times in draws(len(wrong))])
        return cls(wrong, total, float(wrong.sum() / max(total.sum(), 1)), *interval(rates))

    def singly(self) -> FloatArray:
        """Return the rate of each transcript. (N,)"""
        return self.edits / np.maximum(self.lengths, 1)


def error_rates(answers: Sequence[str], references: Sequence[str]) -> tuple[ErrorRate, ErrorRate]:
    """Return the word and the character error rate of N >= 1 transcripts. White space only separates words."""
    words = [(one.split(), other.split()) for one, other in zip(answers, references, strict=True)]
    letters = [(" ".join(one), " ".join(other)) for one, other in words]
    wer = ErrorRate.of([edit_distance(*it) for it in words], [len(it) for _, it in words])
    cer = ErrorRate.of([edit_distance(*it) for it in letters], [len(it) for _, it in letters])
    return wer, cer


def edit_distance(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Return the fewest substitutions, insertions and deletions that turn one sequence into the other."""
    before = list(range(len(other) + 1))
    for i, item in enumerate(one, 1):
        row = [i]
        for j, against in enumerate(other, 1):
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (item != against)))
        before = row
    return before[-1]
