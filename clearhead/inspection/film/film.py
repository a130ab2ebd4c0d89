"""Film of a training run, recorded by `train --watch`: explanations of one text, one for each evaluation.

It's shown as text, as a sheet of small pictures or as an animated GIF.
"""

import json
import math
import re
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ...errors import ConfigError, DataError, unknown
from ...folder.atomic import save_file
from ...folder.checkpoint import FILM
from ...pictures.canvas import FAINT, INK, STRONG, WARM, drawing, readable, tick_pieces
from ..record.labels import LabelledArray
from ..views.explanation import Explanation
from ..views.head_grid import render_heads, render_keys
from ..views.text_columns import cut, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DIGITS = 4  # decimals of a weight, enough for any picture


@dataclass(frozen=True)
class Frame:
    """The answer to a text at a training step, with scores, attention weights and layer predictions.

    `probability` is that of the answer; films of earlier versions don't have it.
    """

    step: int
    scores: Mapping[str, float]
    text: str
    answer: str
    axes: Mapping[str, tuple[Sequence[str], Sequence[str]]]  # queries and keys of each attention module
    weights: Mapping[str, list[list[list[float]]]]  # (H, T, S) for each attention module
    lens: Mapping[str, Sequence[str]]  # the tokens predicted from each decoder state
    probability: float | None = None

    @classmethod
    def of(cls, explanation: Explanation, step: int, scores: Mapping[str, float]) -> "Frame":
        """Make a frame from an explanation.

        Args:
            explanation: the explanation of the watched text.
            step: the training step.
            scores: the scores at this step, empty before training.
        """
        axes, weights = dict[str, Any](), dict[str, Any]()
        for name, calls in explanation.trace.calls.items():
            if calls[-1].known_weights is not None:
                stack, layer, kind = name.split(".")
                shown = explanation.shown_weights(f"{stack}.{kind}", int(layer))
                axes[name] = (shown.tokens["query"], shown.tokens["key"])
                weights[name] = np.round(shown.numpy().astype(np.float64), _DIGITS).tolist()
        lens = {it.name: [best[0] for best in it.tokens] for it in explanation.lens.layers} if explanation.said else {}
        values = explanation.values
        p = math.exp(values["log_probability"]) if "log_probability" in values else values.get("probability")
        return cls(step, dict(scores), explanation.text, explanation.answer, axes, weights, lens, p)

    @classmethod
    def read(cls, values: Mapping[str, Any], path: Path, number: int) -> "Frame":
        """Make a frame from a line of a film.

        Args:
            values: the content of the line.
            path: the file with the film, for messages.
            number: the number of the line, from 1.

        Raises:
            DataError: it isn't a valid frame.
        """
        try:
            values = {"probability": None, **values}
            frame = cls(**{name: values[name] for name in cls.__dataclass_fields__} | _texts(values))
            frame._check()
        except KeyError as error:
            wrong = f"it has no {error}"
        except (AttributeError, TypeError, ValueError):
            wrong = "its values aren't those of a frame"
        else:
            return frame
        what = f"{path}, line {number} is damaged: {wrong}"
        expected = "a frame that training with `train.watch` has written"
        fix = "delete the line to see the other frames"
        raise DataError(what, expected=expected, fix=fix, name=str(path), line=number)

    def _check(self) -> None:
        """Raise a KeyError, TypeError or ValueError if the values aren't usable."""
        numbers = [*self.scores.values(), self.probability or 0.0]
        if not isinstance(self.step, int) or not all(isinstance(it, float | int) for it in numbers):
            raise TypeError
        for place, weights in self.weights.items():
            rows, columns = self.axes[place]
            if np.asarray(weights, np.float64).shape != (len(weights), len(rows), len(columns)) or not rows:
                raise ValueError

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def labelled(self, place: str, rows: int | None = None) -> LabelledArray:
        """Return the weights of an attention module with axes head, query and key, for at most `rows` queries."""
        queries, keys = self.axes[place]
        values = torch.tensor(self.weights[place])[:, :rows]
        return LabelledArray(values, ("head", "query", "key"), {"query": queries[:rows], "key": keys})


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the text and the answer. Reading the log turns the texts "NaN" and "Infinity" into numbers; undo this."""
    texts = {name: values[name] for name in ("text", "answer")}
    texts = {name: json.dumps(it) if isinstance(it, float) else it for name, it in texts.items()}
    if not all(isinstance(it, str) for it in texts.values()):
        raise TypeError
    return texts


_ROWS = 24  # maximum number of rows in a small picture


@dataclass(frozen=True)
class Film:
    """The frames of a run, in order, and the labels of their scores (default: their names)."""

    frames: Sequence[Frame]
    labels: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Sequence[Mapping[str, Any]], folder: Path, labels: Mapping[str, str] | None = None) -> "Film":
        """Build a film from the lines of `film.jsonl`.

        Args:
            records: the lines.
            folder: the model folder that they come from, for messages.
            labels: see `Film`.

        Raises:
            DataError: there are no lines, or one is damaged.
        """
        if not records:
            what = f"{folder} has no film"
            expected = 'a model trained with `train.watch="a text"` and evaluated on held-out data'
            raise DataError(what, expected=expected, name=str(folder))
        frames = [Frame.read(it, Path(folder) / FILM, number) for number, it in enumerate(records, start=1)]
        heads = [{place: len(weights) for place, weights in it.weights.items()} for it in frames]
        if odd := next((number for number, it in enumerate(heads, start=1) if it != heads[0]), None):
            path = Path(folder) / FILM
            what = f"{path}, line {odd} doesn't have the same attention modules as line 1"
            raise DataError(what, expected="frames of a single run", name=str(path), line=odd)
        return cls(frames, labels or {})

    def place(self, name: str | None, layer: int) -> str:
        """Return the name of an attention module in the frames: "decoder.cross" in layer 0 is "decoder.0.cross".

        Args:
            name: a stack and a kind, such as "decoder.cross" (default: the last kind).
            layer: the number of the layer, from 0.

        Raises:
            ConfigError: the frames don't contain this module.
        """
        known = list(self.frames[-1].weights)
        kinds = list(dict.fromkeys(".".join(it.split(".")[::2]) for it in known))
        if not kinds:
            what = "the film has no attention weights, because the model's attention modules don't report any"
            expected = "a class with a method weights(q, k, *, mask, bias)"
            fix = "use --json to see the answers and the predictions of each layer"
            raise ConfigError(what, expected=expected, fix=fix, name="weights")
        stack, _, kind = (name or kinds[-1]).partition(".")
        found = f"{stack}.{layer}.{kind}"
        if found not in known:
            raise unknown(f"the film has no attention {found}", found, known, "attention")
        return found

    def render(self, place: str, *, color: bool = False) -> str:
        """Render the frames as text, one below the other: scores, answer and small pictures of all heads at `place`.

        Early answers may never end, so no frame shows more rows than the last one.
        """
        blocks, rows = [], min(len(self.frames[-1].axes[place][0]), _ROWS)
        for it in self.frames:
            weights = it.labelled(place, rows)
            heads = render_heads(place, weights, color=color, of=len(it.axes[place][0]))
            keys = render_keys(weights) if it is self.frames[0] or not place.endswith("cross") else []
            blocks.append([*keys, heads])
        return self._stacked(blocks)

    def render_lens(self) -> str:
        """Render the frames as text, with the predictions of each decoder layer instead of heads, last layer first.

        Raises:
            ConfigError: the model has no decoder.
        """
        if not (last := self.frames[-1].lens):
            what = "the film has no layer predictions, because its model has no decoder"
            raise ConfigError(what, expected="a model that translates, summarizes or generates", name="lens")
        tokens = max(map(len, last.values()))
        names = max(map(len, last)) + 2
        return self._stacked(
            [
                [row for name in reversed([*it.lens]) for row in wrapped(f"{name:<{names}}", it.lens[name][:tokens])]
                for it in self.frames
            ]
        )

    def _stacked(self, views: Sequence[Sequence[str]]) -> str:
        """Join the views of all frames, each after the frame's scores and answer."""
        blocks = [f'"{cut(readable(self.frames[0].text, 60), 60)}" at each evaluation']
        for it, view in zip(self.frames, views, strict=True):
            numbers = [f"{_label(name, self.labels)} {value:.4g} " for name, value in it.scores.items()]
            scores = wrapped(f"step {it.step:,}  ", numbers or ["untrained"])
            blocks.append("\n".join([*scores, f"answer  {cut(readable(it.answer, 72), 72)}", *view]))
        return "\n\n".join(blocks)

    def to_dict(self) -> dict[str, Any]:
        return {"format_version": 1, "frames": [it.to_dict() for it in self.frames]}

    def draw(self, place: str, path: Path, *, moving: bool = False) -> None:
        """Draw up to eight frames as columns, with a row for each head, or all frames as an animated GIF.

        Args:
            place: the name of an attention module, from `place`.
            path: the PNG or SVG file to write, or the GIF.
            moving: write a GIF.
        """
        (_write_gif if moving else _draw_sheet)(self.frames, place, path, self.labels)


