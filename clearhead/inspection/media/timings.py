"""Times at which the tokens of a transcript were spoken, read from the cross-attention."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_SMOOTHING = np.array([1, 2, 3, 2, 1]) / 9  # over five positions of 40 ms: attention often jumps between two of them


@dataclass(frozen=True)
class TokenTiming:
    """A token, and the stretch of the recording that it attends to, in seconds."""

    token: str
    start: float
    end: float


def centres(weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the position that each token attends to most, in an order that never goes back. (T, S) -> (T,)

    Of all such sequences, the one with the largest sum of weights is returned.
    """
    best = np.empty_like(weights)
    total = np.zeros(weights.shape[1])
    for token, row in enumerate(weights):
        best[token] = total + row
        total = np.maximum.accumulate(best[token])
    found, last = np.empty(len(weights), np.int64), weights.shape[1]
    for token in range(len(weights) - 1, -1, -1):
        found[token] = int(best[token, :last].argmax())
        last = found[token] + 1
    return found


def timings(
    weights: NDArray[np.float64], tokens: Sequence[str], seconds: float, length: float
) -> tuple[TokenTiming, ...]:
    """Return the stretch around each token's centre where its share is at least half of that at the centre.

    The share of a token is its part of all tokens' attention to a position, smoothed over time: some positions, such
    as the end of a recording, get attention from every token. Between the centres of two neighbours, each stretch ends
    halfway at the latest.

    Args:
        weights: cross-attention, averaged over heads, (T, S). T may include the end token.
        tokens: the tokens without the end token.
        seconds: the time from one position to the next.
        length: the length of the recording in seconds.
    """
    shares = _smoothed(weights / weights.sum(0).clip(1e-12))
    peaks, found = centres(shares), []
    for number, token in enumerate(tokens):
        peak, row = int(peaks[number]), shares[number]
        low = 0 if not number else (int(peaks[number - 1]) + peak + 1) // 2
        high = len(row) - 1 if number + 1 == len(peaks) else (peak + int(peaks[number + 1]) + 1) // 2 - 1
        start = end = peak
        while start > low and row[start - 1] >= row[peak] / 2:
            start -= 1
        while end < high and row[end + 1] >= row[peak] / 2:
            end += 1
        edges = (max(0.0, (start - 0.5) * seconds), min(length, (end + 0.5) * seconds))
        found.append(TokenTiming(token, round(edges[0], 3), round(edges[1], 3)))
    return tuple(found)


def _smoothed(values: NDArray[np.float64]) -> NDArray[np.float64]:
    margin = len(_SMOOTHING) // 2
    return np.stack([np.convolve(np.pad(row, margin), _SMOOTHING, "valid") for row in values])
