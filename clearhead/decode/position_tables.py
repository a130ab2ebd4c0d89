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
        config: the model's configuration.
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
