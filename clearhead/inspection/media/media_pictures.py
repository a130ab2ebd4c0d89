"""Draw attention over the image, or below the spectrogram."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...pictures.canvas import INK, WARM, drawing, readable
from ..views.alignment import TokenTiming
from ..views.head_grid import heads_of
from .media_explanation import MediaExplanation
from .media_input import AudioInput, ImageInput
from .media_text import InputMap

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HOT = WARM
_TITLE: dict[str, Any] = {"fontsize": 8, "fontweight": "normal", "parse_math": False}
_SIDE = 1.7  # side of a small picture in inches
_WIDTH = 8.0  # of the picture of a recording, in inches


def draw_maps(found: MediaExplanation, place: str, layer: int | None, path: Path) -> None:
    """Draw where every head of a layer, or of all layers, looks, then their mean and the rollout.

    Args:
        found: the explanation.
        place: encoder.self or decoder.cross.
        layer: the number of the layer, from 0. None draws all layers.
        path: the PNG or SVG file to write.
    """
    maps = [InputMap("rollout of all layers", found.rollout(place))]
    for number in range(found.n_layers(place)) if layer is None else [layer]:
        heads = found.maps(place, number)
        described = heads_of(found.labelled_weights(place, number))
        names = [f"layer {number}, head {it.number}: {it.entropy:.2f} bits" for it in described]
        maps += [InputMap(f"layer {number}, mean of heads", heads.mean(0))]
        maps += [InputMap(name, values) for name, values in zip(names, heads, strict=True)]
    title = f'{place} for "{readable(found.answer, 40)}"'
    if isinstance(found.input, ImageInput):
        _draw_image(found.input, maps, title, path, across=1 + len(found.maps(place, 0)))
    else:
        timings = found.timings() if place == "decoder.cross" else ()
        _draw_audio(found.input, found.rows(place), maps, title, path, timings)


def draw_timings(found: MediaExplanation, layer: int | None, path: Path) -> None:
    """Draw the time at which each token was spoken, above the cross-attention of a layer.

    Args:
        found: the explanation of a transcript.
        layer: the number of the layer, from 0. None draws its `alignment_layer`.
        path: the PNG or SVG file to write.
    """
    timings, number = found.timings(layer), found.alignment_layer if layer is None else layer
    maps = [InputMap(f"decoder.cross, layer {number}, mean of heads", found.mean_map("decoder.cross", layer))]
    assert isinstance(found.input, AudioInput)
    title = f'When "{readable(found.answer, 40)}" was said'
    _draw_audio(found.input, found.rows("decoder.cross"), maps, title, path, timings)


def draw_occlusion(found: MediaExplanation, path: Path) -> None:
    """Draw the drop in score when each part is hidden, next to attention and rollout."""
    it = found.occlusion
    title = f'Occlusion for "{readable(it.rows[0] if len(it.rows) == 1 else found.answer, 40)}"'
    correlations = [f"{name}: rank correlation {value:+.2f}" for name, value in it.correlations.items()]
    names = ["drop in log p if hidden", *correlations]
    maps = [InputMap(*pair) for pair in zip(names, it.maps, strict=True)]
    if isinstance(found.input, ImageInput):
        _draw_image(found.input, maps, title, path, across=1 + len(maps))
    else:
        _draw_audio(found.input, it.rows, maps, title, path, ())


def _draw_image(read: ImageInput, maps: Sequence[InputMap], title: str, path: Path, *, across: int) -> None:
    """Draw the image, then each map of the first row over a copy of it. The strongest colour is the map's maximum.

    If the maps don't fit into one row of panels, only the first one is next to the image, so that each layer begins
    a row.
    """
    skipped = across - 2 if len(maps) >= across else 0
    rows = math.ceil((1 + len(maps) + skipped) / across)
    with drawing(path, layout="compressed") as figure:
        figure.set_size_inches(_SIDE * across, (_SIDE + 0.45) * rows + 0.5)
        panels = figure.subplots(rows, across, squeeze=False).ravel()
        for panel in panels:
            panel.axis("off")
        _show_pixels(panels[0], read)
        panels[0].set_title("image", **_TITLE)
        for panel, it in zip([panels[1], *panels[2 + skipped :]], maps, strict=False):
            _show_pixels(panel, read)
            heat = read.grid(it.values[0])
            edge = len(read.pixels) - 0.5
            panel.imshow(_heat(heat), extent=(-0.5, edge, edge, -0.5), interpolation="nearest")
            name = it.title.replace(": ", "\n")
            panel.set_title(f"{name}\nat most {heat.max():.2g}", **_TITLE)
        figure.suptitle(title, fontweight="bold", fontsize=11, parse_math=False)


def _show_pixels(panel: "Axes", read: ImageInput) -> None:
    pixels = read.pixels / 255
    panel.imshow(pixels if pixels.shape[2] == 3 else pixels.repeat(3, 2), interpolation="nearest")


def _heat(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a colour for each value: transparent at 0 and below, strongest at the maximum. (R, R) -> (R, R, 4)"""
    from matplotlib.colors import to_rgb

    share = (values / max(values.max(), 1e-9)).clip(0)
    return np.concatenate([np.broadcast_to(to_rgb(_HOT), (*values.shape, 3)), 0.85 * share[..., None]], -1)


