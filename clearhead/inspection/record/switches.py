"""Parts of a model switched off: a head, an attention, a feed-forward, while all others stay as they are.

with without(model, "decoder.1.self.head.3", "encoder.0.feed_forward"):
    model(source, target)

A part that is off gives zeros. Those of a head stand among its sisters' outputs, before they are joined and projected;
those of an attention or a feed-forward stand for all of its output, biases included, so that what the residual
connection carries is all that comes out of there.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from ...errors import ConfigError, did_you_mean
from ..record.as_written import as_written
from ..record.parts import stacks

KINDS = ("heads", "attentions", "feed-forwards")
_ATTENTIONS = {"self": "attention", "cross": "cross_attention"}  # by their names in a block


@dataclass(frozen=True)
class Switch:
    """A part that can be switched off: decoder.1.self.head.3 is head 3 of layer 1 at the place "decoder.self".

    The place of a feed-forward is "encoder.feed_forward", or that of the decoder.
    """

    name: str
    place: str
    layer: int
    head: int | None = None
    module: nn.Module = field(kw_only=True, repr=False, compare=False)  # the sub-layer that it is, or is a head of

    @property
    def kind(self) -> str:
        """One of `KINDS`."""
        if self.head is not None:
            return "heads"
        return "feed-forwards" if self.place.endswith("feed_forward") else "attentions"

    def off(self) -> list[RemovableHandle]:
        """Switch it off, until all handles are removed."""
        zeros = _Zeros(self.name, self.head)
        if self.head is None:
            return [self.module.register_forward_hook(zeros.of_all)]
        return [
            self.module.register_forward_pre_hook(zeros.enter),
            self.module.get_submodule("attend").register_forward_hook(zeros.of_head),
            self.module.register_forward_hook(zeros.leave, always_call=True),
        ]


class _Zeros:
    """Zeros for a part. Of a head those of one attention: what attends in it may be the same object as in others."""

    def __init__(self, name: str, head: int | None) -> None:
        self.name, self.head, self.inside = name, head, False

    def enter(self, *_: Any) -> None:
        self.inside = True

    def leave(self, *_: Any) -> None:
        self.inside = False

    def of_all(self, _part: nn.Module, _inputs: Any, output: Tensor) -> Tensor:
        return torch.zeros_like(output)

    def of_head(self, _attend: nn.Module, _inputs: Any, output: Tensor) -> Tensor:  # (B, H, T, K) -> (B, H, T, K)
        if not self.inside:
            return output
        left = output.clone()
        left[:, self.head] = 0.0
        return left


def switches(model: nn.Module) -> dict[str, Switch]:
    """All parts of a model that can be switched off, by name, in the order in which they are passed.

    Heads are those of whatever stands for `Attend` in an attention; one that has no such part has none.
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
    """The attention as a whole, and its heads."""
    yield Switch(name, place, layer, module=attention)
    if isinstance(getattr(attention, "attend", None), nn.Module):
        for head in range(int(getattr(attention, "n_heads", 0))):
            yield Switch(f"{name}.head.{head}", place, layer, head, module=attention)


@contextmanager
def without(model: nn.Module, *names: str) -> Iterator[None]:
    """The model without these parts inside the `with` block, whatever it is used for there; afterwards as it was.

    Without a name nothing is changed; with one, compiled parts run as they are written. A name that is none is a
    ConfigError, which says what there is.
    """
    known = switches(model)
    for name in names:
        if not isinstance(name, str) or name not in known:
            raise ConfigError(
                f"{name!r} is no part that can be switched off{did_you_mean(str(name), known)}\n"
                f"  there are {', '.join(_patterns(known))}"
            )
    if not names:
        yield
        return
    handles = list[RemovableHandle]()
    with as_written(model):  # where a part is off nothing compiled would know of it
        try:
            for name in names:
                handles += known[name].off()
            yield
        finally:
            for handle in handles:
                handle.remove()


def switched_off(model: nn.Module) -> list[str]:
    """The parts that are off, because this is called inside the `with` block of a `without`."""
    hooks = (hook for module in model.modules() for hook in module._forward_hooks.values())
    owners = (getattr(hook, "__self__", None) for hook in hooks)
    return list(dict.fromkeys(it.name for it in owners if isinstance(it, _Zeros)))


def _patterns(known: dict[str, Switch]) -> list[str]:
    """What the names are: encoder.{0-5}.self.head.{0-7}, and so on."""
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
