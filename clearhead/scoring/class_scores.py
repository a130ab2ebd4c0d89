"""Scores of classifiers with one label per example or any number of them, and of predicted numbers.

In shapes, N is the number of examples and C that of classes or labels. Classes are numbered from 0.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError
from ..pictures.figures import confusion_matrix
from ..readers.lines import shown
from .bootstrap import Estimate, FloatArray, IntArray, estimates

_BINS = 15
_TOLERANCE = 1e-3  # for the sum of rounded probabilities
_WIDE = 12  # maximum number of labels in a table
_PAIRS = 10  # confused pairs to list if there are more labels than that
_NAME, _DRAWN = 20, 16  # characters of a label in a table, and in a picture
_HEADING = "correct label"
_COLUMNS = 53  # left in an 80-column terminal, next to precision, recall and F1
DEFAULT = 0.5  # threshold of a label without enough examples to choose one
_LEAST = 5  # examples with a label that are needed to choose its threshold
_LABELS, _LABEL_NAME = 12, 30  # labels in a table with thresholds, and characters of each

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class OfClass:
    """The scores of one class, from 0 to 1. They are 0 if the class is never predicted or never correct."""

    label: str
    precision: float  # share of the predictions of this class that are correct
    recall: float  # share of the examples of this class that are predicted correctly
    f1: float
    support: int  # number of examples of this class


@dataclass(frozen=True)
class Bin:
    """A calibration bin: the examples whose predicted class has a probability in (low, high]."""

    low: float
    high: float
    confidence: float  # mean probability of the predictions
    accuracy: float  # share of correct predictions
    count: int


@dataclass(frozen=True, eq=False)
class ClassScores:
    """All scores of a classifier. Shares are from 0 to 1."""

    accuracy: Estimate  # its values are 1 for correct predictions
    macro_f1: float  # mean F1 of the classes that occur or are predicted
    negative_log_likelihood: float  # nats per example; inf if a correct class has probability 0
    calibration_error: float  # expected calibration error
    classes: tuple[OfClass, ...]
    confusion: IntArray  # (C, C): examples of the row's class predicted as the column's
    bins: tuple[Bin, ...]  # without empty ones

    def to_dict(self) -> dict[str, Any]:
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
    """Return all scores of a classifier. The predicted class is the most likely one; in a tie, the first one.

    Args:
        log_probabilities: the log-probability of each class for each example (N, C).
        truth: the correct classes (N,).
        labels: the names of the C classes.

    Raises:
        DataError: there are no examples, the shapes don't match, a class number is out of range, or probabilities
            don't sum to 1.
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
    """Return the bins of the expected calibration error (Guo et al. 2017): 15 of equal width, without empty ones.

    Args:
        confidence: the probability of each prediction, in (0, 1] (N,).
        right: 1 for correct predictions, 0 for others (N,).
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
        raise DataError("there are no examples to score", expected="at least one", name="truth")
    if log_probabilities.shape != (n, classes):
        shape = log_probabilities.shape
        what = f"the log-probabilities have shape {shape}, for {n} examples and {classes} classes"
        raise DataError(what, expected=f"shape {(n, classes)}", name="log_probabilities", value=shape)
    wrong = (truth < 0) | (truth >= classes)
    if wrong.any():
        place = int(wrong.argmax())
        what, value = f"example {place} has class {truth[place]}", int(truth[place])
        raise DataError(what, expected=f"0 to {classes - 1}", name="truth", value=value)
    sums = np.exp(log_probabilities.astype(np.float64)).sum(1)
    off = ~(np.abs(sums - 1) < _TOLERANCE)  # catches NaN, too
    if off.any():
        place = int(off.argmax())
        what = f"the probabilities of example {place} sum to {sums[place]:.4g}"
        fix = "pass log-probabilities, such as those of log_softmax"
        raise DataError(what, expected="1", fix=fix, name="log_probabilities", value=float(sums[place]))


# --- the confusion matrix


def confusion_table(scores: ClassScores) -> str:
    """Return a table with a row for each correct label, or the most confused pairs if there are many labels.

    If the column names are too wide for a terminal, the columns are numbered instead.
    """
    names = short_names([it.label for it in scores.classes], _NAME)
    if len(names) > _WIDE:
        return _most_confused(scores, names)
    heads, least = names, 5
    if max(len(_HEADING), *map(len, names)) + sum(max(len(name), least) + 2 for name in names) > _COLUMNS:
        heads, least = [str(number) for number in range(1, len(names) + 1)], 3
        names = [f"{number:>2} {name}" for number, name in zip(heads, names)]
    counts = [[f"{count:,}" for count in row] for row in scores.confusion.tolist()]
    widths = [max(len(heads[c]), least, *(len(row[c]) for row in counts)) for c in range(len(names))]
    first = max(len(_HEADING), *map(len, names))
    rows = [f"{_HEADING:<{first}}  " + "  ".join(f"{name:>{width}}" for name, width in zip(heads, widths))]
    rows[0] += "  precision  recall      F1"
    for name, row, it in zip(names, counts, scores.classes):
        cells = "  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths))
        rows.append(f"{name:<{first}}  {cells}  {it.precision:>9.4f}  {it.recall:.4f}  {it.f1:.4f}")
    return "\n".join(rows)


def _most_confused(scores: ClassScores, names: list[str]) -> str:
    """Return the most confused pairs of labels, with their number and the total for the correct label."""
    found = [
        (count, right, taken)
        for right, row in enumerate(scores.confusion.tolist())
        for taken, count in enumerate(row)
        if count and right != taken
    ]
    found = sorted(found, key=lambda it: (-it[0], it[1:]))[:_PAIRS]
    if not found:
        return f"none of the {len(names):,} labels is ever confused with another"
    first, second = (max(len(_HEADING), *(len(names[it[side]]) for it in found)) for side in (1, 2))
    rows = [f"{_HEADING:<{first}}  {'predicted':<{second}}  count      of"]
    for count, right, taken in found:
        of = scores.classes[right].support
        rows.append(f"{names[right]:<{first}}  {names[taken]:<{second}}  {count:>5,}  {of:>6,}")
    return "\n".join(rows)


def short_names(labels: Sequence[str], most: int) -> list[str]:
    """Shorten labels to `most` characters on one line. Labels that would become identical are cut in the middle."""
    whole = [shown(label, len(label))[1:-1] for label in labels]
    cut = [text if len(text) <= most else text[: most - 1] + "…" for text in whole]
    alike, half = Counter(cut), most // 2
    return [it if alike[it] == 1 else f"{text[: half - 1]}…{text[half - most :]}" for it, text in zip(cut, whole)]


def draw_confusion(scores: ClassScores, folder: Path) -> None:
    """Save a picture of the confusion matrix as `confusion.png` in a folder."""
    labels = [it.label for it in scores.classes]
    confusion_matrix(scores.confusion, short_names(labels, _DRAWN), folder / "confusion.png")


# --- any number of labels


@dataclass(frozen=True)
class OfLabel:
    """The scores of one label, from 0 to 1. Precision, recall and F1 are 0 if the label is never predicted."""

    label: str
    threshold: float  # probability from which a text has the label
    precision: float
    recall: float
    f1: float
    average_precision: float | None  # None if no example has the label
    support: int  # number of examples with the label


@dataclass(frozen=True, eq=False)
class LabelSetScores:
    """All scores of a classifier that gives each text any number of labels. Shares are from 0 to 1."""

    exact_match: Estimate  # its values are 1 for texts with exactly the correct labels
    micro_f1: float  # F1 of all decisions together
    macro_f1: float  # mean F1 of the labels that occur or are predicted; 1 if there are none
    mean_average_precision: float  # of the labels that occur; 0 if there are none
    labels: tuple[OfLabel, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "examples": len(self.exact_match.values),
            **self.exact_match.named("exact_match"),
            "micro_f1": self.micro_f1,
            "macro_f1": self.macro_f1,
            "mean_average_precision": self.mean_average_precision,
            "labels": [asdict(it) for it in self.labels],
        }


def label_set_scores(
    p: FloatArray, truth: BoolArray, labels: Sequence[str], thresholds: Sequence[float]
) -> LabelSetScores:
    """Return all scores. A text has each label whose probability is at least its threshold.

    Args:
        p: the probability of each label for each example (N, C), with N > 0.
        truth: whether each example has each label (N, C).
        labels: the names of the C labels.
        thresholds: the C thresholds.
    """
    said = p >= np.asarray(thresholds)
    hits, predicted, support = (it.sum(0) for it in (said & truth, said, truth))
    met = predicted + support > 0
    f1 = _f1(hits, predicted, support)
    found = []
    for c, label in enumerate(labels):
        precision, recall = (float(hits[c] / max(of[c], 1)) for of in (predicted, support))
        average = average_precision(p[:, c], truth[:, c]) if support[c] else None
        found.append(OfLabel(label, float(thresholds[c]), precision, recall, float(f1[c]), average, int(support[c])))
    averages = [it.average_precision for it in found if it.average_precision is not None]
    return LabelSetScores(
        exact_match=estimates((said == truth).all(1, keepdims=True).astype(np.float64))[0],
        micro_f1=float(_f1(hits.sum(), predicted.sum(), support.sum())) if met.any() else 1.0,
        macro_f1=float(f1[met].mean()) if met.any() else 1.0,
        mean_average_precision=float(np.mean(averages)) if averages else 0.0,
        labels=tuple(found),
    )


def average_precision(p: FloatArray, truth: BoolArray) -> float:
    """Return sum_k (R_k - R_k-1) P_k over the distinct probabilities, the highest first. (N,), (N,) with a True in it

    P_k and R_k are precision and recall of the examples with at least the k-th highest probability.
    """
    hits, counts, _ = _ranked(p, truth)
    return float((np.diff(hits, prepend=0) * hits / counts).sum() / truth.sum())


def best_thresholds(p: FloatArray, truth: BoolArray) -> tuple[float, ...]:
    """Return the threshold of each label with the highest F1. (N, C), (N, C) -> C thresholds

    It's halfway between two probabilities, and of several equally good ones the closest to 0.5. Labels of fewer than 5
    examples have a threshold of 0.5, since it couldn't be chosen reliably.
    """
    return tuple(_best_threshold(own, right) for own, right in zip(p.T, truth.T))


def _best_threshold(p: FloatArray, truth: BoolArray) -> float:
    support = int(truth.sum())
    if support < _LEAST:
        return DEFAULT
    hits, counts, values = _ranked(p, truth)
    f1 = _f1(hits, counts, np.full_like(hits, support))
    between = (values + np.append(values[1:], 0.0)) / 2
    best = between[f1 == f1.max()]
    return float(best[np.abs(best - DEFAULT).argmin()])


def _ranked(p: FloatArray, truth: BoolArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return hits and predictions down to each distinct probability, and these probabilities, the highest first."""
    order = np.argsort(-p, kind="stable")
    last = np.append(np.flatnonzero(np.diff(p[order])), len(p) - 1)  # the last example of each probability
    return truth[order].cumsum()[last].astype(np.float64), last + 1.0, p[order][last]


