"""Test whether one system is better than another, or was lucky: the paired bootstrap (Koehn 2004), two-tailed.

Scores of a whole corpus (BLEU, chrF) are resampled as sacrebleu does it, and means over examples in the same way.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DataError
from .resampling import SAMPLES, SEED, FloatArray, draws, interval, resampled_means
from .translation_scores import References, check, columns

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

_ROUNDING = 1e-9  # relative; differences that only rounding tells apart are equal


@dataclass(frozen=True)
class Compared:
    """A system compared with the first one.

    Args:
        system: its name.
        score: its score on all examples.
        mean: the mean of its scores on the resampled corpora.
        interval: half of their 95% interval.
        p_value: the two-tailed p-value of the difference to the first system, which has none.
        difference: the 95% interval of that difference.
    """

    system: str
    score: float
    mean: float
    interval: float
    p_value: float | None
    difference: tuple[float, float] | None = None


@dataclass(frozen=True)
class Comparison:
    """Systems on the same data, by score. The signature of a score lets others reproduce it."""

    by_score: Mapping[str, list[Compared]]
    signatures: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        systems = {name: [asdict(it) for it in compared] for name, compared in self.by_score.items()}
        return systems | {f"{name}_signature": signature for name, signature in self.signatures.items()}


def paired_bootstrap(systems: Sequence[tuple[str, Sequence[str]]], references: References) -> Comparison:
    """Compare the translations of several systems with those of the first one, by BLEU and chrF.

    Sentences are drawn 1,000 times with replacement, the same ones for all systems and always with the same seed.
    Scores, means and intervals equal those of sacrebleu's own test, to the last digit.

    Args:
        systems: the name and the translations of each system, in the same order.
        references: one or more references for each sentence.

    Raises:
        DataError: there are fewer than two systems, or the number of translations isn't that of the references.
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


def compare_means(systems: Sequence[tuple[str, FloatArray]], weights: FloatArray | None = None) -> list[Compared]:
    """Compare scores that are means over examples (accuracy, ROUGE, F1) with that of the first system.

    Args:
        systems: the name of each system and its values (N,), on the same examples in the same order.
        weights: the weight of each example (N,). A ratio of sums is a weighted mean: bits per byte are those of each
            text, weighted by its bytes.

    Raises:
        DataError: there are fewer than two systems, a value isn't finite, there isn't one value for each example, or a
            weight isn't above 0.
    """
    names, values = _at_least_two(systems), _aligned(systems)
    if weights is None:
        weights = np.ones(len(values))
    elif weights.shape != values.shape[:1] or not (np.isfinite(weights) & (weights > 0)).all():
        raise DataError("the weights of the examples can't be used", expected=f"{len(values)} finite numbers above 0")
    scores = weights @ values / weights.sum()
    return _compared(names, scores.tolist(), resampled_means(values, weights).T)


def two_tailed_p_value(samples: FloatArray, measured: float) -> float:
    """Return the p-value of a measured difference from differences on resampled corpora. (B,) -> number

    The samples scatter around the measured difference as that scatters around the true one. If the true difference
    is 0, a measured one at least this large, in either direction, has the probability

    p = (1 + number of samples with |difference - measured| >= |measured|) / (1 + B)
    """
    extreme = np.abs(samples - measured) >= abs(measured) * (1 - _ROUNDING)
    return (int(extreme.sum()) + 1) / (len(samples) + 1)


def _compared(names: Sequence[str], scores: Sequence[float], samples: FloatArray) -> list[Compared]:
    """Compare K systems with the first one, from their scores and those of the samples. (K,), (K, 1000)"""
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
    """Return the score of a corpus and those of its samples, computed from sentence statistics. -> (1000,)

    This calls the methods that sacrebleu's own test calls, and in float32, so the results are identical.
    """
    counted = metric._extract_corpus_statistics(texts, columns(references))
    each = np.array(counted, np.float32)
    sums: Iterator[Any] = (times.astype(np.float32) @ each for times in draws(len(texts)))
    samples = [metric._compute_score_from_stats(it).score for it in sums]
    return float(metric._aggregate_and_compute(counted).score), np.array(samples)


def _at_least_two(systems: Sequence[tuple[str, Any]]) -> list[str]:
    """Return the names of the systems."""
    if len(systems) < 2:
        raise DataError(f"{len(systems)} systems can't be compared", expected="at least two", value=len(systems))
    return [name for name, _ in systems]


def _aligned(systems: Sequence[tuple[str, FloatArray]]) -> FloatArray:
    """Return the values of all systems as one array. K systems of (N,) -> (N, K)"""
    (first, examples), *_ = systems
    for name, values in systems:
        if values.shape != (len(examples),) or not len(values):
            raise DataError(
                f"the values of {name} have shape {values.shape}, and those of {first} {examples.shape}",
                expected="one value for each of the same examples, and at least one example",
                name=name,
                value=values.shape,
            )
        if not np.isfinite(values).all():
            place = int(np.isfinite(values).argmin())
            what = f"value {place} of {name} is {values[place]}"
            raise DataError(what, expected="a finite number", name=name, value=values[place])
    return np.stack([values for _, values in systems], axis=1).astype(np.float64)
