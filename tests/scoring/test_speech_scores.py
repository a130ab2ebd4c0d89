import math
from collections.abc import Iterator

import numpy as np
import pytest

from clearhead.scoring.speech_scores import mel_distortion


def patches(*values: float) -> np.ndarray:
    return np.array(values, np.float32)[:, None, None] * np.ones((1, 2, 3), np.float32)


def paths(i: int, j: int) -> Iterator[list[tuple[int, int]]]:
    """All paths from (0, 0) to (i, j)."""
    if (i, j) == (0, 0):
        yield [(0, 0)]
    for before in ((i - 1, j), (i, j - 1), (i - 1, j - 1)):
        if min(before) >= 0:
            for path in paths(*before):
                yield [*path, (i, j)]


def test_ten_decibels_are_a_factor_of_ten_in_power() -> None:
    assert mel_distortion(patches(0.0), patches(math.log(10))) == pytest.approx(10)


def test_a_slower_copy_has_no_distortion() -> None:
    assert mel_distortion(patches(1, 2, 3), patches(1, 1, 2, 2, 2, 3)) == pytest.approx(0, abs=1e-3)


def test_the_path_is_the_best_of_all() -> None:
    dice = np.random.default_rng(0)
    one, other = (dice.normal(size=(n, 2, 3)).astype(np.float32) for n in (4, 5))
    costs = np.sqrt(np.square(one[:, None] - other[None]).mean((2, 3)))
    total, length = min((sum(costs[it] for it in path), len(path)) for path in paths(3, 4))
    assert mel_distortion(one, other) == pytest.approx(10 / math.log(10) * total / length, rel=1e-4)