def _f1(hits: Any, predicted: Any, support: Any) -> Any:
    """Return 2 P R / (P + R), or 0 without predictions and examples."""
    return 2 * hits / np.maximum(predicted + support, 1)


def label_table(scores: LabelSetScores) -> str:
    """Return a table with a row for each label, or for the most frequent ones if there are many."""
    rows = sorted(zip(scores.labels, short_names([it.label for it in scores.labels], _LABEL_NAME)),
                  key=lambda it: -it[0].support)  # fmt: skip
    shown = rows if len(rows) <= _LABELS else rows[:_LABELS]
    width = max(len("label"), *(len(name) for _, name in shown))
    lines = [f"{'label':<{width}}  count  threshold  precision  recall      F1      AP"]
    for it, name in shown:
        average = "-" if it.average_precision is None else f"{it.average_precision:.4f}"
        numbers = f"{it.support:>5,}  {it.threshold:>9.4f}  {it.precision:>9.4f}  {it.recall:.4f}  {it.f1:.4f}"
        lines.append(f"{name:<{width}}  {numbers}  {average:>6}")
    return "\n".join([*lines, *([f"and {len(rows) - len(shown):,} more labels"] if len(rows) > len(shown) else [])])


# --- numbers


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
        found = {"texts": len(self.mse.values), "rmse": self.rmse, **self.mse.named("mse")}
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
