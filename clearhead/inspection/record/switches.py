"""Switch off parts of a model: heads, attention modules or feed-forward networks.

with without(model, "decoder.1.self.head.3", "encoder.0.feed_forward"):
    model(source, target)

The output of a part that is off is replaced with zeros. For a head, this happens before the heads are joined and
projected. For an attention module or a feed-forward network, it includes biases, so only the residual connection
remains.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from ...errors import ConfigError, suggestion
from ...model.transformer import Decoder
from .parts import stacks, sub_layers
from .uncompiled import uncompiled

KINDS = ("heads", "attentions", "feed-forwards")


@dataclass(frozen=True)
class Switch:
    """A part that can be switched off: decoder.1.self.head.3 is head 3 of layer 1 at the place "decoder.self".

    The place of a feed-forward network is "encoder.feed_forward" or "decoder.feed_forward".
    """

    name: str
    place: str
    layer: int
    head: int | None = None
    module: nn.Module = field(kw_only=True, repr=False, compare=False)  # the sub-layer itself, or the head's sub-layer

    @property
    def kind(self) -> str:
        """One of `KINDS`."""
        if self.head is not None:
            return "heads"
        return "feed-forwards" if self.place.endswith("feed_forward") else "attentions"

    def switch_off(self, row: int | None = None) -> list[RemovableHandle]:
        """Switch the part off until all returned handles are removed, in one row of each batch or in all of them."""
        zeros = _Zeros(self.name, self.head, row)
        if self.head is None:
            return [self.module.register_forward_hook(zeros.replace_output)]
        return [
            self.module.register_forward_pre_hook(zeros.enter),
            self.module.get_submodule("attend").register_forward_hook(zeros.replace_head),
            self.module.register_forward_hook(zeros.leave, always_call=True),
        ]


class _Zeros:
    """Hooks that replace a part's output with zeros. `inside` distinguishes modules that share an `attend`."""

    def __init__(self, name: str, head: int | None, row: int | None) -> None:
        self.name, self.head, self.inside = name, head, False
        self.row = row

    def enter(self, *_: Any) -> None:
        self.inside = True

    def leave(self, *_: Any) -> None:
        self.inside = False

    def replace_output(self, _part: nn.Module, _inputs: Any, output: Tensor) -> Tensor:
        if self.row is None:
            return torch.zeros_like(output)
        changed = output.clone()
        changed[self.row] = 0.0
        return changed

    def replace_head(self, _attend: nn.Module, _inputs: Any, output: Tensor) -> Tensor:  # (B, H, T, K) -> (B, H, T, K)
        if not self.inside:
            return output
        changed = output.clone()
        changed[slice(None) if self.row is None else self.row, ..., self.head, :, :] = 0.0
        return changed


def switches(model: nn.Module) -> dict[str, Switch]:
    """Return all parts that can be switched off, keyed by name, in the order of computation.

    The heads of an attention module without an `attend` submodule can't be switched off.
    """
    found = list[Switch]()
    for name, stack in stacks(model).items():
        for layer, block in enumerate(stack.blocks):
            for kind, part, _, _ in sub_layers(block):
                whole = Switch(f"{name}.{layer}.{kind}", f"{name}.{kind}", layer, module=part)
                has_heads = kind != "feed_forward" and isinstance(getattr(part, "attend", None), nn.Module)
                heads = range(int(getattr(part, "n_heads", 0)) if has_heads else 0)
                found += [whole, *(replace(whole, name=f"{whole.name}.head.{it}", head=it) for it in heads)]
    return {it.name: it for it in found}


@contextmanager
def without(model: nn.Module, *names: str) -> Iterator[None]:
    """Switch the named parts off inside the `with` block.

    If any part is off, compiled parts run uncompiled. Without names, this does nothing.

    Raises:
        ConfigError: the model has no such part.
    """
    known = switches(model)
    for name in names:
        if not isinstance(name, str) or name not in known:
            what, expected = f"{name!r} isn't a part that can be switched off", f"one of {', '.join(_patterns(known))}"
            raise ConfigError(what, expected=expected, fix=suggestion(str(name), known), name="name", value=name)
    if not names:
        yield
        return
    with uncompiled(model), ExitStack() as hooks:  # compiled code would ignore the hooks
        for name in names:
            for handle in known[name].switch_off():
                hooks.enter_context(handle)
        yield


def run_without_each(model: nn.Module, names: Sequence[str], run: Callable[[int], Tensor]) -> Tensor:
    """Run the whole model, and without each of some parts, as rows of one batch. -> (1 + N, ...)

    Rows are equal until their part is reached, so a row joins the batch only there, if the model allows it.

    Args:
        names: the parts, in the order of computation.
        run: runs the model on n copies of an input.
    """
    known, decoder = switches(model), stacks(model).get("decoder")
    grows = isinstance(decoder, Decoder) and decoder.pointer is None
    with uncompiled(model), ExitStack() as hooks:
        for row, name in enumerate(names, 1):
            for handle in known[name].switch_off(row):
                hooks.enter_context(handle)
        for handle in _joining(model, [known[name] for name in names]) if grows else ():
            hooks.enter_context(handle)
        return run(1 if grows else 1 + len(names))


def _joining(model: nn.Module, parts: Sequence[Switch]) -> Iterator[RemovableHandle]:
    """Add rows to the batch before each block: those of its own parts, and those that earlier blocks have added."""
    rows = 1
    for stack, module in stacks(model).items():
        for layer, block in enumerate(module.blocks):
            rows += sum(it.layer == layer and it.place.startswith(f"{stack}.") for it in parts)
            yield block.register_forward_pre_hook(partial(_join, rows))


def _join(rows: int, _block: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    def grown(x: Any) -> Any:
        if isinstance(x, tuple):
            return tuple(map(grown, x))
        return torch.cat((x, x[:1].expand(rows - len(x), *x.shape[1:]))) if isinstance(x, Tensor) else x

    return tuple(map(grown, inputs))


def switched_off(model: nn.Module) -> list[str]:
    """Return the names of the parts that `without` has currently switched off."""
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
