"""Draw the frames of a run, with its loss and score, as a sheet of small pictures or as an animated GIF."""

import math
import re
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...folder.atomic import save_file
from ...pictures.canvas import FAINT, INK, STRONG, WARM, drawing, readable, tick_pieces
from .frame import Frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PATCH = re.compile(r"r(\d+)c\1")  # the name of the last patch of an image
_ACROSS = 8  # maximum number of frames in a sheet, evenly spaced
_SIDE = 1.5  # side of a small picture, in inches
_SECONDS = 0.6  # duration of a frame of the GIF
_LAST = 2.4  # duration of the last frame, before the GIF restarts


class _Panels:
    """Small pictures of the heads of an attention module, all with the rows, columns and scale of the last frame."""

    def __init__(self, last: Frame, place: str) -> None:
        self.place, (self.queries, self.keys) = place, last.axes[place]
        one, patch = len(self.queries) == 1, _PATCH.fullmatch(self.keys[-1])
        self.across = int(patch[1]) + 1 if patch and one else 0  # patches in a row, if one query attends to an image
        self.darkest = float(np.max(last.weights[place])) if one else 1.0
        self.cell = _SIDE / max(len(self.queries), len(self.keys))  # in inches

    def draw(self, panel: "Axes", frame: Frame, head: int, *, above: bool, beside: bool, right: bool = False) -> None:
        """Draw a head, with the names of the keys above it and of the queries next to it. Patches need no names."""
        weights = np.array(frame.weights[self.place][head])
        shown = weights[0, -(self.across**2) :].reshape(self.across, self.across) if self.across else weights
        panel.imshow(shown, cmap="Blues", vmin=0, vmax=self.darkest, interpolation="nearest",
                     aspect="equal" if self.across else "auto")  # fmt: skip
        panel.grid(visible=False)
        queries, keys = ([readable(it, 12) for it in names] for names in frame.axes[self.place])
        if not self.across:
            panel.set_xlim(-0.5, len(self.keys) - 0.5)
            panel.set_ylim(len(self.queries) - 0.5, -0.5)
        columns = keys[: len(self.keys)] if above and not self.across else ()
        rows = queries[: len(self.queries)] if beside and not self.across else ()
        tick_pieces(panel, self.cell, columns, rows, right=right)


def draw_sheet(frames: Sequence[Frame], place: str, path: Path, labels: Mapping[str, str]) -> None:
    """Draw the loss and the score, and below them up to eight frames as columns, with a row for each head."""
    chosen = sorted({round(i) for i in np.linspace(0, len(frames) - 1, min(_ACROSS, len(frames)))})
    shown = [frames[i] for i in chosen]
    n_heads, panels = len(shown[-1].weights[place]), _Panels(shown[-1], place)
    with drawing(path) as figure:
        figure.set_size_inches(max(_SIDE * len(shown), 4) + 1.6, _SIDE * (n_heads + 1) + 1.8)
        grid = figure.add_gridspec(n_heads + 1, len(shown), height_ratios=[0.8] + [1.0] * n_heads)
        draw_curves(figure.add_subplot(grid[0, :]), frames, [it.step for it in shown], labels)
        for column, frame in enumerate(shown):
            for head in range(n_heads):
                panel, last = figure.add_subplot(grid[head + 1, column]), column == len(shown) - 1
                panels.draw(panel, frame, head, above=not head, beside=last, right=True)
                if not column:
                    panel.set_ylabel(f"head {head}", color=INK)
                if head == n_heads - 1:
                    panel.set_xlabel(_below(frame, labels), fontsize=7, parse_math=False)
        title = f'{place} of "{readable(frames[0].text, 40)}": rows attend to columns'
        figure.suptitle(title, fontweight="bold", parse_math=False)


def write_gif(frames: Sequence[Frame], place: str, path: Path, labels: Mapping[str, str]) -> None:
    """Write all frames as an animated GIF. It uses Pillow, which is installed with matplotlib."""
    with tempfile.TemporaryDirectory() as folder:
        shots = [Path(folder) / f"{number}.png" for number in range(len(frames))]
        for number, shot in enumerate(shots):
            _draw_still(frames, number, place, shot, labels)
        from PIL import Image

        palette = Image.new("P", (1, 1))
        palette.putpalette(_colors())
        images = [Image.open(it).convert("RGB").quantize(palette=palette, dither=Image.Dither.NONE) for it in shots]
        times = [1000 * _SECONDS] * (len(images) - 1) + [1000 * _LAST]
        whole = Path(folder) / "film.gif"
        images[0].save(whole, save_all=True, append_images=images[1:], duration=times, loop=0)
        save_file(path, whole.read_bytes())


