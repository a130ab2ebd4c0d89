"""Every attention of a model at its seam, `attend(q, k, v, *, mask, bias) -> output`, whoever wrote it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from ...model.blocks import DecoderBlock
from ..record.parts import named_parts
from ..record.recorder import record
from .check import Bound
from .rounding import DRAWS, bound_of, nudged
from .subject import Case, outputs


@dataclass(frozen=True)
class Seam:
    """An attention by the name of its place, `decoder.0.self`; a `causal` one sees nothing to come."""

    name: str
    attend: nn.Module
    causal: bool
    n_kv_heads: int | None

    @property
    def kind(self) -> str:
        """Whose it is."""
        return type(self.attend).__name__

    @property
    def tells_weights(self) -> bool:
        """Whether it has a method for them."""
        return callable(getattr(type(self.attend), "weights", None))


@dataclass(frozen=True)
class Call:
    """What an attention was given and gave, and how far that is from what its weights make of the values."""

    q: Tensor  # (B, H, T, K)
    k: Tensor  # (B, G, S, K)
    v: Tensor  # (B, G, S, K)
    mask: Tensor | None
    bias: Tensor | None
    output: Tensor  # (B, H, T, K)
    by_weights: float = 0.0

    def run(self, attend: nn.Module) -> Tensor:
        """What an attention makes of it."""
        found: Tensor = attend(self.q, self.k, self.v, mask=self.mask, bias=self.bias)
        return found

    def bound(self, attend: nn.Module) -> Bound:
        """How far rounding may carry an attention here, whatever it is."""
        afters = [[self._nudged(seed).run(attend)] for seed in range(DRAWS)]
        return bound_of([self.run(attend)], afters, "q, k and v")

    def in_order(self, order: Sequence[int]) -> "Call":
        """The same with the keys in another order, and with them their values, mask and bias; or without some."""
        mask, bias = (it if it is None or it.size(-1) == 1 else it[..., order] for it in (self.mask, self.bias))
        return replace(self, k=self.k[:, :, order], v=self.v[:, :, order], mask=mask, bias=bias)

    def _nudged(self, seed: int) -> "Call":
        generator = torch.Generator().manual_seed(seed)
        q, k, v = (nudged(it, generator) for it in (self.q, self.k, self.v))
        return replace(self, q=q, k=k, v=v)


def seams(model: nn.Module) -> list[Seam]:
    """All attentions, in the order of the model."""
    causal = {id(block.attention) for block in model.modules() if isinstance(block, DecoderBlock)}
    return [
        Seam(name, attend, id(part) in causal, getattr(part, "n_kv_heads", None))
        for name, part in named_parts(model)
        if isinstance(attend := getattr(part, "attend", None), nn.Module)
    ]


def heard(case: Case, wanted: Sequence[Seam]) -> list[tuple[Seam, Call]]:
    """What these attentions are given by the texts of the case."""
    with record(case.model, limit=None) as trace:
        outputs(case.model, case.inputs)
    found = []
    for seam in wanted:
        for it in trace.calls.get(seam.name, ()):
            shared = it.q.size(1) // (seam.n_kv_heads or it.q.size(1))  # the record repeats what several heads share
            k, v = it.k[:, ::shared], it.v[:, ::shared]
            found.append((seam, Call(it.q, k, v, it.mask, it.bias, it.output, it.largest_difference)))
    return found
