"""Calibrated confidence: what a model's certainty of an answer is worth, measured on validation data.

A model's own probability ranks its answers well, but isn't the share of right ones. Isotonic regression (Zadrozny and
Elkan 2002) maps it to the quality that answers of this certainty had on validation data: the share of right answers, or
their mean score.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import DataError, ModelError
from .bootstrap import FloatArray

_LEAST = 20  # answers; fewer say nothing about confidence
_MOST = 5000  # answers that are stored
_Z = 1.96  # of a 95% interval
_QUALITIES: Mapping[str, Callable[[FloatArray], FloatArray]] = {  # the first that's known is used
    "accuracy": lambda it: it,
    "f1": lambda it: it,
    "chrf": lambda it: it / 100,
    "rougeL": lambda it: it / 100,
    "cer": lambda it: 1 - it,
    "exact_match": lambda it: it,
}


@dataclass(frozen=True)
class Threshold:
    """The lowest confidence of answers that are accepted.

    Attributes:
        confidence: accept answers of this confidence or a higher one.
        accepted: the share of accepted answers on validation data.
        error: their mean error, 1 minus the quality.
        low, high: the 95% interval of the error (Wilson 1927).
        count: the number of accepted answers on validation data, and `total` that of all.
    """

    confidence: float
    accepted: float
    error: float
    low: float
    high: float
    count: int
    total: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Confidence:
    """Turns certainty, such as a log-probability, into the quality to expect.

    Args:
        certainty: how certain the model was of each validation answer, on any scale (N,).
        quality: how good the answer was, from 0 to 1 (N,).
        measure: the name of the quality, such as "accuracy".
    """

    certainty: FloatArray
    quality: FloatArray
    measure: str

    @classmethod
    def of(cls, certainty: FloatArray, scores: Mapping[str, FloatArray]) -> "Confidence | None":
        """Return the confidence that follows from validation answers, or None if there are fewer than 20.

        Of more than 5,000 answers, every n-th is kept, in the order of certainty.

        Args:
            certainty: how certain the model was of each answer (N,).
            scores: the scores of each answer, by name; see `EvaluationResult.singly`.
        """
        found = quality_of(scores)
        if found is None:
            return None
        measure, quality = found
        order = np.argsort(certainty, kind="stable")
        order = order[np.isfinite(certainty[order])]
        if len(order) < _LEAST:
            return None
        kept = order[np.linspace(0, len(order) - 1, min(len(order), _MOST)).round().astype(np.int64)]
        return cls(certainty[kept].astype(np.float64), quality[kept], measure)

    def __call__(self, certainty: float) -> float:
        """Return the quality to expect of an answer, to four decimals."""
        return round(float(np.interp(certainty, *self._curve)), 4)

    @cached_property
    def _curve(self) -> tuple[FloatArray, FloatArray]:
        """The certainty and the quality of each pool of neighbouring answers, both rising.

        Each pool counts one answer more, of quality 0.5, so that no confidence is 0 or 1.
        """
        values, of = np.unique(self.certainty, return_inverse=True)
        sizes, sums = np.bincount(of).astype(np.float64), np.bincount(of, weights=self.quality)
        pools: list[list[float]] = []  # number of answers, their summed quality, their summed certainty
        for n, total, value in zip(sizes.tolist(), sums.tolist(), values.tolist()):
            pools.append([n, total, n * value])
            while len(pools) > 1 and pools[-2][1] * pools[-1][0] >= pools[-1][1] * pools[-2][0]:
                last = pools.pop()
                pools[-1] = [a + b for a, b in zip(pools[-1], last)]
        n, total, certain = np.array(pools).T
        return certain / n, np.maximum.accumulate((total + 0.5) / (n + 1))

    def thresholds(self) -> Iterator[Threshold]:
        """Yield the threshold at each confidence that validation answers have, the highest first."""
        found = np.interp(self.certainty, *self._curve).round(4)
        levels, of = np.unique(-found, return_inverse=True)
        counts = np.cumsum(np.bincount(of))
        errors = np.cumsum(np.bincount(of, weights=1 - self.quality)) / counts
        for level, count, error in zip(levels.tolist(), counts.tolist(), errors.tolist()):
            yield Threshold(-level, count / len(found), error, *_wilson(error, count), count, len(found))

    def threshold(self, error_rate: float) -> Threshold:
        """Return the threshold that accepts the most answers with at most this mean error on validation data.

        Raises:
            DataError: no threshold does.
        """
        every = [*self.thresholds()]
        fitting = [it for it in every if it.error <= error_rate]
        if not fitting:
            best = min(every, key=lambda it: it.error)
            what = f"no confidence has an error of at most {error_rate:.1%} on the validation data"
            rate = f"{best.error:.1%}" if best.error < 1 else "100%"
            expected = f"at least {rate}, the error of the most certain {best.count:,} of {len(self.quality):,} answers"
            raise DataError(what, expected=expected, name="error_rate", value=error_rate)
        return fitting[-1]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        values = {"certainty": self.certainty.round(5).tolist(), "quality": self.quality.round(4).tolist()}
        return {"measure": self.measure, **values}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], origin: str) -> "Confidence":
        """Return what `to_dict` described. Raise ModelError if it's damaged."""
        try:
            certainty, quality = (_numbers(values[name]) for name in ("certainty", "quality"))
            found = cls(certainty, quality, str(values["measure"]))
            if len(certainty) != len(quality) or len(quality) < _LEAST:
                raise ValueError
        except (LookupError, TypeError, ValueError) as error:
            what, fix = f"{origin} has no usable numbers", "evaluate the model with --calibrate to write it again"
            raise ModelError(what, fix=fix, name=origin) from error
        return found


def quality_of(scores: Mapping[str, FloatArray]) -> tuple[str, FloatArray] | None:
    """Return the name and the values (N,) of the score that says how good each answer is, from 0 to 1, if there's one.

    Args:
        scores: the scores of each answer, by name.
    """
    for name, scaled in _QUALITIES.items():
        if name in scores:
            return name, np.clip(scaled(scores[name]), 0, 1).astype(np.float64)
    return None


def _numbers(values: Sequence[Any]) -> FloatArray:
    found = np.array(values, np.float64)
    if found.ndim != 1 or not np.isfinite(found).all():
        raise ValueError
    return found


def _wilson(share: float, count: int) -> tuple[float, float]:
    """Return the 95% interval of a share (Wilson 1927). It's too wide for numbers between 0 and 1."""
    around = (share + _Z**2 / (2 * count)) / (1 + _Z**2 / count)
    half = _Z / (1 + _Z**2 / count) * (share * (1 - share) / count + _Z**2 / (4 * count**2)) ** 0.5
    return max(0.0, around - half), min(1.0, around + half)
