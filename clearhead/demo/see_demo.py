"""`clearhead demo see`: draw digits and shapes, train a classifier, and score it on unseen sizes and tilts of each.

The images are small and grey, with random size, tilt, place, clutter and noise. Sizes and tilts fall into three ranges
each. Every figure has some combinations of the two that occur only in held-out images, so a model can't score by
remembering images.
"""

import io
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..api import Classifier, load
from ..apps.evaluation import Evaluation
from ..config.messages import say
from ..inspection.page.page_data import png
from .demo_folder import DemoFolder, expect

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


def _arc(x: float, y: float, width: float, height: float, turn: tuple[float, float]) -> Points:
    """Return points on an ellipse, from one angle to another in degrees. 0 is right, 90 is down."""
    start, stop = turn
    n = max(2, math.ceil(abs(stop - start) / 360 * _ROUND) + 1)
    angles = np.radians(np.linspace(start, stop, n))
    return [(x + width * math.cos(it), y + height * math.sin(it)) for it in angles]


def _joined(points: Points) -> Segments:
    ends = np.array(points, np.float32)
    return np.stack((ends[:-1], ends[1:]), 1)


def _digits() -> dict[str, list[Points]]:
    six = [_arc(0.75, 0.4, 1.3, 1.4, (270, 180)), _arc(0, 0.4, 0.55, 0.6, (180, 540))]
    return {
        "0": [_arc(0, 0, 0.6, 1, (0, 360))],
        "1": [[(-0.3, -0.65), (0.1, -1), (0.1, 1)]],
        "2": [[*_arc(0, -0.45, 0.55, 0.55, (180, 390)), (-0.6, 1), (0.65, 1)]],
        "3": [[*_arc(-0.05, -0.5, 0.55, 0.5, (200, 450)), *_arc(-0.05, 0.5, 0.6, 0.5, (270, 520))]],
        "4": [[(0.3, 1), (0.3, -1), (-0.6, 0.4), (0.7, 0.4)]],
        "5": [[(0.5, -1), (-0.4, -1), (-0.45, -0.1), *_arc(-0.05, 0.4, 0.6, 0.6, (240, 510))]],
        "6": six,
        "7": [[(-0.6, -1), (0.6, -1), (-0.15, 1)]],
        "8": [_arc(0, -0.5, 0.45, 0.5, (0, 360)), _arc(0, 0.5, 0.55, 0.5, (0, 360))],
        "9": [[(-x, -y) for x, y in points] for points in six],
    }


