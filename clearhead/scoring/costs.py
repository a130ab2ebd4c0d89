"""The costs of a classifier's mistakes, and of handing its uncertain answers to a person."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..config.values import counted
from ..errors import DataError, unknown
from ..readers.lines import read_lines
from ..readers.rows import Dialect
from .bootstrap import FloatArray, estimates

_HEADER = ("label", "predicted", "cost")
_SEPARATORS = "\t,;"


@dataclass(frozen=True)
class Costs:
    """What it costs to answer `predicted` where `label` is right.

    Args:
        pairs: the cost of each (label, predicted). Other wrong answers cost 1, and other right ones 0. If `predicted`
            is "", it's the cost of rejecting the answer; ("", "") is that of all labels without their own.
    """

    pairs: Mapping[tuple[str, str], float]

    @classmethod
    def read(cls, path: Path, labels: Collection[str], answers: Collection[str]) -> "Costs":
        """Read a TSV or CSV file with the columns label, predicted and cost.

        Args:
            path: the file.
            labels: the labels of the data and the model.
            answers: the labels of the model.

        Raises:
            DataError: the file can't be read, has no such header, or has a row that isn't valid.
        """
        lines = [*read_lines(path)]
        first = lines[0].decode(errors="replace")
        rows = Dialect(next((it for it in _SEPARATORS if it in first), ","), quoted=True).rows(lines)
        header = [cell.strip().lower() for cell in next(rows, (0, "", [], ""))[2] or ()]
        if sorted(header) != sorted(_HEADER):
            what, expected = f"{path} has no header with three names", "the columns " + ", ".join(_HEADER)
            raise DataError(what, expected=expected, fix="write their names in the first line", name=str(path))
        pairs = dict[tuple[str, str], float]()
        for number, text, cells, reason in rows:
            if not text.strip():
                continue
            where = f"line {number:,} of {path}"
            if cells is None or len(cells) != len(_HEADER):
                what = f"{where} has {counted(len(cells), 'cells') if cells else reason}"
                raise DataError(what, expected=", ".join(_HEADER), name=str(path), line=number, value=text)
            row = dict(zip(header, map(str.strip, cells)))
            pair = row["label"], row["predicted"]
            for side, known in zip(_HEADER, (labels, answers)):
                if row[side] not in known and (row[side] or pair[1]):
                    found = f"an unknown label {row[side]!r}" if row[side] else "no label"
                    what = f"{where} has {found} in the column {side}"
                    raise unknown(what, row[side], sorted(known), side, DataError)
            if pair in pairs:
                what, fix = f"{where} repeats the pair {', '.join(map(repr, pair))}", "remove one of the rows"
                raise DataError(what, fix=fix, name=str(path), line=number, value=text)
            pairs[pair] = _cost(row["cost"], where, number)
        if not pairs:
            raise DataError(f"{path} has no costs", expected="a row for each mistake that has a cost", name=str(path))
        return cls(pairs)

    def of(self, label: str, predicted: str) -> float:
        """Return the cost of an answer, or of rejecting it if `predicted` is ""."""
        default = float(label != predicted) if predicted else self.pairs.get(("", ""), 1.0)
        return self.pairs.get((label, predicted), default)

    @property
    def has_rejections(self) -> bool:
        """True if a cost of rejecting is given."""
        return any(not predicted for _, predicted in self.pairs)

    def of_answers(self, labels: Sequence[str], answers: Sequence[str]) -> FloatArray:
        """Return the cost of each of N answers. (N,)"""
        return np.array([self.of(*pair) for pair in zip(labels, answers)])

    def rejecting(
        self, labels: Sequence[str], answers: Sequence[str], confidence: FloatArray
    ) -> list[tuple[float, float, float]]:
        """Return the mean cost if answers below each confidence are rejected, from none to all.

        Args:
            labels: the right labels.
            answers: the model's answers.
            confidence: their confidence (N,).

        Returns:
            Each confidence with the share of rejected answers and the mean cost; the last is 1, which rejects all.
            Nothing if no cost of rejecting is given.
        """
        if not self.has_rejections:
            return []
        order, count = np.argsort(confidence, kind="stable"), len(labels)
        answered, rejected = (self.of_answers(labels, it)[order] for it in (answers, [""] * count))
        levels, starts = np.unique(confidence[order], return_index=True)
        places = [*starts.tolist(), count]
        costs = answered.mean() + np.append(0, np.cumsum(rejected - answered)) / count
        return [*zip([*levels.tolist(), 1.0], (it / count for it in places), costs[places].tolist())]

    def to_dict(
        self, labels: Sequence[str], answers: Sequence[str], confidence: FloatArray | None = None
    ) -> dict[str, Any]:
        """Return the mean cost with its 95% interval, and the cheapest threshold, as plain values for JSON.

        Args:
            labels: the right labels.
            answers: the model's answers.
            confidence: their confidence (N,). The threshold needs it, and the costs of rejecting.
        """
        [mean] = estimates(self.of_answers(labels, answers)[:, None])
        points = [] if confidence is None else self.rejecting(labels, answers, confidence)
        best = min(points, key=lambda it: it[2], default=None)  # with the fewest rejections
        names = ("confidence", "rejected", "mean_cost")
        return mean.named("mean_cost") | ({"cheapest_rejection": dict(zip(names, best))} if best else {})


@dataclass(frozen=True)
class WithCosts:
    """Scores with the values of `Costs.to_dict`."""

    scores: Any
    costs: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return {**self.scores.to_dict(), **self.costs}


def _cost(text: str, where: str, line: int) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 <= found < math.inf:
        what = f"{where} has {f'the cost {text!r}' if text else 'no cost'}"
        raise DataError(what, expected="a number, 0 or more", name="cost", line=line, value=text)
    return found
