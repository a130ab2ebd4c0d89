"""Calibrated confidence: what a model's certainty about an answer means, measured on validation data.

A model's own probability ranks its answers well, but isn't the share of right ones. Isotonic regression (Zadrozny and
Elkan 2002) maps it to the quality that answers of this certainty had on validation data: the share of right answers, or
their mean score.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import DataError, ModelError
from .bootstrap import FloatArray

_LEAST = 20  # answers; fewer are too few to calibrate
_STORED = 5000  # answers
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
        count: the number of accepted validation answers, of `total`.
    """

    confidence: float
    accepted: float
    error: float
    low: float
    high: float
    count: int
    total: int


@dataclass(frozen=True, eq=False)
class Confidence:
    """Turns certainty, such as a log-probability, into the quality to expect.

    Args:
        certainty: how certain the model was of each validation answer, on any scale (N,).
        quality: how good the answer was, from 0 to 1 (N,).
        measure: the name of the quality, such as "accuracy".
        total: the number of validation answers, if only some are stored.
        words: the same for the words of answers; None if it wasn't measured.
    """

    certainty: FloatArray
    quality: FloatArray
    measure: str
    total: int
    words: "Confidence | None" = None

    @classmethod
    def of(cls, certainty: FloatArray, scores: Mapping[str, FloatArray]) -> "Confidence | None":
        """Return the confidence that follows from validation answers, or None if there are fewer than 20.

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
        return cls(certainty[order].astype(np.float64), quality[order], measure, len(order))

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

    def thresholds(self, calibrated: "Confidence | None" = None) -> Iterator[Threshold]:
        """Yield the threshold at each confidence that validation answers have, the highest first.

        Args:
            calibrated: returns the confidence (default: this one).
        """
        found = np.interp(self.certainty, *(calibrated or self)._curve).round(4)
        levels, of = np.unique(-found, return_inverse=True)
        counts = np.cumsum(np.bincount(of))
        errors = np.cumsum(np.bincount(of, weights=1 - self.quality)) / counts
        counts = np.round(counts * (self.total / len(found))).astype(np.int64)
        for level, count, error in zip(levels.tolist(), counts.tolist(), errors.tolist()):
            yield Threshold(-level, count / self.total, error, *_wilson(error, count), count, self.total)

    def threshold(self, error_rate: float) -> Threshold:
        """Return the threshold that accepts the most answers with at most this mean error on validation data.

        Raises:
            DataError: no threshold does.
        """
        every = [*self.thresholds()]
        fitting = [it for it in every if it.error <= error_rate]
        if not fitting:
            best = min(every, key=lambda it: it.error)
            what = f"no confidence has an error of at most {100 * error_rate:.4g}% on the validation data"
            expected = (
                f"at least {math.ceil(10_000 * best.error) / 100:.2f}%, the error of the most certain {best.count:,} "
            )
            expected += f"of {best.total:,} answers"
            raise DataError(what, expected=expected, name="error_rate", value=error_rate)
        return fitting[-1]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON. Of more than 5,000 answers, every n-th is kept, in the order of certainty."""
        n = len(self.certainty)
        kept = np.linspace(0, n - 1, min(n, _STORED)).round().astype(np.int64)
        certainty = [float(f"{it:.6g}") for it in self.certainty[kept].tolist()]  # close to 0, differences matter
        values = {"certainty": certainty, "quality": self.quality[kept].round(4).tolist()}
        values |= {"words": self.words.to_dict()} if self.words else {}
        return {"measure": self.measure, "total": self.total, **values}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], origin: str) -> "Confidence":
        """Return what `to_dict` described. Raise ModelError if it's damaged."""
        try:
            certainty, quality = (np.array(values[name], np.float64) for name in ("certainty", "quality"))
            words = cls.from_dict(values["words"], origin) if "words" in values else None
            found = cls(certainty, quality, str(values["measure"]), int(values["total"]), words)
            usable = certainty.shape == quality.shape == (len(quality),) and np.isfinite(certainty).all()
            if not usable or len(quality) < _LEAST or not ((quality >= 0) & (quality <= 1)).all():
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


def _wilson(share: float, count: int) -> tuple[float, float]:
    """Return the 95% interval of a share (Wilson 1927). It's too wide for numbers between 0 and 1."""
    around = (share + _Z**2 / (2 * count)) / (1 + _Z**2 / count)
    half = _Z / (1 + _Z**2 / count) * (share * (1 - share) / count + _Z**2 / (4 * count**2)) ** 0.5
    return max(0.0, around - half), min(1.0, around + half)
