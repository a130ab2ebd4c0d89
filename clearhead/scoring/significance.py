"""Whether one system is better than another, or was lucky: the paired bootstrap (Koehn 2004).

Scores of a whole corpus, BLEU and chrF, are resampled as sacrebleu does it, and means over examples in the same way.
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


@dataclass(frozen=True)
class Compared:
    """A system's score, its mean over resampled corpora with half of their 95% interval, a p, and the ends of the 95%
    interval of the `difference` to the first system.

    p = (1 + the number of resampled corpora with |difference| - mean |difference| > |measured difference|) / 1001, the
    differences being those to the first system, which has none. It counts one tail: that of a two-sided test is about
    twice as large.
    """

    system: str
    score: float
    mean: float
    interval: float
    p_value: float | None
    difference: tuple[float, float] | None = None


@dataclass(frozen=True)
class Comparison:
    """Systems on the same data, by each score; some scores have a signature, with which others can reproduce them."""

    by_score: Mapping[str, list[Compared]]
    signatures: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        systems = {name: [asdict(it) for it in compared] for name, compared in self.by_score.items()}
        return systems | {f"{name}_signature": signature for name, signature in self.signatures.items()}


def paired_bootstrap(systems: Sequence[tuple[str, Sequence[str]]], references: References) -> Comparison:
    """Compare the translations of several systems, named and in the same order, with those of the first.

    Sentences are drawn a thousand times with replacement, the same for all systems, by a seed that is always the same.
    The figures are those of sacrebleu's own test, to the last digit. Fewer than two systems, and translations that do
    not match the references in number, are a DataError.
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

    A system is a name and the value of each example, (N,): of the same examples in the same order for all systems. A
    score that is a ratio of sums is a weighted mean, with weights (N,): bits per byte are those of each text, weighted
    by its bytes. Fewer than two systems, values that are not finite, or not one for each of the same examples, and
    weights that are not above 0 are a DataError.
    """
    names, values = _at_least_two(systems), _side_by_side(systems)
    if weights is None:
        weights = np.ones(len(values))
    elif weights.shape != values.shape[:1] or not (np.isfinite(weights) & (weights > 0)).all():
        raise DataError(f"the weights of the examples are not {len(values)} finite numbers above 0, one for each")
    scores = weights @ values / weights.sum()
    return _compared(names, scores.tolist(), resampled_means(values, weights).T)


def _compared(names: Sequence[str], scores: Sequence[float], samples: FloatArray) -> list[Compared]:
    """Each of K systems beside the first, from its score on all examples and those on the samples. (K,), (K, 1000)"""
    found: list[Compared] = []
    for name, score, own in zip(names, scores, samples):
        low, high = interval(own)
        mean = float(np.sort(own).mean())  # in sacrebleu's order, for the last digit
        it = Compared(name, score, mean, (high - low) / 2, None)
        if found:
            change = own - samples[0]
            away = np.abs(change)
            exceeding = int((away - away.mean() > abs(score - scores[0])).sum())
            p_value = (exceeding + 1) / (SAMPLES + 1) if change.any() else 1.0  # no difference is no chance
            it = replace(it, p_value=p_value, difference=interval(change))
        found.append(it)
    return found


def _corpus_scores(metric: "Metric", texts: list[str], references: References) -> tuple[float, FloatArray]:
    """The score of a corpus, and those of its samples, from what sacrebleu counts in each sentence. -> (1000,)

    By the methods that its own test calls, and in float32 as there: the figures are the same to the last digit.
    """
    counted = metric._extract_corpus_statistics(texts, columns(references))
    each = np.array(counted, np.float32)
    sums: Iterator[Any] = (times.astype(np.float32) @ each for times in draws(len(texts)))
    samples = [metric._compute_score_from_stats(it).score for it in sums]
    return float(metric._aggregate_and_compute(counted).score), np.array(samples)


def _at_least_two(systems: Sequence[tuple[str, Any]]) -> list[str]:
    """Their names."""
    if len(systems) < 2:
        raise DataError(f"{len(systems)} systems cannot be compared; expected at least two")
    return [name for name, _ in systems]


def _side_by_side(systems: Sequence[tuple[str, FloatArray]]) -> FloatArray:
    """The values of all systems, when they can be compared. K systems of (N,) -> (N, K)"""
    (first, examples), *_ = systems
    for name, values in systems:
        if values.shape != (len(examples),) or not len(values):
            raise DataError(
                f"{name} has values of shape {values.shape}, {first} of shape {examples.shape}; expected one value for "
                "each of the same examples, and at least one"
            )
        if not np.isfinite(values).all():
            place = int(np.isfinite(values).argmin())
            raise DataError(f"value {place} of {name} is {values[place]}; expected a finite number")
    return np.stack([values for _, values in systems], axis=1).astype(np.float64)
