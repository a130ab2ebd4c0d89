"""Switch off parts of a model (heads, attentions, feed-forward networks) while all others keep working.

with without(model, "decoder.1.self.head.3", "encoder.0.feed_forward"):
    model(source, target)

A part that is off returns zeros. A head's output is zeroed before heads are joined and projected. An attention or
feed-forward network's whole output is zeroed, biases included, so only the residual connection remains.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from ...errors import ConfigError, suggestion
from .parts import stacks
from .uncompiled import uncompiled

KINDS = ("heads", "attentions", "feed-forwards")
_ATTENTIONS = {"self": "attention", "cross": "cross_attention"}  # attributes of a block


@dataclass(frozen=True)
class Switch:
    """A part that can be switched off: decoder.1.self.head.3 is head 3 of layer 1 at the place "decoder.self".

    The place of a feed-forward network is "encoder.feed_forward" or "decoder.feed_forward".
    """

    name: str
    place: str
    layer: int
    head: int | None = None
    module: nn.Module = field(kw_only=True, repr=False, compare=False)  # the sub-layer, or the one that has this head

    @property
    def kind(self) -> str:
        """One of `KINDS`."""
        if self.head is not None:
            return "heads"
        return "feed-forwards" if self.place.endswith("feed_forward") else "attentions"

    def switch_off(self) -> list[RemovableHandle]:
        """Switch the part off until all returned handles are removed."""
        zeros = _Zeros(self.name, self.head)
        if self.head is None:
            return [self.module.register_forward_hook(zeros.replace_output)]
        return [
            self.module.register_forward_pre_hook(zeros.enter),
            self.module.get_submodule("attend").register_forward_hook(zeros.replace_head),
            self.module.register_forward_hook(zeros.leave, always_call=True),
        ]


class _Zeros:
    """Hooks that put zeros in place of a part. `inside` distinguishes attentions that share an `attend`."""

    def __init__(self, name: str, head: int | None) -> None:
        self.name, self.head, self.inside = name, head, False

    def enter(self, *_: Any) -> None:
        self.inside = True

    def leave(self, *_: Any) -> None:
        self.inside = False

    def replace_output(self, _part: nn.Module, _inputs: Any, output: Tensor) -> Tensor:
        return torch.zeros_like(output)

    def replace_head(self, _attend: nn.Module, _inputs: Any, output: Tensor) -> Tensor:  # (B, H, T, K) -> (B, H, T, K)
        if not self.inside:
            return output
        changed = output.clone()
        changed[:, self.head] = 0.0
        return changed


def switches(model: nn.Module) -> dict[str, Switch]:
    """Return all parts that can be switched off, by name, in the order of the computation.

    An attention without an `attend` part has no heads to switch off.
    """
    found = list[Switch]()
    for name, stack in stacks(model).items():
        for layer, block in enumerate(stack.blocks):
            for kind, attribute in _ATTENTIONS.items():
                if isinstance(attention := getattr(block, attribute, None), nn.Module):
                    found += _of_attention(f"{name}.{layer}.{kind}", f"{name}.{kind}", layer, attention)
            module, place = block.get_submodule("feed_forward"), f"{name}.feed_forward"
            found.append(Switch(f"{name}.{layer}.feed_forward", place, layer, module=module))
    return {it.name: it for it in found}


def _of_attention(name: str, place: str, layer: int, attention: nn.Module) -> Iterator[Switch]:
    """Yield the attention as a whole, then its heads."""
    yield Switch(name, place, layer, module=attention)
    if isinstance(getattr(attention, "attend", None), nn.Module):
        for head in range(int(getattr(attention, "n_heads", 0))):
            yield Switch(f"{name}.head.{head}", place, layer, head, module=attention)


@contextmanager
def without(model: nn.Module, *names: str) -> Iterator[None]:
    """Switch these parts off inside the `with` block.

    If any part is off, compiled parts run uncompiled. Without names, nothing changes.

    Raises:
        ConfigError: the model has no such part.
    """
    known = switches(model)
    for name in names:
        if not isinstance(name, str) or name not in known:
            raise ConfigError(
                f"{name!r} isn't a part that can be switched off",
                expected=f"one of {', '.join(_patterns(known))}",
                fix=suggestion(str(name), known),
                name="name",
                value=name,
            )
    if not names:
        yield
        return
    handles = list[RemovableHandle]()
    with uncompiled(model):  # compiled code would ignore the hooks
        try:
            for name in names:
                handles += known[name].switch_off()
            yield
        finally:
            for handle in handles:
                handle.remove()


def switched_off(model: nn.Module) -> list[str]:
    """Return the parts that `without` has switched off right now."""
    hooks = (hook for module in model.modules() for hook in module._forward_hooks.values())
    owners = (getattr(hook, "__self__", None) for hook in hooks)
    return list(dict.fromkeys(it.name for it in owners if isinstance(it, _Zeros)))


def _patterns(known: dict[str, Switch]) -> list[str]:
    """Return all names as patterns, such as encoder.{0-5}.self.head.{0-7}."""
    layers, heads = dict[str, int](), dict[str, int]()
    for it in known.values():
        layers[it.place] = it.layer
        heads[it.place] = max(heads.get(it.place, -1), -1 if it.head is None else it.head)
    found = list[str]()
    for place, last in layers.items():
        stack, kind = place.split(".")
        found.append(f"{stack}.{_range(last)}.{kind}")
        found += [f"{found[-1]}.head.{_range(heads[place])}"] if heads[place] >= 0 else []
    return found


def _range(last: int) -> str:
    return f"{{0-{last}}}" if last else "0"
