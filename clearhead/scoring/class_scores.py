"""How good a classifier is: what it gets right, which classes it confuses, and whether its confidence can be trusted.

N examples, C classes, counted from zero.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..errors import DataError
from .resampling import Estimate, FloatArray, IntArray, estimates

_BINS = 15
_TOLERANCE = 1e-3  # of a sum of probabilities that were rounded


@dataclass(frozen=True)
class OfClass:
    """The scores of one class, 0 to 1: 0 where nothing was predicted, or where there is nothing to find."""

    label: str
    precision: float  # how many of those that were taken for it are of it
    recall: float  # how many of it were found
    f1: float
    support: int  # the examples of it


@dataclass(frozen=True)
class Bin:
    """The examples whose prediction has a probability in (low, high], and how many of those predictions are right."""

    low: float
    high: float
    confidence: float  # the mean of the probabilities
    accuracy: float
    count: int


@dataclass(frozen=True, eq=False)
class ClassScores:
    """Everything that is said about a classifier; shares are between 0 and 1."""

    accuracy: Estimate  # its values are 1 where the prediction is right
    macro_f1: float  # the mean over the classes that occur or were predicted
    negative_log_likelihood: float  # nats an example; inf where a right class was given no probability at all
    calibration_error: float  # the mean distance of confidence from accuracy, bin by bin
    classes: tuple[OfClass, ...]
    confusion: IntArray  # (C, C), of the class of the row, those that were taken for the class of the column
    bins: tuple[Bin, ...]  # without empty ones

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "examples": len(self.accuracy.values),
            **self.accuracy.named("accuracy"),
            "macro_f1": self.macro_f1,
            "negative_log_likelihood": self.negative_log_likelihood,
            "calibration_error": self.calibration_error,
            "classes": [asdict(it) for it in self.classes],
            "confusion": self.confusion.tolist(),
            "bins": [asdict(it) for it in self.bins],
        }


def class_scores(log_probabilities: FloatArray, truth: IntArray, labels: Sequence[str]) -> ClassScores:
    """All scores, from logarithms of the probabilities (N, C), the right classes (N,) and the C names of the classes.

    The likeliest class is the prediction, the first of several. No examples, shapes that do not fit, a class that there
    is not, and probabilities that do not add up to 1 are a DataError.
    """
    _check(log_probabilities, truth, labels)
    log_probabilities = log_probabilities.astype(np.float64)
    predicted = log_probabilities.argmax(1)
    right = (predicted == truth).astype(np.float64)
    confidence = np.exp(log_probabilities.max(1))
    confusion = np.zeros((len(labels), len(labels)), dtype=np.int64)
    np.add.at(confusion, (truth, predicted), 1)
    classes = tuple(_of_class(label, confusion, c) for c, label in enumerate(labels))
    met = confusion.sum(0) + confusion.sum(1) > 0
    bins = calibration(confidence, right)
    return ClassScores(
        accuracy=estimates(right[:, None])[0],
        macro_f1=float(np.mean([it.f1 for it, counts in zip(classes, met) if counts])),
        negative_log_likelihood=float(-log_probabilities[np.arange(len(truth)), truth].mean()),
        calibration_error=sum(it.count * abs(it.accuracy - it.confidence) for it in bins) / len(truth),
        classes=classes,
        confusion=confusion,
        bins=bins,
    )


def calibration(confidence: FloatArray, right: FloatArray) -> tuple[Bin, ...]:
    """The bins of the expected calibration error (Guo et al. 2017): 15 of equal width, those without examples left out.

    Probabilities of the predictions (N,), in (0, 1], and 1 where they are right (N,).
    """
    place = np.clip(np.ceil(confidence * _BINS).astype(np.int64) - 1, 0, _BINS - 1)
    bins = []
    for number in np.unique(place):
        own = place == number
        mean, accuracy = float(confidence[own].mean()), float(right[own].mean())
        bins.append(Bin(float(number / _BINS), float((number + 1) / _BINS), mean, accuracy, int(own.sum())))
    return tuple(bins)


def _of_class(label: str, confusion: IntArray, c: int) -> OfClass:
    hits, predicted, support = int(confusion[c, c]), int(confusion[:, c].sum()), int(confusion[c].sum())
    f1 = 2 * hits / max(predicted + support, 1)  # 2 P R / (P + R)
    return OfClass(label, hits / max(predicted, 1), hits / max(support, 1), f1, support)


def _check(log_probabilities: FloatArray, truth: IntArray, labels: Sequence[str]) -> None:
    n, classes = len(truth), len(labels)
    if not n:
        raise DataError("there is nothing to score: no examples; expected at least one")
    if log_probabilities.shape != (n, classes):
        raise DataError(
            f"log-probabilities of shape {log_probabilities.shape} for {n} examples of {classes} classes; "
            f"expected {(n, classes)}"
        )
    wrong = (truth < 0) | (truth >= classes)
    if wrong.any():
        place = int(wrong.argmax())
        raise DataError(f"example {place} is of class {truth[place]}; expected 0 to {classes - 1}")
    sums = np.exp(log_probabilities.astype(np.float64)).sum(1)
    off = ~(np.abs(sums - 1) < _TOLERANCE)  # so that NaN is off, too
    if off.any():
        place = int(off.argmax())
        raise DataError(
            f"the probabilities of example {place} add up to {sums[place]:.4g}; expected 1: the logarithms of "
            "probabilities are wanted, as log_softmax gives them"
        )
