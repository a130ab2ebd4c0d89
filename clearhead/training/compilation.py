"""Compile the blocks of a model with torch.compile."""

import os
import shutil
from importlib.util import find_spec

import torch
from torch import nn

from ..errors import ConfigError
from .activations import Forward, change_training


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
    """Compile the blocks for training. Their first step, and some later ones with other shapes, wait for that.

    Without gradients, they aren't compiled, since caches have many shapes.
    """
    change_training(model, _compiled)


def _compiled(forward: Forward) -> Forward:
    return torch.compile(forward, dynamic=True)
