"""Draw an ablation, with layers as rows, and heads, attention modules and feed-forward networks as columns."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...pictures.canvas import drawing, separate_cells
from .study import PartEffect

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

_TITLES = {"self": "self-attention", "cross": "cross-attention", "feed_forward": "feed-\nforward"}
_BARS = {False: "heads", True: "whole sub-layers"}


def draw_changes(rows: Sequence[PartEffect], path: Path, *, title: str, name: str, lower: bool) -> None:
    """Draw the change of a score without each part: red if it gets worse, blue if it gets better.

    Heads and whole sub-layers have separate colour scales, since sub-layers matter far more than single heads. Numbers
    are bold if the confidence interval excludes 0.

    Args:
        rows: the results, one for each part.
        path: the PNG or SVG file to write.
        title: the title of the picture.
        name: the name of the score.
        lower: lower scores are better.
    """
    stacks = {stack: [row for row in rows if _stack(row) == stack] for stack in dict.fromkeys(map(_stack, rows))}
    heights = [1 + max(row.layer for row in own) for own in stacks.values()]
    width = max(1 + max(_columns(own).values()) for own in stacks.values())
    cell = min(0.5, 16 / max(width, *heights))  # in inches
    scales = {whole: _largest(row for row in rows if (row.head is None) == whole) for whole in _BARS}
    style: dict[str, Any] = {"cmap": "RdBu_r" if lower else "RdBu", "interpolation": "nearest"}
    images: dict[bool, AxesImage] = {}
    with drawing(path, layout="compressed", again="run the command again") as figure:
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
            _draw_bar(figure, panels, image, f"change of {name}, {_BARS[whole]}")
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
    ink = "white" if abs(value) > 0.6 * scale else "#22272e"
    weight = "bold" if row.sure else "normal"
    panel.text(column, row.layer, text, ha="center", va="center", fontsize=6.5, fontweight=weight, color=ink)
