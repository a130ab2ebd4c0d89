"""Ablation: measure a model without each of its parts, one at a time, and show the effects.

Measurements are stored for later runs. The result is a table, plain values or a picture, in which layers are rows, and
heads, attention modules and feed-forward networks are columns.
"""

import hashlib
import inspect
import itertools
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from ..errors import ModelError, TrainingError
from ..folder.atomic import write_file, writing
from ..folder.manifest import digest, read_bytes
from ..pictures.canvas import INK, drawing, separate_cells
from .record.switches import without
from .record.uncompiled import uncompiled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

WHOLE = "whole"  # the name of the model with all its parts
_FORMAT = 1
_TITLES = {"self": "self-attention", "cross": "cross-attention", "feed_forward": "feed-\nforward"}
_BARS = {False: "heads", True: "whole sub-layers"}

Watch = Callable[[str, int, int], None]  # called with the next part, the number of measured parts, and the total


@dataclass(frozen=True)
class Outcome:
    """The answers to all texts (empty if the task gives no answers), and the scores of each text."""

    answers: list[str]
    values: dict[str, list[float]]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class KeptOutcomes:
    """Outcomes stored in a folder, one file each.

    The folder is named after a digest of everything that the outcomes depend on, so outcomes for other data or other
    weights are never reused.
    """

    above: Path | None  # the parent folder; None stores nothing
    key: Mapping[str, Any]  # everything that the outcomes depend on
    problem: str = field(default="", init=False)  # the error if writing failed; then nothing more is written

    @property
    def folder(self) -> Path | None:
        """The folder that contains the files, if any."""
        return None if self.above is None else self.above / digest(_text(self.key))[:16]

    def get(self, name: str) -> Outcome | None:
        """Return the outcome stored under a name, or None if its file is missing, damaged or in another format."""
        if self.folder is None:
            return None
        with suppress(ModelError, ValueError, KeyError, TypeError):
            found = json.loads(read_bytes(self.folder / f"{name}.json"))
            if found["format_version"] == _FORMAT and found["sha256"] == digest(_text(found["outcome"])):
                return Outcome(**found["outcome"])
        return None

    def put(self, name: str, outcome: Outcome) -> None:
        """Write an outcome to the file for `name`, atomically. If writing fails, set `problem` instead of raising."""
        if self.folder is None or self.problem:
            return
        values = outcome.to_dict()
        kept = {"format_version": _FORMAT, "sha256": digest(_text(values)), "outcome": values}
        try:
            with writing(self.folder, again="run the command again", instead="work on a copy of the model"):
                self.folder.mkdir(parents=True, exist_ok=True)
                if not (about := self.folder / "key.json").exists():
                    write_file(about, _text(self.key))
                write_file(self.folder / f"{name}.json", _text(kept))
        except TrainingError as error:
            self.problem = str(error)


def measure_without_each(
    model: nn.Module, names: Iterable[str], measure: Callable[[], Outcome], kept: KeptOutcomes, watch: Watch
) -> tuple[dict[str, Outcome], int]:
    """Measure the whole model, and the model without each part.

    Args:
        names: the parts to switch off, one at a time.
        measure: measures the model in its current state.
        kept: stored outcomes, which aren't measured again.
        watch: called before each measurement, and after the last one with the name "comparing".

    Returns:
        The outcomes by name, starting with that of the `WHOLE` model, and the number of them that were stored already.
    """
    everything = (WHOLE, *names)
    found = {name: outcome for name in everything if (outcome := kept.get(name)) is not None}
    missing = [name for name in everything if name not in found]
    for number, name in enumerate(missing):
        watch(name, number, len(missing))
        with uncompiled(model), without(model, *(() if name == WHOLE else (name,))):
            outcome = measure()
        kept.put(name, outcome)
        found[name] = outcome
    watch("comparing", len(missing), len(missing))
    return {name: found[name] for name in everything}, len(everything) - len(missing)


def fingerprint(model: nn.Module) -> str:
    """Return a SHA-256 digest of a model's weights and classes.

    For custom classes, it also covers their source files, which may change between calls.
    """
    found, own = hashlib.sha256(), set[str]()
    for name, part in model.named_modules():
        module = type(part).__module__
        found.update(f"{name} {module}.{type(part).__qualname__}\n".encode())
        own |= {module} if module.partition(".")[0] not in ("clearhead", "torch") else set()
    for module in sorted(own):
        with suppress(OSError, TypeError, KeyError):  # a notebook has no source file, and a module may be unloaded
            found.update(inspect.getsource(sys.modules[module]).encode())
    for name, tensor in itertools.chain(model.named_parameters(), model.named_buffers()):
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        found.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def has_hooks(model: nn.Module) -> bool:
    """Return whether any part has hooks. They can change results without changing the weights."""
    return any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())


def _text(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False, sort_keys=True) + "\n").encode()


# --- the result


@dataclass(frozen=True)
class PartEffect:
    """The score without one part, compared with the whole model."""

    name: str  # such as "decoder.0.cross.head.3"
    place: str  # such as "decoder.cross"
    layer: int
    head: int | None  # None: the whole sub-layer
    score: float
    change: float  # from the score of the whole model
    low: float  # the 95% confidence interval of the change
    high: float
    p_value: float  # see scoring.bootstrap
    changed: int | None  # number of answers that differ from the whole model's; None if the task gives no answers
    sure: bool  # the interval excludes 0; always False for a single text


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
        _draw_changes(self.rows, Path(path), title, self.measure)


