"""Run compiled parts uncompiled during inspection, since compiled code doesn't call the hooks inside it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ...model.cache import Cache, LayerCache

WRAPPED = "_orig_mod"  # what `torch.compile(part)` calls the part it wraps


@dataclass(frozen=True)
class Compiled:
    """A part compiled by `part.compile()` or `torch.compile(part)`, with its compiled `call`."""

    name: str
    part: nn.Module
    attribute: str  # the part's attribute that stores the call
    call: Callable[..., Any]


def compiled_parts(model: nn.Module) -> list[Compiled]:
    """Return every compiled part, in the order of the model."""
    return [it for name, part in model.named_modules() if (it := _compiled(name, part)) is not None]


@contextmanager
def uncompiled(model: nn.Module) -> Iterator[list[Compiled]]:
    """Run all parts uncompiled inside the `with` block. Yield the compiled parts, and restore them afterwards."""
    found = compiled_parts(model)
    try:
        for it in found:
            vars(it.part)[it.attribute] = it.part._modules.get(WRAPPED)
        yield found
    finally:
        for it in found:
            vars(it.part)[it.attribute] = it.call


def unwrapped_name(path: str) -> str:
    """Return a part's name without compile wrappers: blocks.0._orig_mod.attention is blocks.0.attention."""
    return ".".join(it for it in path.split(".") if it != WRAPPED)


def _compiled(path: str, part: nn.Module) -> Compiled | None:
    attribute = "forward" if WRAPPED in part._modules else "_compiled_call_impl"
    call = vars(part).get(attribute)
    if call is None or call is part._modules.get(WRAPPED):
        return None
    return Compiled(unwrapped_name(path) or "the model", part, attribute, call)


class CompiledComparison:
    """Remember inputs and outputs of parts that run uncompiled, and compare them with those of the compiled versions.

    Of nested compiled parts, only the outermost is compared. Calls in training mode aren't remembered, since dropout is
    random. Neither are calls with a cache, since a second run would change it.
    """

    def __init__(self, compiled: list[Compiled]) -> None:
        names = [it.name for it in compiled]
        self.outermost = [it for it in compiled if not any(_is_inside(it.name, other) for other in names)]
        self.differences: dict[str, Callable[[], float]] = {}

    def watch(self) -> list[Any]:
        """Register hooks that remember each part's latest call, and return their handles."""
        return [it.part.register_forward_hook(self._remember(it), with_kwargs=True) for it in self.outermost]

    def difference(self) -> float | None:
        """Return the largest difference, or None if no calls were remembered or the compiler fails."""
        try:
            return max((difference() for difference in self.differences.values()), default=None)
        except Exception:  # a compiler may raise anything, which shouldn't stop an inspection
            return None

    def _remember(self, it: Compiled) -> Callable[..., None]:
        def hook(part: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any], output: Any) -> None:
            cached = any(isinstance(given, Cache | LayerCache) for given in (*inputs, *options.values()))
            if part.training or cached or not isinstance(output, Tensor):
                return
            modes = torch.is_inference_mode_enabled(), torch.is_grad_enabled()

            def difference() -> float:
                with torch.inference_mode(modes[0]), torch.set_grad_enabled(modes[1] and not modes[0]):
                    found = it.call(*inputs, **options)
                return float((found.detach() - output.detach()).abs().max()) if output.numel() else 0.0

            self.differences[it.name] = difference

        return hook


def _is_inside(name: str, other: str) -> bool:
    return name != other and (other == "the model" or name.startswith(f"{other}."))
