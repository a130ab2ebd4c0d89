"""Attention rollout: attention to the input, followed through all layers (Abnar & Zuidema 2020, "Quantifying Attention
Flow in Transformers")."""

import torch
from torch import Tensor

from ..record.trace import Trace


def rollout(trace: Trace, row: int = 0) -> Tensor:
    """Return how much of each input position reaches each position of the encoder's output, (S, S).

    A layer passes on half of its input through the residual connection, and half through attention, averaged over
    heads: A = (mean of W + I) / 2. The rollout is the product A_L ... A_2 A_1. Its rows sum to 1.

    Raises:
        ModelError: a custom attention module doesn't report its weights.
    """
    layers = {
        int(name.split(".")[1]): calls[-1]
        for name, calls in trace.calls.items()
        if name.startswith("encoder.") and name.endswith(".self")
    }
    found: Tensor | None = None
    for number in sorted(layers):
        weights = layers[number].weights.values[row].double().mean(0)
        mixed = (weights + torch.eye(len(weights), dtype=weights.dtype, device=weights.device)) / 2
        found = mixed if found is None else mixed @ found
    assert found is not None
    return found