def _colors() -> list[int]:
    """Return a palette of 256 colours: the blues of the weights, and each ink colour fading to white."""
    from matplotlib import colormaps
    from matplotlib.colors import to_rgb

    found = colormaps["Blues"](np.linspace(0, 1, 128))[:, :3].tolist()
    for ink in (INK, FAINT, STRONG, WARM):
        found += [[1 - share * (1 - part) for part in to_rgb(ink)] for share in np.linspace(0, 1, 32)]
    return [round(255 * part) for color in found for part in color]


def _draw_still(frames: Sequence[Frame], number: int, place: str, path: Path, labels: Mapping[str, str]) -> None:
    """Draw one frame of the GIF. All frames have the same size and layout, so only what changes moves."""
    frame, panels = frames[number], _Panels(frames[-1], place)
    n_heads = len(frame.weights[place])
    across = min(n_heads, 4)
    down = math.ceil(n_heads / across)
    with drawing(path, tight=False) as figure:
        width, height = 2.0 * max(across, 2) + 1.9, 2.1 * down + 2.9
        figure.set_size_inches(width, height)
        figure.set_layout_engine("none")  # a layout engine would make room for long tokens, differently in each frame
        edges = {"left": 1.2 / width, "right": 1 - 0.6 / width, "top": 1 - 1.4 / height, "bottom": 0.3 / height}
        grid = figure.add_gridspec(
            down + 1, across, height_ratios=[1.0] * down + [0.6], **edges, hspace=0.3, wspace=0.1
        )
        for head in range(n_heads):
            row, column = divmod(head, across)
            panel = figure.add_subplot(grid[row, column])
            panels.draw(panel, frame, head, above=not row, beside=not column)
            panel.set_xlabel(f"head {head}", color=INK)
        draw_curves(figure.add_subplot(grid[down, :]), frames, [frame.step], labels)
        text, answer = (readable(it, 44) for it in (frame.text, frame.answer))
        title = f'{place} of "{text}"\nstep {frame.step:,}: {answer}'
        figure.suptitle(title, x=0.02, ha="left", fontsize=11, fontweight="bold", parse_math=False)


def _below(frame: Frame, labels: Mapping[str, str]) -> str:
    """Return the caption of a frame: step, loss, score and answer."""
    numbers = [f"{label_of(name, labels)} {frame.scores[name]:.3g}" for name in _shown_scores([frame])]
    answer = textwrap.wrap(readable(frame.answer, 66), 22, max_lines=3, placeholder=" …")
    return "\n".join([f"step {frame.step:,}", *(numbers or ["untrained"]), "", *answer])


def label_of(name: str, labels: Mapping[str, str]) -> str:
    """Return the label of a score (default: its name)."""
    return labels.get(name, name.replace("_", " "))


def _shown_scores(frames: Sequence[Frame]) -> list[str]:
    """Return the names of the loss and the first other score, if any."""
    names = list(dict.fromkeys(name for it in frames for name in it.scores))
    return [name for name in names if name == "loss"] + [name for name in names if name != "loss"][:1]


def draw_curves(panel: "Axes", frames: Sequence[Frame], marked: Sequence[int], labels: Mapping[str, str]) -> None:
    """Draw the loss and the score by step, with a vertical line at each marked step."""
    panel.set_xlim(frames[0].step - 0.5, frames[-1].step + 0.5)
    panel.locator_params(axis="x", integer=True, nbins=8)
    panel.xaxis.set_major_formatter("{x:,.0f}")
    for step in marked:
        panel.axvline(step, color=FAINT, linewidth=0.8)
    names = _shown_scores(frames)
    if len(names) > 1 and _are_one_curve(frames, *names):  # bits per byte are the loss in another unit
        names = names[1:]
    for number, (name, color, line) in enumerate(zip(names, (STRONG, WARM), ("-", "--"))):
        axes = panel.twinx() if number else panel
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        steps, values = zip(*((it.step, it.scores[name]) for it in frames if name in it.scores))
        axes.plot(steps, values, color=color, linestyle=line, marker="o", markersize=3, clip_on=False)
        axes.set_ylabel(label_of(name, labels), color=color)
        axes.tick_params(axis="y", labelsize=7, labelcolor=color)
        axes.set_ylim(0, 1.15 * max(values) or 1)
    panel.tick_params(axis="x", labelsize=7)


def _are_one_curve(frames: Sequence[Frame], first: str, second: str) -> bool:
    """Return whether one score is a constant multiple of the other, over at least two frames."""
    pairs = [(it.scores[first], it.scores[second]) for it in frames if first in it.scores and second in it.scores]
    ratios = [b / a for a, b in pairs if a]
    return 1 < len(ratios) == len(pairs) and np.allclose(ratios, ratios[0], rtol=1e-3)
