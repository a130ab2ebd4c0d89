"""The blocks of a model in training: compile them, count the activations that they keep, and store fewer of them.

Activations are the tensors that a forward pass keeps for the backward pass.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..errors import ConfigError
from ..model.blocks import DecoderBlock, EncoderBlock

Forward: TypeAlias = Callable[..., Any]


def blocks_of(model: nn.Module) -> Iterator[nn.Module]:
    """Yield the blocks of a model's stacks."""
    return (it for it in model.modules() if isinstance(it, EncoderBlock | DecoderBlock))


def change_training(model: nn.Module, change: Callable[[Forward], Forward]) -> None:
    """Replace the `forward` of all blocks in training with the function that `change` returns for it.

    Copies of the model do the same. Without gradients, blocks run as before.
    """
    for block in blocks_of(model):
        block.__class__ = _changed(type(block), change)  # type: ignore[arg-type] # mypy takes a type for its instances


@cache
def _changed(kind: type[nn.Module], change: Callable[[Forward], Forward]) -> type[nn.Module]:
    """Return a subclass of a block."""
    changed = change(kind.forward)

    def forward(self: nn.Module, *inputs: Any, **named: Any) -> Tensor:
        run = changed if self.training and torch.is_grad_enabled() else kind.forward
        return run(self, *inputs, **named)

    return type(kind.__name__, (kind,), {"forward": forward})


def checkpoint_activations(model: nn.Module) -> None:
    """Let each block store only its input, and compute the rest again in the backward pass (Chen et al. 2016).

    Dropout draws the same masks again, so losses and gradients keep their bits.
    """
    change_training(model, _checkpointed)


def _checkpointed(forward: Forward) -> Forward:
    def run(block: nn.Module, *inputs: Any, **named: Any) -> Any:
        return checkpoint(partial(forward, block), *inputs, use_reentrant=False, **named)

    return run


@dataclass(frozen=True)
class Activations:
    """Sizes of activations in bytes.

    Attributes:
        total: all that a forward pass keeps.
        checkpointed: the same with activation checkpointing. One block at a time has its own.
        largest: the largest tensor. Its gradient exists too, and a copy.
    """

    total: int
    checkpointed: int
    largest: int

    @classmethod
    def count(cls, model: nn.Module, loss: Callable[[], Tensor]) -> "Activations":
        """Count what computing a loss keeps. The model can't be checkpointed yet."""
        known = {it.untyped_storage().data_ptr() for it in (*model.parameters(), *model.buffers())}
        kept: list[dict[int, int]] = [{}]  # bytes by address: outside of blocks, then in each block
        inputs, place = 0, 0

        def enter(_block: nn.Module, arguments: tuple[Tensor, ...]) -> None:
            nonlocal inputs, place
            inputs, place = inputs + arguments[0].nbytes, len(kept)
            kept.append({})

        def leave(*_: Any) -> None:
            nonlocal place
            place = 0

        def note(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in known:
                known.add(storage.data_ptr())
                kept[place][storage.data_ptr()] = storage.nbytes()
            return tensor

        with ExitStack() as watched, torch.autograd.graph.saved_tensors_hooks(note, lambda it: it):
            for block in blocks_of(model):
                watched.callback(block.register_forward_pre_hook(enter).remove)
                watched.callback(block.register_forward_hook(leave).remove)
            total = loss()
        del total  # everything was alive until here, so that no two tensors had the same address
        outside, *each = (sum(it.values()) for it in kept)
        largest = max((size for it in kept for size in it.values()), default=0)
        return cls(outside + sum(each), outside + inputs + max(each, default=0), largest)


def check_compiler(device: str) -> None:
    """Raise ConfigError unless torch.compile has what it needs for a device: a C++ compiler, or Triton on a GPU."""
    if device.startswith("cuda"):
        needed, found = "Triton, which comes with PyTorch for GPUs", find_spec("triton") is not None
    else:
        names = (os.environ.get("CXX", ""), "c++", "g++", "clang++", "cl")
        needed, found = "a C++ compiler", any(it and shutil.which(it) for it in names)
    if not found:
        what = f"train.compile needs {needed}, and this machine has none"
        fix = "install it, such as the package g++, or leave out train.compile"
        raise ConfigError(what, fix=fix, name="train.compile", value=True)


def compile_blocks(model: nn.Module) -> None:
    """Compile the blocks for training. Compilation happens in the first step, and in later ones with new shapes.

    Without gradients, they aren't compiled, since caches have many shapes.
    """
    change_training(model, partial(torch.compile, dynamic=True))