def _draw_changes(rows: Sequence[PartEffect], path: Path, title: str, measure: Measure) -> None:
    """Draw the change of a score without each part: red if it gets worse, blue if it gets better.

    Heads and whole sub-layers have separate colour scales, since sub-layers matter far more than single heads. Numbers
    are bold if the confidence interval excludes 0.
    """
    stacks = {stack: [row for row in rows if _stack(row) == stack] for stack in dict.fromkeys(map(_stack, rows))}
    heights = [1 + max(row.layer for row in own) for own in stacks.values()]
    width = max(1 + max(_columns(own).values()) for own in stacks.values())
    cell = min(0.5, 16 / max(width, *heights))  # in inches
    scales = {whole: _largest(row for row in rows if (row.head is None) == whole) for whole in _BARS}
    style: dict[str, Any] = {"cmap": "RdBu_r" if measure.lower else "RdBu", "interpolation": "nearest"}
    images: dict[bool, AxesImage] = {}
    with drawing(path, layout="compressed") as figure:
        figure.set_size_inches(max(cell * width + 1.2, 4.0), cell * sum(heights) + 0.9 * len(heights) + 2.2)
        panels = figure.subplots(len(stacks), 1, squeeze=False, height_ratios=heights)[:, 0]
        for panel, own, height in zip(panels, stacks.values(), heights):
            columns = _columns(own)
            for whole, scale in scales.items():
                changes = np.full((height, width), np.nan)  # NaN isn't drawn
                for row in own:
                    if (row.head is None) == whole:
                        changes[row.layer, columns[row.place, row.head]] = row.change
                if np.isfinite(changes).any():
                    images[whole] = panel.imshow(changes, vmin=-scale, vmax=scale, **style)
            _label(panel, own, (height, width), cell)
            for row in own if cell > 0.35 else ():
                _number(panel, row, columns[row.place, row.head], scales[row.head is None])
        for whole, image in sorted(images.items(), reverse=True):  # heads on top
            _draw_bar(figure, panels, image, f"change of {measure.name}, {_BARS[whole]}")
        figure.suptitle(f"{title}\n", fontweight="bold", parse_math=False)  # the line break makes room for headings


def _draw_bar(figure: "Figure", panels: Any, image: "AxesImage", label: str) -> None:
    bar = figure.colorbar(image, ax=panels, location="bottom", shrink=0.6, aspect=50, pad=0.06)
    bar.set_label(label, fontsize=8)
    bar.ax.tick_params(labelsize=8)
    bar.outline.set_visible(False)


def _stack(row: PartEffect) -> str:
    return row.place.split(".")[0]


def _columns(rows: Sequence[PartEffect]) -> dict[tuple[str, int | None], int]:
    """Assign a column to each part of a layer: all heads of an attention module, the whole module, then a gap."""
    found: dict[tuple[str, int | None], int] = {}
    for place in dict.fromkeys(row.place for row in rows):
        heads = sorted({row.head for row in rows if row.place == place and row.head is not None})
        wholes = [None] if any(row.place == place and row.head is None for row in rows) else []
        first = 1 + max(found.values()) + 1 if found else 0
        found |= {(place, part): first + number for number, part in enumerate([*heads, *wholes])}
    return found


def _largest(rows: Iterable[PartEffect]) -> float:
    """Return the largest absolute change, used as the limit of a scale that is symmetric about 0."""
    return max((abs(row.change) for row in rows), default=0.0) or 1.0


def _label(panel: "Axes", rows: Sequence[PartEffect], shape: tuple[int, int], cell: float) -> None:
    """Label layers on the left, heads below, and attention modules and feed-forward networks above."""
    separate_cells(panel, shape, lines=cell > 0.1)
    every = 1 if cell > 0.2 else 4
    columns, size = _columns(rows), 8 if cell > 0.3 else 6
    shown = {column: "all" if head is None else str(head) for (_, head), column in columns.items()}
    shown = {column: text for column, text in shown.items() if text == "all" or int(text) % every == 0}
    feed_forward = {column for (place, _), column in columns.items() if place.endswith("feed_forward")}
    kept = [column for column in shown if column not in feed_forward]
    panel.set_xticks(kept, [shown[column] for column in kept], fontsize=size)
    panel.set_yticks(range(0, shape[0], every), [str(n) for n in range(0, shape[0], every)], fontsize=size)
    panel.set_ylabel(f"{_stack(rows[0])} layer", fontsize=9)
    panel.set_xlabel("head" if any(row.head is not None for row in rows) else "", loc="left", fontsize=8)
    for place in dict.fromkeys(place for place, _ in columns):
        first = min(column for (own, _), column in columns.items() if own == place)
        panel.text(first - 0.5, -0.65, _TITLES[place.split(".")[1]], fontsize=9, fontweight="bold", va="bottom")


def _number(panel: "Axes", row: PartEffect, column: int, scale: float) -> None:
    """Write the change with two significant digits: -42, +0.31, -0.0042."""
    value = row.change
    text = "0" if abs(value) < 1e-4 else f"{value:+.0f}" if abs(value) >= 10 else f"{value:+.2g}"
    ink = "white" if abs(value) > 0.6 * scale else INK
    weight = "bold" if row.sure else "normal"
    panel.text(column, row.layer, text, ha="center", va="center", fontsize=6.5, fontweight=weight, color=ink)
