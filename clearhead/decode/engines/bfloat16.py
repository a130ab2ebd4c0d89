"""The engine `torch` in bfloat16, where matrices are multiplied as in training with `train.precision=bf16`."""

import copy
from typing import TypeVar

import torch
from torch import nn

from ...model.transformer import Decoder, Encoder

PRECISIONS = ("fp32", "bf16")

Model = TypeVar("Model", bound=nn.Module)


def in_precision(model: Model, precision: str) -> Model:
    """Return the model itself in fp32, or a copy in bf16.

    The copy converts the weights of linear layers once, so each step reads half the memory. It shares all other
    weights. Keys and values are cached in bfloat16; norms, softmax and residual connections stay in float32.
    """
    if precision == "fp32":
        return model
    shared = {id(it): it for it in (*model.parameters(), *model.buffers())}
    found = copy.deepcopy(model, shared)
    for layer in [it for it in found.modules() if isinstance(it, nn.Linear)]:
        for name, weight in list(layer.named_parameters(recurse=False)):
            setattr(layer, name, nn.Parameter(weight.detach().bfloat16(), requires_grad=False))
    autocast = torch.autocast(next(model.parameters()).device.type, torch.bfloat16)
    for stack in [it for it in found.modules() if isinstance(it, Encoder | Decoder)]:
        for name in {"forward", "new_cache"} & set(dir(stack)):
            setattr(stack, name, autocast(getattr(stack, name)))
    return found
