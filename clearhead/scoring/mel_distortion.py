"""Distance between two spoken texts: the difference of their spectrograms, aligned by dynamic time warping."""

import math

import numpy as np
from numpy.typing import NDArray

Patches = NDArray[np.float32]
_DECIBELS = 10 / math.log(10)  # in a unit of the natural logarithm of power


def mel_distortion(one: Patches, other: Patches) -> float:
    """Return the distance between two log-mel spectrograms in dB, as patches (P, ...) and (Q, ...).

    A path of pairs of patches leads from the first pair to the last, without a step back on either side. The result is
    the mean distance over the path with the smallest sum. The distance of a pair is the root mean square difference of
    all its frames and bands. Both have at least one patch.
    """
    flat, against = (it.reshape(len(it), -1).astype(np.float64) for it in (one, other))
    squares = np.square(flat).mean(1)[:, None] + np.square(against).mean(1) - 2 * flat @ against.T / flat.shape[1]
    costs = np.sqrt(squares.clip(min=0)).tolist()
    before = [(math.inf, 0)] * (len(against) + 1)  # the smallest sum up to a pair, and the pairs on the path
    before[0] = (0.0, 0)
    for row in costs:
        current = [(math.inf, 0)]
        for place, cost in enumerate(row):
            total, length = min(before[place], before[place + 1], current[place])
            current.append((total + cost, length + 1))
        before = current
    total, length = before[-1]
    return _DECIBELS * total / length
