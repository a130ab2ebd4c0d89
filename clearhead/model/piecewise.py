"""Attention for a few queries at a time, so that the weights of long texts never exist all at once."""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor

_PIECE = 2**20  # attention weights at a time: 4 MiB in float32

Equation: TypeAlias = Callable[[Tensor, Tensor, Tensor, Tensor | None, Tensor | None, float], Tensor]


def piecewise(
    equation: Equation, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: Tensor | None, dropout: float
) -> Tensor:
    """Return the output of `equation` for these arguments, computed for a few queries at a time, on a CPU.

    (B, H, T, K), (B, H, S, K), (B, H, S, Kv) -> (B, H, T, Kv); mask and bias broadcast to (B, H, T, S)

    Args:
        equation: takes the other arguments for some of the queries, and returns their outputs.
        q: queries.
        k: keys.
        v: values.
        mask: True for keys that a query may attend to, or None for all of them.
        bias: added to the scores, or None.
        dropout: probability of dropping a weight.
    """
    return cast(Tensor, _Piecewise.apply(equation, q, k, v, mask, bias, dropout))  # type: ignore[no-untyped-call]


class _Piecewise(torch.autograd.Function):
    """The backward pass computes the weights again instead of storing them.

    It draws the same dropout masks from the same state of the random generator.
    """

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")  # type: ignore[untyped-decorator]
    def forward(
        ctx: Any,
        equation: Equation,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor | None,
        bias: Tensor | None,
        dropout: float,
    ) -> Tensor:
        ctx.save_for_backward(q, k, v, mask, bias)
        ctx.equation, ctx.dropout, ctx.random = equation, dropout, torch.get_rng_state()
        output = torch.empty(*q.shape[:-1], v.size(-1), dtype=v.dtype)
        for at in _pieces(q, k):
            output[:, :, at] = equation(q[:, :, at], k, v, _queries(mask, at), _queries(bias, at), dropout)
        return output

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")  # type: ignore[untyped-decorator]
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, mask, bias = ctx.saved_tensors
        inputs = [it.detach().requires_grad_() for it in (*inputs, *([] if bias is None else [bias]))]
        gradients = [torch.zeros_like(it) for it in inputs]
        q, k, v, *biases = inputs
        with torch.random.fork_rng([]), torch.enable_grad():
            torch.set_rng_state(ctx.random)
            for at in _pieces(q, k):
                parts = [q[:, :, at], k, v, *(_queries(it, at) for it in biases)]
                output = ctx.equation(*parts[:3], _queries(mask, at), parts[3] if biases else None, ctx.dropout)
                for gradient, part in zip(gradients, torch.autograd.grad(output, parts, upstream[:, :, at])):
                    (gradient if gradient.size(-2) == part.size(-2) else gradient[..., at, :]).add_(part)
        return (None, *gradients[:3], None, gradients[3] if biases else None, None)


def _pieces(q: Tensor, k: Tensor) -> Iterator[slice]:
    """Yield slices of the queries (B, H, T, K), so that a piece has at most `_PIECE` weights."""
    size = max(1, _PIECE // (q.size(0) * q.size(1) * k.size(-2)))
    for start in range(0, q.size(-2), size):
        yield slice(start, start + size)


def _queries(x: Tensor | None, at: slice) -> Tensor | None:
    """Return the rows of a mask or bias that belong to these queries. (..., T, S) or (..., 1, S)"""
    return x if x is None or x.dim() < 2 or x.size(-2) == 1 else x[..., at, :]