# --- pictures

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


def _draw_sheet(frames: Sequence[Frame], place: str, path: Path, labels: Mapping[str, str]) -> None:
    """Draw the loss and the score, and below them up to eight frames as columns, with a row for each head."""
    chosen = sorted({round(i) for i in np.linspace(0, len(frames) - 1, min(_ACROSS, len(frames)))})
    shown = [frames[i] for i in chosen]
    n_heads, panels = len(shown[-1].weights[place]), _Panels(shown[-1], place)
    with drawing(path) as figure:
        figure.set_size_inches(max(_SIDE * len(shown), 4) + 1.6, _SIDE * (n_heads + 1) + 1.8)
        grid = figure.add_gridspec(n_heads + 1, len(shown), height_ratios=[0.8] + [1.0] * n_heads)
        _draw_curves(figure.add_subplot(grid[0, :]), frames, [it.step for it in shown], labels)
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


def _write_gif(frames: Sequence[Frame], place: str, path: Path, labels: Mapping[str, str]) -> None:
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
        _draw_curves(figure.add_subplot(grid[down, :]), frames, [frame.step], labels)
        text, answer = (readable(it, 44) for it in (frame.text, frame.answer))
        title = f'{place} of "{text}"\nstep {frame.step:,}: {answer}'
        figure.suptitle(title, x=0.02, ha="left", fontsize=11, fontweight="bold", parse_math=False)