def _draw_audio(
    read: AudioInput,
    rows: Sequence[str],
    maps: Sequence[InputMap],
    title: str,
    path: Path,
    timings: Sequence[TokenTiming],
) -> None:
    """Draw the spectrogram, with the tokens above it at their times, and below it the maps, on one time axis."""
    heights = [1.5, *(max(0.22, 0.17 * len(rows)) for _ in maps)]
    with drawing(path) as figure:
        figure.set_size_inches(_WIDTH, sum(heights) + 0.32 * len(maps) + 1.2)
        panels = figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
        _show_spectrogram(panels[0], read, timings)
        for panel, it in zip(panels[1:], maps, strict=True):
            half, end = read.step / 2, (read.n_positions - 0.5) * read.step
            panel.imshow(it.values, cmap="Blues", vmin=0, vmax=max(it.values.max(), 1e-9), aspect="auto",
                         interpolation="nearest", extent=(-half, end, len(rows) - 0.5, -0.5))  # fmt: skip
            panel.grid(visible=False)
            panel.set_title(f"{it.title}, at most {it.values.max():.2g}", **_TITLE)
            every = math.ceil(len(rows) / 40)
            shown = range(0, len(rows), every)
            panel.set_yticks(shown, [readable(rows[n], 12) for n in shown], fontsize=7, parse_math=False)
            panel.tick_params(axis="y", length=0)
        panels[0].set_xlim(-read.step / 2, max(read.seconds, read.step))
        panels[-1].set_xlabel("seconds")
        figure.suptitle(title, fontweight="bold", fontsize=11, parse_math=False)


def _show_spectrogram(panel: "Axes", read: AudioInput, timings: Sequence[TokenTiming]) -> None:
    frame = read.seconds / len(read.spectrogram)
    edges = (-frame / 2, read.seconds - frame / 2, -0.5, read.spectrogram.shape[1] - 0.5)
    panel.imshow(read.spectrogram.T, cmap="Greys", origin="lower", aspect="auto", extent=edges)
    panel.grid(visible=False)
    panel.set_ylabel("mel band")
    for it in timings:
        panel.axvspan(it.start, it.end, color=_HOT, alpha=0.25, linewidth=0)
        panel.text((it.start + it.end) / 2, edges[3] + 1, readable(it.token, 8), ha="center", va="bottom", fontsize=9,
                   color=INK, parse_math=False)  # fmt: skip
    if not timings:
        panel.set_title("spectrogram", **_TITLE)
