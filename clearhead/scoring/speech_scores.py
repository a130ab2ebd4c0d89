"""Scores of speech: error rates of transcripts, per word (WER) and per character (CER), and distances of recordings."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bootstrap import FloatArray, draws, interval

Patches = NDArray[np.float32]
_DECIBELS = 10 / math.log(10)  # in a unit of the natural logarithm of power


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


def mel_distortion(one: Patches, other: Patches) -> float:
    """Return the distance between two log-mel spectrograms in dB, as patches (P, ...) and (Q, ...).

    A path of pairs of patches leads from the first pair to the last, without a step back on either side. The result is
    the mean distance over the path with the smallest sum. The distance of a pair is the root mean square difference of
    all its frames and bands. Both have at least one patch.
    """
    flat, against = (it.reshape(len(it), -1).astype(np.float64) for it in (one, other))
    squares = np.square(flat).mean(1)[:, None] + np.square(against).mean(1) - 2 * flat @ against.T / flat.shape[1]
    costs = np.sqrt(squares.clip(min=0)).tolist()
    before = [(math.inf, 0)] * (len(against) + 1)  # the smallest sum up to a pair, and the pairs on the path
    before[0] = (0.0, 0)
    for row in costs:
        current = [(math.inf, 0)]
        for place, cost in enumerate(row):
            total, length = min(before[place], before[place + 1], current[place])
            current.append((total + cost, length + 1))
        before = current
    total, length = before[-1]
    return _DECIBELS * total / length
