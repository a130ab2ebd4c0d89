"""Compile the blocks of a model with torch.compile."""

import os
import shutil
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import ConfigError
from .activations import blocks_of


def check_compiler(device: str) -> None:
    """Raise ConfigError unless torch.compile has what it needs for a device: a C++ compiler, or Triton on a GPU."""
    if device.startswith("cuda"):
        needed, found = "Triton, which comes with PyTorch for GPUs", find_spec("triton") is not None
    else:
        names = (os.environ.get("CXX", ""), "c++", "g++", "clang++", "cl")
        needed, found = "a C++ compiler", any(it and shutil.which(it) for it in names)
    if not found:
        raise ConfigError(
            f"train.compile needs {needed}, and this machine has none",
            fix="install it, such as the package g++, or leave out train.compile",
            name="train.compile",
            value=True,
        )


def compile_blocks(model: nn.Module) -> None:
    """Compile the blocks for training. Their first step, and some later ones with other shapes, wait for that."""
    for block in blocks_of(model):
        block.__class__ = _compiled(type(block))  # type: ignore[arg-type] # mypy takes a type for its instances


@cache
def _compiled(kind: type[nn.Module]) -> type[nn.Module]:
    """Return a subclass of a block that is compiled, except without gradients, where caches have many shapes."""
    compiled = torch.compile(kind.forward, dynamic=True)

    def forward(self: nn.Module, *inputs: Any, **named: Any) -> Tensor:
        run = compiled if self.training and torch.is_grad_enabled() else kind.forward
        found: Tensor = run(self, *inputs, **named)
        return found

    return type(kind.__name__, (kind,), {"forward": forward})
