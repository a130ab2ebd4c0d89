"""Scores for texts with any number of labels: F1, average precision, and the thresholds that give the best F1.

In shapes, N is the number of examples and C that of labels.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bootstrap import Estimate, FloatArray, estimates
from .class_scores import short_names

BoolArray = NDArray[np.bool_]
DEFAULT = 0.5  # threshold of a label without enough examples to choose one
_ENOUGH = 5  # examples with a label that are needed to choose its threshold
_ROWS, _NAME = 12, 30  # labels in a table, and characters of each


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
    if support < _ENOUGH:
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
    rows = sorted(zip(scores.labels, short_names([it.label for it in scores.labels], _NAME)),
                  key=lambda it: -it[0].support)  # fmt: skip
    shown = rows if len(rows) <= _ROWS else rows[:_ROWS]
    width = max(len("label"), *(len(name) for _, name in shown))
    lines = [f"{'label':<{width}}  count  threshold  precision  recall      F1      AP"]
    for it, name in shown:
        average = "-" if it.average_precision is None else f"{it.average_precision:.4f}"
        numbers = f"{it.support:>5,}  {it.threshold:>9.4f}  {it.precision:>9.4f}  {it.recall:.4f}  {it.f1:.4f}"
        lines.append(f"{name:<{width}}  {numbers}  {average:>6}")
    return "\n".join([*lines, *([f"and {len(rows) - len(shown):,} more labels"] if len(rows) > len(shown) else [])])
