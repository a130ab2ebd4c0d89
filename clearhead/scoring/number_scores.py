"""Scores of predicted numbers: squared error, and correlation with the correct numbers."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .bootstrap import Estimate, FloatArray, estimates


@dataclass(frozen=True, eq=False)
class NumberScores:
    """All scores of predicted numbers. A correlation is 0 if all predictions are the same, or all correct numbers."""

    mse: Estimate  # its values are the squared errors
    pearson: float
    spearman: float

    @property
    def rmse(self) -> float:
        """The root of the mean squared error, in the unit of the numbers."""
        return math.sqrt(self.mse.mean)

    def to_dict(self) -> dict[str, Any]:
        found = {"examples": len(self.mse.values), "rmse": self.rmse, **self.mse.named("mse")}
        return {**found, "pearson": self.pearson, "spearman": self.spearman}


def number_scores(predicted: FloatArray, truth: FloatArray) -> NumberScores:
    """Return all scores. (N,), (N,) with N > 0"""
    errors = estimates(((predicted - truth) ** 2)[:, None])[0]
    return NumberScores(errors, correlation(predicted, truth), correlation(ranks(predicted), ranks(truth)))


def correlation(x: FloatArray, y: FloatArray) -> float:
    """Return Pearson's correlation, or 0 if one side is constant. (N,), (N,)"""
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0
    x, y = ((it - it.mean()) / it.std() for it in (x, y))
    return float(np.clip((x * y).mean(), -1, 1))


def ranks(values: FloatArray) -> FloatArray:
    """Return the rank of each value from 1; equal ones share their mean rank. (N,) -> (N,)"""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray(ends - (counts - 1) / 2)[place]


def spelled(number: float) -> str:
    """Return a number with up to six significant digits."""
    return f"{number:.6g}"
