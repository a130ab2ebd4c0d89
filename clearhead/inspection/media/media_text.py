"""Images as grids of shades, and recordings as lines of shades, for the terminal."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from rich.cells import cell_len

from ..views.alignment import TokenTiming
from ..views.head_grid import shaded
from ..views.text_columns import WIDTH, cut, left
from .media_input import AudioInput, ImageInput, MediaInput
from .occlusion import Occlusion

_LABEL = 14  # columns of a token, at most
_MOST = 64  # columns of a recording
_NAMED = 5  # patches or stretches to name
_WIDE = 24  # patches in a row that fit with two columns each


@dataclass(frozen=True)
class InputMap:
    """A value for each position of the input, for each row, (R, S), with a title."""

    title: str
    values: NDArray[np.float64]


def render_maps(read: MediaInput, rows: Sequence[str], maps: Sequence[InputMap], *, color: bool = False) -> str:
    """Render maps of the input: patches as grids side by side, a recording as a line for each row.

    Args:
        rows: the names of the rows.
        maps: the maps to render; the darkest shade is the largest value of each map.
        color: use background colours instead of characters.
    """
    lines = _grids(read, rows, maps, color) if isinstance(read, ImageInput) else _lines(read, rows, maps, color)
    about = "each map's largest value has the darkest shade" if color else "the denser, the more; the most is █"
    return "\n".join([*lines, f"({about})"])


def _grids(read: ImageInput, rows: Sequence[str], maps: Sequence[InputMap], color: bool) -> list[str]:
    """Return the image and the maps of the first row as grids, as many side by side as fit into 80 columns."""
    grids = [("image", "bright is dense", read.brightness())] if len(maps) > 1 else []
    grids += [(it.title, f"at most {it.values[0].max():.2g}", read.grid(it.values[0])) for it in maps]
    wide = 2 if read.across <= _WIDE else 1
    bars = 0 if color else 2
    room = max(wide * read.across + bars, 24)
    across = max(1, (WIDTH + 2) // (room + 2))
    lines = [f'where the model looked for "{cut(rows[0], 40)}"']
    for start in range(0, len(grids), across):
        titles, notes, some = zip(*grids[start : start + across], strict=True)
        lines += ["", *("  ".join(left(it, room) for it in line).rstrip() for line in (titles, notes))]
        for cells in zip(*(values / max(values.max(), 1e-9) for values in some), strict=True):
            lines.append("  ".join(_padded(np.repeat(row, wide), room, color) for row in cells).rstrip())
    return lines


def _padded(row: NDArray[np.float64], room: int, color: bool) -> str:
    shown = shaded(row.tolist(), color=color)
    return shown + " " * (room - len(row) - (0 if color else 2))


def _lines(read: AudioInput, rows: Sequence[str], maps: Sequence[InputMap], color: bool) -> list[str]:
    """Return a row of shading for each row of each map, below the time and the loudness."""
    label = min(_LABEL, max(map(cell_len, [*rows, "loudness"]))) + 1
    n_columns = min(read.n_positions * max(1, _MOST // read.n_positions), _MOST)
    loudness = read.spectrogram.mean(1)
    loudness = loudness - loudness.min()
    lines = [" " * (label + 1) + _clock(read.seconds, n_columns), _line("loudness", loudness, label, n_columns, color)]
    for it in maps:
        lines += ["", f"{it.title}, at most {it.values.max():.2g}"]
        highest = max(_pooled(row, n_columns).max() for row in it.values)
        lines += [_line(name, row, label, n_columns, color, highest) for name, row in zip(rows, it.values, strict=True)]
    return lines


def _line(
    name: str, values: NDArray[np.float64], label: int, n_columns: int, color: bool, highest: float | None = None
) -> str:
    pooled = _pooled(values, n_columns)
    shades = pooled / max(pooled.max() if highest is None else highest, 1e-9)
    return left(name, label) + shaded(shades.clip(0).tolist(), color=color)


def _pooled(values: NDArray[np.float64], n_columns: int) -> NDArray[np.float64]:
    """Return the mean of each of `n_columns` equal stretches."""
    pooled = torch.nn.functional.adaptive_avg_pool1d(torch.from_numpy(np.ascontiguousarray(values))[None], n_columns)
    return pooled[0].numpy()


def _clock(seconds: float, n_columns: int) -> str:
    """Return the times at the start, at each quarter and at the end."""
    line = ""
    for quarter in range(5):
        shown = f"{seconds * quarter / 4:.2f}s"
        at = round(n_columns * quarter / 4) - (len(shown) if quarter == 4 else 0)
        if at >= len(line) + (quarter > 0):
            line = line.ljust(at) + shown
    return line


def render_timings(timings: Sequence[TokenTiming], layer: int) -> str:
    """Render a line for each token with the time at which it was spoken, by attention."""
    label = min(_LABEL, max((cell_len(it.token) for it in timings), default=0))
    lines = [f"{left(it.token, label)}  {it.start:7.2f}s to {it.end:.2f}s" for it in timings]
    return "\n".join([*lines, "", f"by attention in decoder.cross, layer {layer}, mean of all heads"])


def render_occlusion(read: MediaInput, found: Occlusion, names: Sequence[str], *, color: bool = False) -> str:
    """Render the drops in score next to attention and rollout, the parts that matter most, and correlations.

    Args:
        read: the input.
        found: the drops.
        names: the names of all positions, (S,).
        color: use background colours instead of characters.
    """
    maps = [InputMap(*it) for it in zip(("drop in score", "attention", "rollout"), found.maps)]
    lines = [render_maps(read, found.rows, maps, color=color), "", *_most(found, names), ""]
    numbers = ", ".join(f"{name} {value:+.2f}" for name, value in found.correlations.items())
    return "\n".join([*lines, f"rank correlation with the drop: {numbers}"])


def _most(found: Occlusion, names: Sequence[str]) -> list[str]:
    """Return a line for each of the most important parts."""
    falls = found.falls.sum(0)
    lines = [f"{'hidden':<18}{'log p falls by':>14}{'attention':>11}{'rollout':>9}"]
    for number in np.argsort(-falls, kind="stable")[:_NAMED].tolist():
        group = found.groups[number]
        name = names[group[0]] if len(group) == 1 else f"{names[group[0]]} to {names[group[-1]]}"
        numbers = (float(it[:, number].mean()) for it in (found.attention, found.rollout))
        lines.append(f"{name:<18}{falls[number]:>14.2g}" + "".join(f"{it:>{n}.3f}" for it, n in zip(numbers, (11, 9))))
    return lines
