"""Parts that were compiled, run as they are written while somebody looks: what is compiled calls no hooks inside."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ...model.cache import Cache, LayerCache

WRAPPED = "_orig_mod"  # what `torch.compile(part)` calls the part that it wraps


@dataclass(frozen=True)
class Compiled:
    """A part that was compiled, by `part.compile()` or as `torch.compile(part)`, and the `call` that was made of it."""

    name: str
    part: nn.Module
    attribute: str  # of the part, where the call stands
    call: Callable[..., Any]


def compiled_parts(model: nn.Module) -> list[Compiled]:
    """All of them, in the order of the model."""
    return [it for name, part in model.named_modules() if (it := _compiled(name, part)) is not None]


@contextmanager
def as_written(model: nn.Module) -> Iterator[list[Compiled]]:
    """Inside the `with` block all parts run as they are written; afterwards those that were compiled are so again."""
    found = compiled_parts(model)
    try:
        for it in found:
            vars(it.part)[it.attribute] = it.part._modules.get(WRAPPED)
        yield found
    finally:
        for it in found:
            vars(it.part)[it.attribute] = it.call


def without_wrapping(path: str) -> str:
    """The path of a part as if nothing was wrapped: blocks.0._orig_mod.attention is blocks.0.attention."""
    return ".".join(it for it in path.split(".") if it != WRAPPED)


def _compiled(path: str, part: nn.Module) -> Compiled | None:
    attribute = "forward" if WRAPPED in part._modules else "_compiled_call_impl"
    call = vars(part).get(attribute)
    if call is None or call is part._modules.get(WRAPPED):
        return None
    return Compiled(without_wrapping(path) or "the model", part, attribute, call)


class Twins:
    """What compiled parts were given while they ran as they are written, and gave: so that both can be compared.

    Of parts inside of each other the outermost. Nothing is kept of a part in training, which draws its dropout anew,
    nor of a call with a cache, which would be filled twice.
    """

    def __init__(self, compiled: list[Compiled]) -> None:
        names = [it.name for it in compiled]
        self.outermost = [it for it in compiled if not any(_is_inside(it.name, other) for other in names)]
        self.again: dict[str, Callable[[], float]] = {}

    def watch(self) -> list[Any]:
        """The handles of the hooks that keep the latest call of each."""
        return [it.part.register_forward_hook(self._keep(it), with_kwargs=True) for it in self.outermost]

    def difference(self) -> float | None:
        """The largest between what the parts gave and what the compiled ones give; None where nothing was kept, or
        where the compiler cannot do it."""
        try:
            return max((again() for again in self.again.values()), default=None)
        except Exception:  # of a compiler anything may come, and those who look have not asked for it
            return None

    def _keep(self, it: Compiled) -> Callable[..., None]:
        def hook(part: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any], output: Any) -> None:
            cached = any(isinstance(given, Cache | LayerCache) for given in (*inputs, *options.values()))
            if part.training or cached or not isinstance(output, Tensor):
                return
            modes = torch.is_inference_mode_enabled(), torch.is_grad_enabled()

            def again() -> float:
                with torch.inference_mode(modes[0]), torch.set_grad_enabled(modes[1] and not modes[0]):
                    found = it.call(*inputs, **options)
                return float((found.detach() - output.detach()).abs().max()) if output.numel() else 0.0

            self.again[it.name] = again

        return hook


def _is_inside(name: str, other: str) -> bool:
    return name != other and (other == "the model" or name.startswith(f"{other}."))
