"""What each part of a model is worth: its scores without them, as a table, as plain values and as a picture."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .ablation_picture import draw_changes
from .study import Row


@dataclass(frozen=True)
class Measure:
    """The score that a model is measured by: how it is called and shown, and what it is of all parts together."""

    key: str  # "bleu"
    name: str
    digits: str
    lower: bool  # is better
    whole: float
    interval: float  # half of its 95% interval

    def number(self, value: float, sign: str = "") -> str:
        """A value, as wide as it is."""
        return f"{value:{sign}{self.digits}}"


@dataclass(frozen=True)
class Study:
    """What the scores are of, and how they came about: `texts` of what is drawn, `sampled` in words, `cut` of them;
    how many results were `kept` from before in the `folder`, or the `problem` of keeping any."""

    task: str
    data: Sequence[str]
    texts: int
    drawn: str
    sampled: str
    cut: int
    decode: Mapping[str, Any]
    weights: str | None  # the digest of their file
    folder: Path | None
    kept: int
    problem: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, without what is about this computer."""
        values = asdict(self)
        for name in ("folder", "kept", "problem"):
            del values[name]
        return values


@dataclass(frozen=True)
class Ablation:
    """What a model can do without each of its parts, in the order in which these are passed."""

    measure: Measure
    rows: tuple[Row, ...]
    study: Study

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        score = {"score": self.measure.key, "whole": self.measure.whole, "whole_interval": self.measure.interval}
        rows = [asdict(row) for row in self.rows]
        return {"format_version": 1, **self.study.to_dict(), **score, "parts": rows}

    def render(self) -> str:
        """A table for people, in 80 columns."""
        it, study = self.measure, self.study
        width = max(len(row.name) for row in self.rows)
        number = max(len(it.name), len(it.number(it.whole)), 6)
        answers = f"  other of {study.texts:,}" if self.rows[0].changed is not None else ""
        better = ", of which less is better" if it.lower else ""
        of = f"{study.texts:,} {study.drawn} of {' + '.join(study.data)}"
        lines = [f"{it.name} {it.number(it.whole)} ± {it.number(it.interval)}{better}: {of}", ""]
        lines.append(f"{'without':<{width}}  {it.name:>{number}} {'change':>8} {'95%':>18}  {answers}".rstrip())
        for row in self.rows:
            within = f"{it.number(row.low, '+')} to {it.number(row.high, '+')}"
            mark = "*" if row.sure else " "
            other = f"  {row.changed:>{len(answers) - 2},}" if row.changed is not None else ""
            change = it.number(row.change, "+")
            line = f"{row.name:<{width}}  {it.number(row.score):>{number}} {change:>8} {within:>18} {mark}{other}"
            lines.append(line.rstrip())
        lines += ["", f"change: of {it.name}, without the part and with all others;"]
        lines += ["95%: where it lies in so many of 1,000 samples of the data (paired bootstrap);"]
        if study.texts > 1:
            lines += ["* leaves out 0, as one part in twenty would by chance if none did anything."]
        else:
            lines += [f"One of the {study.drawn} is the same in every sample: it tells nothing of others."]
        return "\n".join(lines)

    def plot(self, path: str | Path) -> None:
        """Draw the changes, heads as a grid of layers and heads for each place: PNG, or SVG by the ending."""
        title = f"{self.measure.name} {self.measure.number(self.measure.whole)}: its change without one part at a time"
        draw_changes(self.rows, Path(path), title=title, name=self.measure.name, lower=self.measure.lower)
