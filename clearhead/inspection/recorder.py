"""What attention looked at, recorded from outside: the model runs as ever, and the weights are recomputed beside it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from ..model.attention import Attend, scaled_dot_product_attention


@dataclass(frozen=True)
class Attention:
    """One call of attention: what it was given, what it gave, and its weights before dropout, recomputed beside it.

    Keys and values are repeated to the heads of the queries where several share one. Mask and bias broadcast to the
    weights; `largest_difference` is how far the output recomputed from the weights lies from the output itself.
    """

    q: Tensor  # (B, H, T, K)
    k: Tensor  # (B, H, S, K)
    v: Tensor  # (B, H, S, K)
    mask: Tensor | None
    bias: Tensor | None
    output: Tensor  # (B, H, T, K)
    weights: Tensor  # (B, H, T, S)
    largest_difference: float


@dataclass
class Trace:
    """Every call of attention by name, in order: `trace["decoder.0.cross"]` is the latest of that place."""

    calls: dict[str, list[Attention]] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Attention:
        if name not in self.calls:
            raise KeyError(f"{name!r} was not recorded; there are {', '.join(self.calls) or 'none'}")
        return self.calls[name][-1]


@contextmanager
def record(model: nn.Module) -> Iterator[Trace]:
    """Record every attention of the model inside the `with` block; its outputs are untouched, and nothing stays behind.

    with record(model) as trace:
        model(source, target)
    trace["decoder.0.cross"].weights
    """
    trace = Trace()
    handles = [
        part.register_forward_hook(_hook(trace, _place(name)), with_kwargs=True)
        for name, part in model.named_modules()
        if isinstance(part, Attend)
    ]
    try:
        yield trace
    finally:
        for handle in handles:
            handle.remove()


def _hook(trace: Trace, place: str) -> Any:
    def hook(attend: Attend, inputs: tuple[Tensor, ...], options: dict[str, Tensor | None], output: Tensor) -> None:
        q, k, v = (x.detach() for x in inputs)
        groups, output = q.size(1) // k.size(1), output.detach()
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        mask, bias = options.get("mask"), options.get("bias")
        bias = None if bias is None else bias.detach()
        again, weights = scaled_dot_product_attention(q, k, v, mask=mask, bias=bias)
        difference = float((again - output).abs().max()) if output.numel() else 0.0
        trace.calls.setdefault(place, []).append(Attention(q, k, v, mask, bias, output, weights, difference))

    return hook


def _place(name: str) -> str:
    """decoder.blocks.0.cross_attention.attend -> decoder.0.cross; the attention of a block to itself is `self`."""
    parts = name.removesuffix(".attend").replace("blocks.", "").split(".")
    parts[-1] = {"attention": "self", "cross_attention": "cross"}.get(parts[-1], parts[-1])
    return ".".join(parts)
