"""Small grey images of digits and shapes: random size, tilt, place, clutter and noise.

Sizes and tilts fall into three ranges each. Every figure has some combinations of the two that occur only in held-out
images, so a model can't score by remembering images.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SIZE = 28  # pixels
HEIGHTS = ((6.0, 7.5), (7.5, 9.0), (9.0, 10.5))  # pixels from the centre of a figure to its edge
TILTS = ((-30.0, -10.0), (-10.0, 10.0), (10.0, 30.0))  # degrees
_OFF_CENTRE = 4.0  # pixels, at most
_MOST_CLUTTER = 3  # short lines beside the figure
_TOGETHER = 32  # images drawn at a time
_ROUND = 12  # line segments in a full turn

Array = NDArray[np.float32]
Segments = NDArray[np.float32]  # (K, 2, 2): K segments, start and end, x and y, in a box from -1 to 1 with y down
Points = list[tuple[float, float]]


def strokes() -> dict[str, Segments]:
    """Return the segments of each figure, keyed by label."""
    lines = _digits() | _shapes()
    return {label: np.concatenate([_joined(points) for points in it]) for label, it in lines.items()}


def arc(x: float, y: float, width: float, height: float, turn: tuple[float, float]) -> Points:
    """Return points on an ellipse, from one angle to another in degrees. 0 is right, 90 is down."""
    start, stop = turn
    n = max(2, math.ceil(abs(stop - start) / 360 * _ROUND) + 1)
    angles = np.radians(np.linspace(start, stop, n))
    return [(x + width * math.cos(it), y + height * math.sin(it)) for it in angles]


def _joined(points: Points) -> Segments:
    ends = np.array(points, np.float32)
    return np.stack((ends[:-1], ends[1:]), 1)


def _digits() -> dict[str, list[Points]]:
    six = [arc(0.75, 0.4, 1.3, 1.4, (270, 180)), arc(0, 0.4, 0.55, 0.6, (180, 540))]
    return {
        "0": [arc(0, 0, 0.6, 1, (0, 360))],
        "1": [[(-0.3, -0.65), (0.1, -1), (0.1, 1)]],
        "2": [[*arc(0, -0.45, 0.55, 0.55, (180, 390)), (-0.6, 1), (0.65, 1)]],
        "3": [[*arc(-0.05, -0.5, 0.55, 0.5, (200, 450)), *arc(-0.05, 0.5, 0.6, 0.5, (270, 520))]],
        "4": [[(0.3, 1), (0.3, -1), (-0.6, 0.4), (0.7, 0.4)]],
        "5": [[(0.5, -1), (-0.4, -1), (-0.45, -0.1), *arc(-0.05, 0.4, 0.6, 0.6, (240, 510))]],
        "6": six,
        "7": [[(-0.6, -1), (0.6, -1), (-0.15, 1)]],
        "8": [arc(0, -0.5, 0.45, 0.5, (0, 360)), arc(0, 0.5, 0.55, 0.5, (0, 360))],
        "9": [[(-x, -y) for x, y in points] for points in six],
    }


def _shapes() -> dict[str, list[Points]]:
    def corners(angles: Iterable[float], radii: Iterable[float]) -> Points:
        return [point for angle, r in zip(angles, radii) for point in arc(0, 0, r, r, (angle, angle))[:1]]

    heart = [
        (0.0, 0.9),
        *arc(-0.45, -0.4, 0.45, 0.45, (160, 360)),
        *arc(0.45, -0.4, 0.45, 0.45, (180, 380)),
        (0.0, 0.9),
    ]
    return {
        "circle": [arc(0, 0, 0.9, 0.9, (0, 360))],
        "cross": [[(0, -0.95), (0, 0.95)], [(-0.95, 0), (0.95, 0)]],
        "heart": [heart],
        "square": [corners(range(45, 406, 90), [1.1] * 5)],
        "star": [corners(range(-90, 271, 36), [1, 0.42] * 5 + [1])],
        "triangle": [corners(range(-90, 271, 120), [1.1] * 4)],
    }


FIGURES = strokes()
LABELS = tuple(FIGURES)


@dataclass(frozen=True)
class Drawings:
    """Images (N, SIZE, SIZE) with their labels, and the numbers (N,) of the ranges that size and tilt come from."""

    images: NDArray[np.uint8]
    labels: list[str]
    heights: NDArray[np.int64]
    tilts: NDArray[np.int64]


def is_held_out(figure: int, height: int, tilt: int) -> bool:
    """Return whether a figure of this size and tilt occurs only in held-out images. One in three does."""
    return (figure + height + tilt) % len(HEIGHTS) == 0


def draw(n: int, seed: int, *, held_out: bool) -> Drawings:
    """Draw `n` images, with as many of each figure as of any other.

    They have only the held-out combinations of figure, size and tilt, or only the others.
    """
    random = np.random.default_rng((seed, held_out))
    figures = random.permutation(np.arange(n) % len(LABELS))
    pairs = [(height, tilt) for height in range(len(HEIGHTS)) for tilt in range(len(TILTS))]
    allowed = [[pair for pair in pairs if is_held_out(it, *pair) is held_out] for it in range(len(LABELS))]
    chosen = np.array([allowed[it][random.integers(len(allowed[it]))] for it in figures]).reshape(n, 2)
    images = np.empty((n, SIZE, SIZE), np.uint8)
    for number, segments in enumerate(FIGURES.values()):
        rows = np.flatnonzero(figures == number)
        for part in np.split(rows, range(_TOGETHER, len(rows), _TOGETHER)):
            images[part] = _images(segments, chosen[part, 0], chosen[part, 1], random)
    return Drawings(images, [LABELS[it] for it in figures], chosen[:, 0], chosen[:, 1])


def coverage(segments: Array, width: Array) -> Array:
    """Return how much of each pixel lines cover: 1 inside, 0 outside, and a ramp of one pixel between the two.

    The distance from the pixel's centre p to a segment from a to b is |p - a - t (b - a)|, for the t in [0, 1] that
    makes it smallest. (N, K, 2, 2) in pixels, (N,) -> (N, SIZE, SIZE)
    """
    place = np.arange(SIZE, dtype=np.float32)
    nearest = np.full((len(segments), SIZE, SIZE), np.inf, np.float32)  # squared distance
    for segment in segments.swapaxes(0, 1):  # (N, 2, 2); one at a time stays in the processor's cache
        start, along = segment[:, 0], segment[:, 1] - segment[:, 0]
        x, y = place - start[:, :1], place - start[:, 1:]  # (N, SIZE): from the start to each column and row
        unit = along / np.maximum((along**2).sum(1, keepdims=True), 1e-9)
        share = ((y * unit[:, 1:])[:, :, None] + (x * unit[:, :1])[:, None, :]).clip(0, 1)
        far_x = x[:, None, :] - share * along[:, :1, None]
        far_y = y[:, :, None] - share * along[:, 1:, None]
        np.minimum(nearest, far_x**2 + far_y**2, out=nearest)
    return (width[:, None, None] / 2 - np.sqrt(nearest) + 0.5).clip(0, 1)


def _images(
    segments: Segments, heights: NDArray[np.int64], tilts: NDArray[np.int64], random: np.random.Generator
) -> NDArray[np.uint8]:
    """Draw one figure with the sizes and tilts of some ranges. (N,), (N,) -> (N, SIZE, SIZE)"""
    n = len(heights)
    height, tilt = (random.uniform(*np.array(it)[chosen].T) for it, chosen in ((HEIGHTS, heights), (TILTS, tilts)))
    placed, width = _placed(segments, height, tilt, random)
    figure, clutter = coverage(placed, width), coverage(_clutter(n, random), width)
    paper, ink = (random.uniform(*between, (n, 1, 1)) for between in ((0, 60), (140, 255)))
    noise = random.normal(0, 1, figure.shape) * random.uniform(5, 20, (n, 1, 1))
    whole = paper + (ink - paper) * np.maximum(figure, clutter) + noise
    return whole.round().clip(0, 255).astype(np.uint8)


def _placed(segments: Segments, height: Array, tilt: Array, random: np.random.Generator) -> tuple[Array, Array]:
    """Stretch, turn and move a figure so that it stays inside the image. -> (N, K, 2, 2), and line widths (N,)"""
    n = len(height)
    stretch = np.stack((random.uniform(0.85, 1.15, n), np.ones(n)), 1)[:, None, None]
    cos, sin = np.cos(np.radians(tilt)), np.sin(np.radians(tilt))
    turn = np.stack((np.stack((cos, sin), 1), np.stack((-sin, cos), 1)), 1)  # (N, 2, 2), for points as rows
    points = (segments * stretch).reshape(n, -1, 2) * height[:, None, None] @ turn
    free = (SIZE / 2 - 1 - np.abs(points).max(1)).clip(0, _OFF_CENTRE)  # (N, 2)
    centre = (SIZE - 1) / 2 + random.uniform(-1, 1, (n, 2)) * free
    placed = (points + centre[:, None]).reshape(n, -1, 2, 2).astype(np.float32)
    return placed, random.uniform(1.0, 2.2, n).astype(np.float32)


def _clutter(n: int, random: np.random.Generator) -> Array:
    """Return none to three short lines for each image. (N, K, 2, 2)"""
    shape = (n, _MOST_CLUTTER)
    start, angle = random.uniform(0, SIZE, (*shape, 2)), random.uniform(0, 2 * np.pi, shape)
    reach = random.uniform(2, 5, shape)[..., None] * np.stack((np.cos(angle), np.sin(angle)), -1)
    unused = np.arange(_MOST_CLUTTER) >= random.integers(_MOST_CLUTTER + 1, size=(n, 1))
    lines = np.stack((start, start + reach), 2)
    lines[unused] = -9 * SIZE  # far away
    return lines.astype(np.float32)
