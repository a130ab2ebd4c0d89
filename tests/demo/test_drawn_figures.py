"""The drawings of `clearhead demo see`: lines against their formula, seeds, and held-out combinations."""

import math

import numpy as np
import pytest

from clearhead.demo.see_demo import HEIGHTS, LABELS, SIZE, TILTS, _is_held_out, contact_sheet, coverage, draw, strokes
from clearhead.inspection.page.page_data import png


def _distance(x: float, y: float, line: list[list[float]]) -> float:
    """The distance to a segment, by trying 10,001 points on it."""
    (x0, y0), (x1, y1) = line
    return min(math.hypot(x - x0 - t * (x1 - x0), y - y0 - t * (y1 - y0)) for t in np.linspace(0, 1, 10_001))


def test_a_pixel_is_covered_by_its_distance_to_the_nearest_line() -> None:
    lines = [[[3.0, 4.0], [20.0, 9.5]], [[10.0, 25.0], [10.0, 25.0]]]  # the second is a point
    found = coverage(np.array([lines], np.float32), np.array([2.0], np.float32))
    assert found.shape == (1, SIZE, SIZE)
    for row, column in ((4, 3), (5, 3), (7, 11), (9, 21), (9, 20), (25, 10), (26, 10), (26, 11), (0, 27)):
        nearest = min(_distance(column, row, line) for line in lines)
        assert found[0, row, column] == pytest.approx(min(1, max(0, 1.5 - nearest)), abs=1e-4)


def test_an_upright_line_of_one_pixel_covers_as_much_as_it_is_long() -> None:
    found = coverage(np.array([[[[10.25, -9.0], [10.25, 40.0]]]], np.float32), np.ones(1, np.float32))
    assert found[0].sum(1).tolist() == pytest.approx([1.0] * SIZE, abs=1e-5)  # the ramp shares it between two pixels
    assert found[0, 5, 10] == pytest.approx(0.75) and found[0, 5, 11] == pytest.approx(0.25)


def test_held_out_images_have_combinations_that_training_never_has_and_training_has_the_rest() -> None:
    seen: list[set[tuple[str, int, int]]] = []
    for held_out in (False, True):
        drawings = draw(3_000, 0, held_out=held_out)
        seen.append(set(zip(drawings.labels, drawings.heights.tolist(), drawings.tilts.tolist())))
    training, held = seen
    assert not training & held
    assert len(training | held) == len(LABELS) * len(HEIGHTS) * len(TILTS) and len(held) * 3 == len(training | held)
    for label in LABELS:  # each size and each tilt alone is known
        assert {height for it, height, _ in training if it == label} == {0, 1, 2}
        assert {tilt for it, _, tilt in training if it == label} == {0, 1, 2}
    assert all(_is_held_out(LABELS.index(label), height, tilt) for label, height, tilt in held)


def test_figures_have_the_size_and_the_tilt_of_their_ranges() -> None:
    """A bare line shows both: its reach is the height, and its angle the tilt."""
    from clearhead.demo.see_demo import _placed

    line = np.array([[[0, -1], [0, 1]]], np.float32)
    height, tilt = np.array([6.0, 10.0]), np.array([0.0, 30.0])
    placed, _ = _placed(line, height, tilt, np.random.default_rng(0))
    along = placed[:, 0, 1] - placed[:, 0, 0]
    assert np.hypot(*along.T) == pytest.approx(2 * height)
    assert np.degrees(np.arctan2(-along[:, 0], along[:, 1])) == pytest.approx(tilt, abs=1e-3)
    assert (placed >= 0).all() and (placed <= SIZE - 1).all()


def test_a_seed_gives_the_same_images_and_another_gives_others() -> None:
    first, again, other = draw(64, 1, held_out=False), draw(64, 1, held_out=False), draw(64, 2, held_out=False)
    assert first.labels == again.labels and (first.images == again.images).all()
    assert (first.images != other.images).any()
    assert first.images.dtype == np.uint8 and first.images.shape == (64, SIZE, SIZE)
    assert sorted(first.labels) == sorted(LABELS * 4)  # as many of each figure as of any other


def test_every_figure_fits_its_box_and_differs_from_the_others() -> None:
    drawn = {}
    for label, segments in strokes().items():
        assert np.abs(segments).max() <= 1.11 and segments.shape[1:] == (2, 2)
        drawn[label] = coverage(segments[None] * 10 + 13.5, np.ones(1, np.float32))[0]
    for label, one in drawn.items():
        for other, two in drawn.items():
            assert label == other or np.abs(one - two).sum() > 20


def test_a_contact_sheet_is_an_image_with_a_gap_between_images() -> None:
    image = pytest.importorskip("PIL.Image")
    import io

    rows = [np.full((3, 4, 5), 7, np.uint8), np.full((3, 4, 5), 9, np.uint8)]
    sheet = np.asarray(image.open(io.BytesIO(contact_sheet(rows))))
    assert sheet.shape == (2 * 4 + 2, 3 * 5 + 4)
    assert (sheet[:4, :5] == 7).all() and (sheet[4:6] == 255).all() and (sheet[6:, 14:] == 9).all()
    noise = np.random.default_rng(0).integers(0, 256, (3, 8), np.uint8)
    assert (np.asarray(image.open(io.BytesIO(png(noise[..., None])))) == noise).all()
