"""Every attention of a model at its seam, `attend(q, k, v, *, mask, bias) -> output`, whoever wrote it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from ...model.blocks import DecoderBlock
from ..parts import named_parts


@dataclass(frozen=True)
class Call:
    """What an attention was given, and what it gave."""

    q: Tensor  # (B, H, T, K)
    k: Tensor  # (B, G, S, K)
    v: Tensor  # (B, G, S, K)
    mask: Tensor | None
    bias: Tensor | None
    output: Tensor  # (B, H, T, K)


@dataclass
class Seam:
    """An attention by the name of its place, `decoder.0.self`, and its calls; a `causal` one sees nothing to come."""

    name: str
    attend: nn.Module
    causal: bool
    calls: list[Call] = field(default_factory=list)

    @property
    def titled(self) -> str:
        """The place, and who is there."""
        return f"{self.name} ({type(self.attend).__name__})"


def seams(model: nn.Module) -> list[Seam]:
    """All attentions, in the order of the model."""
    causal = {id(block.attention) for block in model.modules() if isinstance(block, DecoderBlock)}
    return [
        Seam(name, attend, id(part) in causal)
        for name, part in named_parts(model)
        if isinstance(attend := getattr(part, "attend", None), nn.Module)
    ]


@contextmanager
def listening(model: nn.Module) -> Iterator[list[Seam]]:
    """All attentions, whose calls inside the `with` block are kept."""
    found = seams(model)
    handles = [it.attend.register_forward_hook(_keep(it), with_kwargs=True) for it in found]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


def _keep(seam: Seam) -> Any:
    def hook(_: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any], output: Tensor) -> None:
        given = dict(zip(("q", "k", "v"), inputs)) | options
        q, k, v = (given[name].detach() for name in ("q", "k", "v"))
        mask, bias = given.get("mask"), given.get("bias")
        seam.calls.append(Call(q, k, v, mask, None if bias is None else bias.detach(), output.detach()))

    return hook
