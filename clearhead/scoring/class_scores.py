"""Scores of a classifier: accuracy, F1, calibration, and the confusion matrix as numbers, a table and a picture.

In shapes, N is the number of examples and C that of classes. Classes are numbered from 0.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

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
