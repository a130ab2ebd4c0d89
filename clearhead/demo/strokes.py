"""Digits and shapes as line segments, in a box from -1 to 1 whose y axis points down."""

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Segments = NDArray[np.float32]  # (K, 2, 2): K segments, start and end, x and y
Points = list[tuple[float, float]]
_ROUND = 12  # segments in a full turn


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
