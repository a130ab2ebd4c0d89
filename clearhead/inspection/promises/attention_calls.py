"""Attention modules of a model, built-in or custom, and their calls `attend(q, k, v, *, mask, bias) -> output`."""

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
class AttentionPart:
    """An attention module and its name, such as decoder.0.self. If it's causal, it must not see later tokens."""

    name: str
    attend: nn.Module
    causal: bool
    n_kv_heads: int | None

    @property
    def kind(self) -> str:
        """The name of its class."""
        return type(self.attend).__name__

    @property
    def reports_weights(self) -> bool:
        """True if the module has a `weights` method."""
        return callable(getattr(type(self.attend), "weights", None))


@dataclass(frozen=True)
class Call:
    """Inputs and output of attention. `by_weights` is the distance between the output and weights times values."""

    q: Tensor  # (B, H, T, K)
    k: Tensor  # (B, G, S, K)
    v: Tensor  # (B, G, S, K)
    mask: Tensor | None
    bias: Tensor | None
    output: Tensor  # (B, H, T, K)
    by_weights: float = 0.0

    def run(self, attend: nn.Module) -> Tensor:
        """Return the output of an attention module for these inputs."""
        found: Tensor = attend(self.q, self.k, self.v, mask=self.mask, bias=self.bias)
        return found

    def bound(self, attend: nn.Module) -> Bound:
        """Return a bound on the effect of rounding on a module's output, whatever its equation."""
        afters = [[self._nudged(seed).run(attend)] for seed in range(DRAWS)]
        return bound_of([self.run(attend)], afters, "q, k and v")

    def in_order(self, order: Sequence[int]) -> "Call":
        """Return the call with the keys in `order`, which may be a subset. Values, mask and bias are reordered too."""
        mask, bias = (it if it is None or it.size(-1) == 1 else it[..., order] for it in (self.mask, self.bias))
        return replace(self, k=self.k[:, :, order], v=self.v[:, :, order], mask=mask, bias=bias)

    def _nudged(self, seed: int) -> "Call":
        generator = torch.Generator().manual_seed(seed)
        q, k, v = (nudged(it, generator) for it in (self.q, self.k, self.v))
        return replace(self, q=q, k=k, v=v)


def attention_parts(model: nn.Module) -> list[AttentionPart]:
    """Return all attention modules, in the order of the model."""
    causal = {id(block.attention) for block in model.modules() if isinstance(block, DecoderBlock)}
    return [
        AttentionPart(name, attend, id(part) in causal, getattr(part, "n_kv_heads", None))
        for name, part in named_parts(model)
        if isinstance(attend := getattr(part, "attend", None), nn.Module)
    ]


def recorded_calls(case: Case, parts: Sequence[AttentionPart]) -> list[tuple[AttentionPart, Call]]:
    """Run the model on the texts, and return the calls of these attention modules."""
    with record(case.model, limit=None) as trace:
        outputs(case.model, case.inputs)
    found = []
    for part in parts:
        for it in trace.calls.get(part.name, ()):
            shared = it.q.size(1) // (part.n_kv_heads or it.q.size(1))  # the record repeats shared keys and values
            k, v = it.k[:, ::shared], it.v[:, ::shared]
            found.append((part, Call(it.q, k, v, it.mask, it.bias, it.output, it.largest_difference)))
    return found