def _shapes() -> dict[str, list[Points]]:
    def corners(angles: Iterable[float], radii: Iterable[float]) -> Points:
        return [point for angle, r in zip(angles, radii) for point in _arc(0, 0, r, r, (angle, angle))[:1]]

    heart = [
        (0.0, 0.9),
        *_arc(-0.45, -0.4, 0.45, 0.45, (160, 360)),
        *_arc(0.45, -0.4, 0.45, 0.45, (180, 380)),
        (0.0, 0.9),
    ]
    return {
        "circle": [_arc(0, 0, 0.9, 0.9, (0, 360))],
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


def _is_held_out(figure: int, height: int, tilt: int) -> bool:
    """Return whether a figure of this size and tilt occurs only in held-out images. One in three does."""
    return (figure + height + tilt) % len(HEIGHTS) == 0


def draw(n: int, seed: int, *, held_out: bool) -> Drawings:
    """Draw images, with as many of each figure as of any other.

    Args:
        n: the number of images.
        seed: images drawn with the same seed are the same.
        held_out: draw only the held-out combinations of figure, size and tilt. Otherwise, draw only the others.
    """
    random = np.random.default_rng((seed, held_out))
    figures = random.permutation(np.arange(n) % len(LABELS))
    pairs = [(height, tilt) for height in range(len(HEIGHTS)) for tilt in range(len(TILTS))]
    allowed = [[pair for pair in pairs if _is_held_out(it, *pair) is held_out] for it in range(len(LABELS))]
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


# --- the demo

IMAGES = "images"  # subfolder of the model folder with the drawings
EXPECTED = 0.97  # accuracy on the held-out images, with these settings and this seed
N_TRAINING, N_HELD_OUT = 30_000, 2_000
_SHOWN, _GAP = 12, 2  # images of each figure on a contact sheet, and pixels between two of them

# Every image is drawn with noise, so a small model needs no dropout. In three minutes it learns most at this learning
# rate, which is higher than the default for so many images. At this width bf16 isn't faster than fp32.
SETTINGS: dict[str, Any] = {
    "train.task": "classify",
    "model.d_model": 64,
    "model.n_heads": 4,
    "model.d_ff": 128,
    "model.n_encoder_layers": 3,
    "model.n_decoder_layers": 0,
    "model.patch_size": 4,
    "model.dropout": 0.0,
    "data.split": 0.02,
    "data.batch_tokens": 64 * 49,
    "data.name": "Clearhead's drawings of digits and shapes",
    "data.licence": "MIT, as Clearhead itself",
    "train.label_smoothing": 0.0,
    "train.precision": "fp32",
    "train.steps": 1600,
    "train.lr": 0.01,
    "train.eval_every": 400,
    "train.save_every": 800,
}


def run_see_demo(out: Path) -> None:
    """Draw, train, score and give examples into `out`, replacing an earlier demo.

    The subfolder `images` contains the drawings as arrays, in the format that `clearhead train` reads, and contact
    sheets. Raises TrainingError if the folder contains something else, or the accuracy is below `EXPECTED`.
    """
    folder = DemoFolder(out, IMAGES, SETTINGS)
    training, held_out = draw(N_TRAINING, 0, held_out=False), draw(N_HELD_OUT, 0, held_out=True)
    folder.write(file for name, it in (("train", training), ("held-out", held_out)) for file in _files(name, it))
    say(
        f"{len(training.labels):,} images of {len(LABELS)} digits and shapes to train on and "
        f"{len(held_out.labels):,} held out. Each held-out image has a size and a tilt that this figure never has "
        f"together in training. {out / IMAGES}/train.png shows some.\n"
    )
    folder.train("train.npy", "train.txt")
    app = cast(Classifier, load(out))
    evaluation = app.evaluate([folder.path("held-out.npy"), folder.path("held-out.txt")])
    app.save_evaluation(evaluation)
    _report(evaluation)
    folder.say_done()
    say("Label some images, or look at what the model attends to:\n")
    first, second = (f"{folder.path('held-out.npy')}#{number}" for number in range(2))
    say(f"  {folder.command('classify', first, second)}\n  {folder.command('explain', first)}\n")
    expect("accuracy", evaluation.scores.scores.accuracy.mean, EXPECTED)


def _files(name: str, drawings: Drawings) -> Iterator[tuple[str, bytes]]:
    """Yield an array of images, a text file with a label for each, and a contact sheet with a row for each figure."""
    array = io.BytesIO()
    np.save(array, drawings.images)
    yield f"{name}.npy", array.getvalue()
    yield f"{name}.txt", "".join(f"{label}\n" for label in drawings.labels).encode()
    labels = np.array(drawings.labels)
    rows = [drawings.images[np.flatnonzero(labels == label)[:_SHOWN]] for label in LABELS]
    yield f"{name}.png", contact_sheet([row for row in rows if len(row) == _SHOWN] or [drawings.images[:_SHOWN]])


def _report(evaluation: Evaluation) -> None:
    scores = evaluation.scores.scores
    print(f"\nScores on {len(evaluation.sources):,} images with unseen combinations of figure, size and tilt:")
    print(f"  accuracy {scores.accuracy.mean:.4f}   (expected: at least {EXPECTED})")
    pairs = zip(evaluation.answers, evaluation.references, evaluation.sources)
    wrong = [(right[0], answer, source) for answer, right, source in pairs if answer not in right]
    if wrong:
        print("\nIts most frequent mistakes:")
    for (right, answer), count in Counter((right, answer) for right, answer, _ in wrong).most_common(5):
        first = next(source for *labels, source in wrong if labels == [right, answer])
        print(f"  {count:>3} x {right} labelled as {answer}, such as {first}")


def contact_sheet(rows: Sequence[NDArray[np.uint8]]) -> bytes:
    """Return a PNG file with rows of images of one size: each row is (N, H, W)."""
    edge = ((0, 0), (0, _GAP), (0, _GAP))
    strips = [np.concatenate(list(np.pad(row, edge, constant_values=255)), 1) for row in rows]
    return png(np.concatenate(strips)[:-_GAP, :-_GAP, None])
