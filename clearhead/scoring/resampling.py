"""Bootstrap confidence intervals of means over examples (Efron 1979).

Samples of a corpus, drawn with replacement, show how much a score would vary between similar corpora.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.floating[Any]]
IntArray: TypeAlias = NDArray[np.int64]

SAMPLES, SEED = 1000, 12345  # as in sacrebleu, so means and BLEU are resampled the same way


@dataclass(frozen=True, eq=False)
class Estimate:
    """The mean of a score over N examples, with its 95% interval."""

    values: FloatArray  # the score of each example (N,)
    mean: float
    low: float
    high: float

    def named(self, name: str) -> dict[str, Any]:
        """Return plain values for JSON: the mean as `name`, and the interval as `name_interval`."""
        return {name: self.mean, f"{name}_interval": [self.low, self.high]}


def estimates(values: FloatArray) -> list[Estimate]:
    """Return an estimate for each of M scores on N >= 1 examples, all from the same samples. (N, M) -> M estimates"""
    samples = resampled_means(values, np.ones(len(values)))
    return [Estimate(own, float(own.mean()), *interval(means)) for own, means in zip(values.T, samples.T)]


def resampled_means(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the weighted means of M scores on each sample. (N, M), (N,) -> (1000, M)

    Each score is computed independently of the others, down to rounding.
    """
    scores = np.ascontiguousarray(values.T)
    means = np.empty((SAMPLES, len(scores)))
    for sample, times in zip(means, draws(len(values))):
        drawn = times * weights
        sample[:] = (scores * drawn).sum(1) / drawn.sum()
    return means


def draws(n: int) -> Iterator[IntArray]:
    """Yield the draw counts of n examples for 1,000 samples, one sample at a time to save memory. -> (N,) each"""
    dice = np.random.default_rng(SEED)
    for _ in range(SAMPLES):
        yield np.bincount(dice.choice(n, size=n), minlength=n)


def interval(means: FloatArray) -> tuple[float, float]:
    """Return the 95% interval of the samples, leaving out one in forty at each end."""
    ordered, out = np.sort(means), len(means) // 40
    return float(ordered[out]), float(ordered[-out - 1])
