"""Change the order of the dimensions that a model's hidden states have. What it computes stays the same."""

import re
from collections.abc import Mapping

import torch
from torch import Tensor

# Weights with an output for each dimension, and those with an input.
_OUTPUTS = re.compile(r"\b(out|outer)\.(weight|bias)$|norm\.(weight|bias)$")
_INPUTS = re.compile(r"\b(embedding|qkv|q|kv|inner|projection)\.weight$")


def sines_first(d_model: int) -> Tensor:
    """Return the order that puts the sines of sinusoidal positions before the cosines. -> (D,)"""
    return torch.cat((torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)))


def reordered_dims(weights: Mapping[str, Tensor], order: Tensor) -> dict[str, Tensor]:
    """Return weights of a model that reads and writes its hidden states in this order.

    Args:
        weights: the weights of an encoder-decoder that reads tokens.
        order: the dimension that comes first, second and so on (D,).
    """
    found: dict[str, Tensor] = {}
    tied: dict[int, Tensor] = {}
    for name, weight in weights.items():
        if weight.data_ptr() not in tied:
            if _OUTPUTS.search(name):
                tied[weight.data_ptr()] = weight[order]
            elif _INPUTS.search(name):
                tied[weight.data_ptr()] = weight[..., order]
            else:
                tied[weight.data_ptr()] = weight
        found[name] = tied[weight.data_ptr()]
    return found
