"""Whether one system is better than another, or was lucky: the paired bootstrap (Koehn 2004).

Scores of a whole corpus, BLEU and chrF, are resampled by sacrebleu; those that are means over examples, here.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..errors import DataError
from .resampling import SAMPLES, SEED, FloatArray, interval, resampled_means
from .scores import References, check, columns

_SEED_NAME = "SACREBLEU_SEED"  # the variable that sacrebleu takes it from


@dataclass(frozen=True)
class Compared:
    """A system's score, its mean over resampled corpora with half of their 95% interval, and a p.

    p = (1 + the number of resampled corpora with |difference| - mean |difference| > |measured difference|) / 1001, the
    differences being those to the first system, which has none. It counts one tail: that of a two-sided test is about
    twice as large.
    """

    system: str
    score: float
    mean: float
    interval: float
    p_value: float | None


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
    Fewer than two systems, and translations that do not match the references in number, are a DataError.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.significance import PairedTest

    if len(systems) < 2:
        raise DataError(f"{len(systems)} systems cannot be compared; expected at least two")
    for _, translations in systems:
        check(translations, references)
    named: list[tuple[str, Sequence[str]]] = [(name, list(translations)) for name, translations in systems]
    metrics = {"BLEU": BLEU(force=True), "chrF": CHRF()}
    with _fixed_seed():
        signatures, scores = PairedTest(named, metrics, columns(references), test_type="bs", n_samples=SAMPLES)()
    by_metric = {name[:4].lower(): name for name in scores if name != "System"}  # chrF2 is called so

    def compared(metric: str) -> list[Compared]:
        results: Any = scores[by_metric[metric]]  # its types mix these with the systems' names
        return [
            Compared(name, float(it.score), float(it.mean), float(it.ci), _p_value(it, results[0]))
            for (name, _), it in zip(systems, results)
        ]

    names = ("bleu", "chrf")
    return Comparison({it: compared(it) for it in names}, {it: str(signatures[by_metric[it]]) for it in names})


def compare_means(systems: Sequence[tuple[str, FloatArray]], weights: FloatArray | None = None) -> list[Compared]:
    """Compare scores that are means over examples (accuracy, ROUGE, F1) with that of the first system.

    A system is a name and the value of each example, (N,): of the same examples in the same order for all systems. A
    score that is a ratio of sums is a weighted mean, with weights (N,): bits per byte are those of each text, weighted
    by its bytes. Fewer than two systems, values that are not finite, or not one for each of the same examples, and
    weights that are not above 0 are a DataError.
    """
    if len(systems) < 2:
        raise DataError(f"{len(systems)} systems cannot be compared; expected at least two")
    values = _side_by_side(systems)
    if weights is None:
        weights = np.ones(len(values))
    elif weights.shape != values.shape[:1] or not (np.isfinite(weights) & (weights > 0)).all():
        raise DataError(f"the weights of the examples are not {len(values)} finite numbers above 0, one for each")
    scores, samples = weights @ values / weights.sum(), resampled_means(values, weights)
    compared = []
    for k, (name, _) in enumerate(systems):
        low, high = interval(samples[:, k])
        away = np.abs(samples[:, k] - samples[:, 0])
        exceeding = int((away - away.mean() > abs(scores[k] - scores[0])).sum())
        alike = np.array_equal(values[:, k], values[:, 0])
        p_value = None if k == 0 else 1.0 if alike else (exceeding + 1) / (SAMPLES + 1)
        compared.append(Compared(name, float(scores[k]), float(samples[:, k].mean()), (high - low) / 2, p_value))
    return compared


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


def _p_value(it: Any, first: Any) -> float | None:
    """sacrebleu's, but for a system that scores as the first does on every corpus: it would be 1 / 1001."""
    if it.p_value is None:
        return None
    alike = (it.score, it.mean, it.ci) == (first.score, first.mean, first.ci)
    return 1.0 if alike else float(it.p_value)


@contextmanager
def _fixed_seed() -> Iterator[None]:
    """sacrebleu has no argument for its seed: the environment names one for as long as this lasts."""
    before = os.environ.get(_SEED_NAME)
    os.environ[_SEED_NAME] = str(SEED)
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SEED_NAME]
        else:
            os.environ[_SEED_NAME] = before
