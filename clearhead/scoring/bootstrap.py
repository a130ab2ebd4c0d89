"""Bootstrap over examples: confidence intervals (Efron 1979), and tests of the difference between systems (Koehn 2004).

Samples of a corpus, drawn with replacement, show how much a score would vary between similar corpora. Means and corpus
scores (BLEU, chrF) are resampled alike, as in sacrebleu.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError
from .translation_scores import References, check, columns

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

FloatArray: TypeAlias = NDArray[np.floating[Any]]
IntArray: TypeAlias = NDArray[np.int64]

SAMPLES, SEED = 1000, 12345  # as in sacrebleu
_ROUNDING = 1e-9  # relative tolerance for rounding


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
    samples = resampled_means(values)
    return [Estimate(own, float(own.mean()), *interval(means)) for own, means in zip(values.T, samples.T)]


def resampled_means(values: FloatArray) -> FloatArray:
    """Return the means of M scores on each sample. (N, M) -> (1000, M)

    Each score is computed independently of the others, down to rounding.
    """
    scores = np.ascontiguousarray(values.T)
    means = np.empty((SAMPLES, len(scores)))
    for sample, times in zip(means, draws(len(values))):
        drawn = times.astype(np.float64)
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


# --- several systems


@dataclass(frozen=True)
class Compared:
    """A system compared with the first one.

    Args:
        score: score on all examples.
        mean: mean of the scores on the resampled corpora.
        interval: half the width of their 95% interval.
        p_value: two-tailed p-value of the difference from the first system (None for the first system).
        difference: 95% interval of the difference from the first system (None for the first system).
    """

    system: str
    score: float
    mean: float
    interval: float
    p_value: float | None
    difference: tuple[float, float] | None = None


@dataclass(frozen=True)
class Comparison:
    """Comparison of systems on the same data, keyed by score, with signatures to reproduce the scores."""

    by_score: Mapping[str, list[Compared]]
    signatures: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        systems = {name: [asdict(it) for it in compared] for name, compared in self.by_score.items()}
        return systems | {f"{name}_signature": signature for name, signature in self.signatures.items()}


def paired_bootstrap(systems: Sequence[tuple[str, Sequence[str]]], references: References) -> Comparison:
    """Compare several systems' translations with those of the first system, by BLEU and chrF.

    The test draws 1,000 samples of the sentences with replacement, with a fixed seed and the same samples for all
    systems. Scores, means and intervals match those of sacrebleu's own test, to the last digit.

    Args:
        systems: the name and the translations of each system, all in the same order.
        references: one or more references for each sentence.

    Raises:
        DataError: there are fewer than two systems, or the numbers of translations and references differ.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    names = _at_least_two(systems)
    for _, translations in systems:
        check(translations, references)
    metrics: dict[str, Metric] = {"bleu": BLEU(force=True), "chrf": CHRF()}
    by_score, signatures = {}, {}
    for name, metric in metrics.items():
        found = [_corpus_scores(metric, list(texts), references) for _, texts in systems]
        by_score[name] = _compared(names, [score for score, _ in found], np.stack([it for _, it in found]))
        signature = metric.get_signature()
        signature.update("seed", str(SEED))
        signature.update("bs", str(SAMPLES))
        signatures[name] = str(signature)
    return Comparison(by_score, signatures)


def compare_means(systems: Sequence[tuple[str, FloatArray]]) -> list[Compared]:
    """Compare systems with the first one by a score that is a mean over examples (accuracy, ROUGE, F1).

    Args:
        systems: the name of each system and its values (N,), on the same examples in the same order.

    Raises:
        DataError: there are fewer than two systems, a value isn't finite, or the systems have different numbers of
            values.
    """
    names, values = _at_least_two(systems), _aligned(systems)
    scores = np.ones(len(values)) @ values / len(values)
    return _compared(names, scores.tolist(), resampled_means(values).T)


def two_tailed_p_value(samples: FloatArray, measured: float) -> float:
    """Return the p-value of a measured difference, given the differences on resampled corpora. (B,) -> number

    The samples vary around the measured difference as the measured difference varies around the true one. If the true
    difference is 0, the probability of measuring one at least this large, in either direction, is

    p = (1 + number of samples with |difference - measured| >= |measured|) / (1 + B)
    """
    extreme = np.abs(samples - measured) >= abs(measured) * (1 - _ROUNDING)
    return (int(extreme.sum()) + 1) / (len(samples) + 1)


def _compared(names: Sequence[str], scores: Sequence[float], samples: FloatArray) -> list[Compared]:
    """Compare K systems with the first one, given their scores (K,) and their scores on each sample (K, 1000)."""
    found: list[Compared] = []
    for name, score, own in zip(names, scores, samples):
        low, high = interval(own)
        mean = float(np.sort(own).mean())  # sorted as in sacrebleu, to round the same way
        it = Compared(name, score, mean, (high - low) / 2, None)
        if found:
            change = own - samples[0]
            it = replace(it, p_value=two_tailed_p_value(change, score - scores[0]), difference=interval(change))
        found.append(it)
    return found


def _corpus_scores(metric: "Metric", texts: list[str], references: References) -> tuple[float, FloatArray]:
    """Return the scores of a corpus and of its samples, computed from sentence statistics. -> number, (1000,)

    This calls the same methods as sacrebleu's own test, also in float32, so the results are identical.
    """
    counted = metric._extract_corpus_statistics(texts, columns(references))
    each = np.array(counted, np.float32)
    sums: Iterator[Any] = (times.astype(np.float32) @ each for times in draws(len(texts)))
    samples = [metric._compute_score_from_stats(it).score for it in sums]
    return float(metric._aggregate_and_compute(counted).score), np.array(samples)


def _at_least_two(systems: Sequence[tuple[str, Any]]) -> list[str]:
    """Return the names of the systems. Raise DataError if there are fewer than two."""
    if len(systems) < 2:
        raise DataError(f"{len(systems)} systems can't be compared", expected="at least two", value=len(systems))
    return [name for name, _ in systems]


def _aligned(systems: Sequence[tuple[str, FloatArray]]) -> FloatArray:
    """Check the values of K systems, (N,) each, and return them as one array (N, K)."""
    (first, examples), *_ = systems
    for name, values in systems:
        if values.shape != (len(examples),) or not len(values):
            what = f"the values of {name} have shape {values.shape}, and those of {first} {examples.shape}"
            expected = "one value for each of the same examples, and at least one example"
            raise DataError(what, expected=expected, name=name, value=values.shape)
        if not np.isfinite(values).all():
            place = int(np.isfinite(values).argmin())
            what = f"value {place} of {name} is {values[place]}"
            raise DataError(what, expected="a finite number", name=name, value=values[place])
    return np.stack([values for _, values in systems], axis=1).astype(np.float64)
