"""A linear layer of one matrix, or of several stacked ones that share a single product. Tables of learned vectors."""

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.compiler import is_compiling

_GRAIN = 256  # rows of a product in bfloat16, in training on a CPU, are a multiple of this


class Linear(nn.Linear):
    """x W^T + b. `Linear(512, 512, 512, 512)` computes three products of 512 outputs each in one.

    Initial weights are Xavier-uniform, and biases are zero. Xavier's bound depends on the number of outputs, so each
    matrix is initialised with its own bound; that of the whole stack would be too small.
    """

    def __init__(self, in_features: int, *blocks: int, bias: bool = True) -> None:
        self.blocks = list(blocks)
        super().__init__(in_features, sum(blocks), bias=bias)

    def reset_parameters(self) -> None:
        for block in self.weight.split(self.blocks):
            nn.init.xavier_uniform_(block)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:  # (..., D) -> (..., F)
        if _trains_in_bfloat16(x) and x.numel() // x.size(-1) % _GRAIN:
            return cast(Tensor, _GrainedLinear.apply(x, self.weight, self.bias))  # type: ignore[no-untyped-call]
        return super().forward(x)

    def matrices(self, x: Tensor) -> tuple[Tensor, ...]:
        """Split x, shaped like the weight, into the rows of each matrix. (F+F, D) -> (F, D), (F, D)"""
        return x.split(self.blocks)


def _trains_in_bfloat16(x: Tensor) -> bool:
    """Return whether a product of this tensor is a part of training in bfloat16 on a CPU."""
    if not torch.is_grad_enabled() or x.device.type != "cpu" or not torch.is_autocast_enabled("cpu"):
        return False
    return torch.get_autocast_dtype("cpu") == torch.bfloat16 and x.dtype != torch.float64 and not is_compiling()


class _GrainedLinear(torch.autograd.Function):
    """Y = X W^T + b in bfloat16, dX = dY W, dW = dY^T X, db = sum of dY, with X and dY filled up by rows of zeros.

    oneDNN compiles each of the three products for each number of rows, which takes longer than the product. Batches
    have all numbers of tokens, but few multiples of `_GRAIN`.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        rows, w = _grained(x), weight.to(torch.bfloat16)
        ctx.save_for_backward(rows, w)
        ctx.dtypes = x.dtype, weight.dtype
        y = F.linear(rows, w, None if bias is None else bias.to(torch.bfloat16))
        return y[: x.numel() // x.size(-1)].view(*x.shape[:-1], -1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        (rows, w), (of_x, of_weight, of_bias) = ctx.saved_tensors, ctx.needs_input_grad
        dy = _grained(upstream)
        dx = dw = db = None
        if of_x:
            dx = (dy @ w)[: upstream.numel() // upstream.size(-1)].view(*upstream.shape[:-1], -1).to(ctx.dtypes[0])
        if of_weight:
            dw = (dy.T @ rows).to(ctx.dtypes[1])
        if of_bias:
            db = dy.sum(0, dtype=ctx.dtypes[1])
        return dx, dw, db


def _grained(x: Tensor) -> Tensor:
    """Return the vectors in bfloat16, and rows of zeros up to a multiple of `_GRAIN`. (..., D) -> (N, D)"""
    n = x.numel() // x.size(-1)
    rows = x.new_empty(-(-n // _GRAIN) * _GRAIN, x.size(-1), dtype=torch.bfloat16)
    rows[:n].view(x.shape).copy_(x)
    rows[n:] = 0.0
    return rows


def learned_table(*shape: int) -> nn.Parameter:
    """Return vectors to learn, drawn from N(0, 1/D). -> (..., D)

    The meta device holds no numbers, so none are drawn there. Torch would spend seconds on importing its compiler.
    """
    table = torch.empty(shape)
    return nn.Parameter(table if table.is_meta else table.normal_(std=shape[-1] ** -0.5))
