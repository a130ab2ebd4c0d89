"""Bootstrap confidence intervals of means over examples (Efron 1979).

Samples of a corpus, drawn with replacement, show how much a score would vary between corpora of the same kind.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.floating[Any]]
IntArray: TypeAlias = NDArray[np.int64]

SAMPLES, SEED = 1000, 12345  # the same as in sacrebleu, so that means and BLEU are resampled alike


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
    """Return the estimates of M scores on the same N >= 1 examples, all from the same samples. (N, M) -> M estimates"""
    samples = resampled_means(values, np.ones(len(values)))
    return [Estimate(own, float(own.mean()), *interval(means)) for own, means in zip(values.T, samples.T)]


def resampled_means(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the weighted means of M scores on each sample. (N, M), (N,) -> (1000, M)

    The means of a score don't depend on the other scores, not even in rounding.
    """
    scores = np.ascontiguousarray(values.T)
    means = np.empty((SAMPLES, len(scores)))
    for sample, times in zip(means, draws(len(values))):
        drawn = times * weights
        sample[:] = (scores * drawn).sum(1) / drawn.sum()
    return means


def draws(n: int) -> Iterator[IntArray]:
    """Yield how often each of n examples is drawn, one sample at a time to save memory. -> 1000 times (N,)"""
    dice = np.random.default_rng(SEED)
    for _ in range(SAMPLES):
        yield np.bincount(dice.choice(n, size=n), minlength=n)


def interval(means: FloatArray) -> tuple[float, float]:
    """Return the 95% interval of the samples, which leaves out one in forty at each end."""
    ordered, out = np.sort(means), len(means) // 40
    return float(ordered[out]), float(ordered[-out - 1])
