"""How far chance may have carried a mean over examples: the bootstrap (Efron 1979).

What other corpora of the same kind would have given is seen on samples of this one, drawn with replacement.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.floating[Any]]
IntArray: TypeAlias = NDArray[np.int64]

SAMPLES, SEED = 1000, 12345  # as sacrebleu has them, so that a mean and BLEU are resampled alike


@dataclass(frozen=True, eq=False)
class Estimate:
    """The mean of a score over N examples, and the ends of its 95% interval."""

    values: FloatArray  # (N,) of each example
    mean: float
    low: float
    high: float

    def named(self, name: str) -> dict[str, Any]:
        """Plain values for JSON: the mean as `name`, the ends as the list `name_interval`."""
        return {name: self.mean, f"{name}_interval": [self.low, self.high]}


def estimates(values: FloatArray) -> list[Estimate]:
    """Several scores of the same examples, on the same samples. (N, M), N at least 1 -> M estimates"""
    samples = resampled_means(values, np.ones(len(values)))
    return [Estimate(own, float(own.mean()), *interval(means)) for own, means in zip(values.T, samples.T)]


def resampled_means(values: FloatArray, weights: FloatArray) -> FloatArray:
    """The weighted means of M scores on each sample. (N, M), (N,) -> (1000, M)

    A score's means do not depend on the others, not even in rounding.
    """
    scores = np.ascontiguousarray(values.T)
    means = np.empty((SAMPLES, len(scores)))
    for sample, times in zip(means, draws(len(values))):
        drawn = times * weights
        sample[:] = (scores * drawn).sum(1) / drawn.sum()
    return means


def draws(n: int) -> Iterator[IntArray]:
    """How often each of n examples is drawn, sample by sample: all at once would take gigabytes of a large corpus.

    -> 1000 times (N,)
    """
    dice = np.random.default_rng(SEED)
    for _ in range(SAMPLES):
        yield np.bincount(dice.choice(n, size=n), minlength=n)


def interval(means: FloatArray) -> tuple[float, float]:
    """Between which ends 95% of the samples lie: one in forty is left out on each side."""
    ordered, out = np.sort(means), len(means) // 40
    return float(ordered[out]), float(ordered[-out - 1])
