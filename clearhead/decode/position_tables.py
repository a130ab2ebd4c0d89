"""Tables of positions as numpy arrays, for engines and exporters that don't use torch."""

import math

import numpy as np
from numpy.typing import NDArray

from ..config import ModelConfig
from .model_handle import Weights


def position_table(
    config: ModelConfig, weights: Weights, prefix: str, rows: int | None = None
) -> NDArray[np.float32] | None:
    """Return the table that a stack adds to its embeddings (T, D), or None if its position scheme adds none.

    Args:
        weights: its weights; a learned table is one of them.
        prefix: the prefix of the stack's weights, such as "encoder.".
        rows: the number of positions (default: all).
    """
    if config.positions == "learned":
        return np.ascontiguousarray(weights[f"{prefix}positions.table"], np.float32)[:rows]
    if config.positions not in ("sinusoidal", "sinusoidal_halves"):
        return None
    width, positions = config.d_model, np.arange(rows or config.max_len, dtype=np.float64)[:, None]
    angles = positions * np.exp(np.arange(0, width, 2) * (-math.log(10_000.0) / width))
    table = np.empty((len(positions), width), np.float32)
    if config.positions == "sinusoidal_halves":
        half = angles.shape[1]
        table[:, :half], table[:, half:] = np.sin(angles), np.cos(angles)[:, : width - half]
    else:
        table[:, 0::2], table[:, 1::2] = np.sin(angles), np.cos(angles)[:, : width // 2]
    return table


def rotary_frequencies(width: int, base: float, scaling: tuple[float, ...]) -> NDArray[np.float64]:
    """Return the frequencies of rotary positions, in radians per token. -> (K/2,)

    Args:
        width: the width of a head, K.
        base: the base of the wavelengths.
        scaling: how they're stretched; see `read_rotary`.
    """
    frequency = base ** -(np.arange(0, width, 2) / width)
    if len(scaling) < 3:
        return frequency / scaling[0] if scaling else frequency
    factor, low, high = scaling[:3]
    if len(scaling) == 3:
        kept = (np.log(2 * math.pi / frequency) - math.log(high)) / (math.log(low) - math.log(high))
    else:
        kept = (scaling[3] * frequency / (2 * math.pi) - low) / (high - low)
    kept = np.clip(kept, 0, 1)
    return kept * frequency + (1 - kept) * frequency / factor


def relative_table(table: NDArray[np.float32], *, two_sided: bool, farthest: int) -> NDArray[np.float32]:
    """Return the bias of the scores by distance, key minus query, from -n to n. (buckets, H) -> (H, 2n + 1)

    Args:
        table: one bias per bucket and head, (buckets, H).
        two_sided: whether keys after the query have buckets, too, as in an encoder.
        farthest: the distance n, in tokens, from which on the bias stays the same.
    """
    distance = np.arange(-farthest, farthest + 1)
    n, offset = len(table), np.zeros_like(distance)
    if two_sided:
        n //= 2
        offset, distance = (distance > 0) * n, np.abs(distance)
    else:
        distance = np.maximum(-distance, 0)
    exact = n // 2
    growth = np.float32((n - exact) / math.log(farthest / exact))
    ratio = np.maximum(distance, 1).astype(np.float32) / np.float32(exact)
    far = exact + (np.log(ratio.astype(np.float64)).astype(np.float32) * growth).astype(np.int64)
    buckets = offset + np.where(distance < exact, distance, np.minimum(far, n - 1))
    return np.ascontiguousarray(table[buckets].T)


def alibi_slopes(heads: int) -> NDArray[np.float32]:
    """Return ALiBi's slopes for each head: those for the power of two below, then every second one of the power above.

    -> (H,)
    """
    power = 2 ** int(math.log2(heads))
    slopes = [2 ** (-8 * (head + 1) / power) for head in range(power)]
    between = [2 ** (-4 * (head + 1) / power) for head in range(0, 2 * power, 2)]
    return np.array(slopes + between[: heads - power], np.float32)