def _below(frame: Frame, labels: Mapping[str, str]) -> str:
    """Return the caption of a frame: step, loss, score and answer."""
    numbers = [f"{_label(name, labels)} {frame.scores[name]:.3g}" for name in _shown_scores([frame])]
    answer = textwrap.wrap(readable(frame.answer, 66), 22, max_lines=3, placeholder=" …")
    return "\n".join([f"step {frame.step:,}", *(numbers or ["untrained"]), "", *answer])


def _label(name: str, labels: Mapping[str, str]) -> str:
    """Return the label of a score (default: its name)."""
    return labels.get(name, name.replace("_", " "))


def _shown_scores(frames: Sequence[Frame]) -> list[str]:
    """Return the names of the loss and the first other score, if any."""
    names = list(dict.fromkeys(name for it in frames for name in it.scores))
    return [name for name in names if name == "loss"] + [name for name in names if name != "loss"][:1]


def _draw_curves(panel: "Axes", frames: Sequence[Frame], marked: Sequence[int], labels: Mapping[str, str]) -> None:
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
        axes.set_ylabel(_label(name, labels), color=color)
        axes.tick_params(axis="y", labelsize=7, labelcolor=color)
        axes.set_ylim(0, 1.15 * max(values) or 1)
    panel.tick_params(axis="x", labelsize=7)


def _are_one_curve(frames: Sequence[Frame], first: str, second: str) -> bool:
    """Return whether one score is a constant multiple of the other, over at least two frames."""
    pairs = [(it.scores[first], it.scores[second]) for it in frames if first in it.scores and second in it.scores]
    ratios = [b / a for a, b in pairs if a]
    return 1 < len(ratios) == len(pairs) and np.allclose(ratios, ratios[0], rtol=1e-3)
