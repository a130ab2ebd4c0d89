"""Show the result of an ablation as a table, as plain values or as a picture."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .ablation_picture import draw_changes
from .study import PartEffect


@dataclass(frozen=True)
class Measure:
    """The score that the ablation compares, and its value for the whole model."""

    key: str  # such as "bleu"
    name: str  # such as "BLEU"
    digits: str  # format of a value, such as ".2f"
    lower: bool  # lower is better
    whole: float  # score of the whole model
    interval: float  # half the width of its 95% confidence interval

    def number(self, value: float, sign: str = "") -> str:
        """Format a value of the score."""
        return f"{value:{sign}{self.digits}}"


@dataclass(frozen=True)
class Study:
    """The data, sampling and storage of an ablation."""

    task: str
    data: Sequence[str]  # paths
    texts: int
    drawn: str  # plural noun for the texts, such as "sentences"
    sampled: str  # description of the sampling
    cut: int  # number of texts truncated to the model's length
    decode: Mapping[str, Any]
    weights: str | None  # digest of the weights file
    folder: Path | None  # where results are stored
    kept: int  # number of results reused from this folder
    problem: str  # the reason why results can't be stored, if any

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, except those that depend on the computer."""
        values = asdict(self)
        for name in ("folder", "kept", "problem"):
            del values[name]
        return values


@dataclass(frozen=True)
class Ablation:
    """The scores of a model without each of its parts, in the order of a forward pass."""

    measure: Measure
    rows: tuple[PartEffect, ...]
    study: Study

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        score = {"score": self.measure.key, "whole": self.measure.whole, "whole_interval": self.measure.interval}
        rows = [asdict(row) for row in self.rows]
        return {"format_version": 1, **self.study.to_dict(), **score, "parts": rows}

    def render(self) -> str:
        """Return a table of at most 80 columns."""
        it, study = self.measure, self.study
        width = max(len(row.name) for row in self.rows)
        number = max(len(it.name), len(it.number(it.whole)), 6)
        answers = f"  changed/{study.texts:,}" if self.rows[0].changed is not None else ""
        better = " (lower is better)" if it.lower else ""
        of = f"{study.texts:,} {study.drawn} of {' + '.join(study.data)}"
        lines = [f"{it.name} {it.number(it.whole)} ± {it.number(it.interval)}{better}: {of}", ""]
        lines.append(f"{'without':<{width}}  {it.name:>{number}} {'change':>8} {'95% CI':>18}  {answers}".rstrip())
        for row in self.rows:
            within = f"{it.number(row.low, '+')} to {it.number(row.high, '+')}"
            mark = "*" if row.sure else " "
            other = f"  {row.changed:>{len(answers) - 2},}" if row.changed is not None else ""
            change = it.number(row.change, "+")
            line = f"{row.name:<{width}}  {it.number(row.score):>{number}} {change:>8} {within:>18} {mark}{other}"
            lines.append(line.rstrip())
        lines += ["", f"change: {it.name} without the part minus {it.name} of the whole model"]
        lines += ["95% CI: confidence interval of the change (paired bootstrap, 1,000 samples)"]
        if study.texts > 1:
            lines += ["*: the interval excludes 0; by chance, 1 in 20 useless parts would get a star"]
        else:
            lines += [f"There's only one text, so the intervals say nothing about other {study.drawn}."]
        return "\n".join(lines)

    def plot(self, path: str | Path) -> None:
        """Save a picture of the changes as an SVG file if the path ends in .svg, or else as a PNG file."""
        title = f"Change of {self.measure.name} ({self.measure.number(self.measure.whole)}) without each part"
        draw_changes(self.rows, Path(path), title=title, name=self.measure.name, lower=self.measure.lower)
