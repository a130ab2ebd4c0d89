"""Linear layers: one matrix, several that share a product, or one with a low-rank update. Tables of learned vectors."""

from collections.abc import Collection
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.compiler import is_compiling

_LARGE = 2**18  # weights; a product with more takes longer than its compilation, which the copies of inputs must repay


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
        return _product(x, self.weight, self.bias)

    def matrices(self, x: Tensor) -> tuple[Tensor, ...]:
        """Split x, shaped like the weight, into the rows of each matrix. (F+F, D) -> (F, D), (F, D)"""
        return x.split(self.blocks)


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x W^T + b. (..., D), (F, D), (F,) -> (..., F)"""
    if weight.numel() < _LARGE and _trains_in_bfloat16(x) and rounded_up(n := x.numel() // x.size(-1)) > n:
        return cast(Tensor, _GrainedLinear.apply(x, weight, bias))  # type: ignore[no-untyped-call]
    return F.linear(x, weight, bias)


def _trains_in_bfloat16(x: Tensor) -> bool:
    """Return whether a product of this tensor is a part of training in bfloat16 on a CPU."""
    if not torch.is_grad_enabled() or x.device.type != "cpu" or not torch.is_autocast_enabled("cpu"):
        return False
    return torch.get_autocast_dtype("cpu") == torch.bfloat16 and x.dtype != torch.float64 and not is_compiling()


class _GrainedLinear(torch.autograd.Function):
    """Y = X W^T + b in bfloat16, dX = dY W, dW = dY^T X, db = sum of dY, with X and dY filled up by rows of zeros.

    oneDNN compiles each of the three products for each number of rows, which takes longer than the product. Batches
    have all numbers of tokens, but few numbers that `rounded_up` returns.
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


def rounded_up(n: int) -> int:
    """Return the next of eight numbers of rows between two powers of two: at most an eighth more, or 32 for a few."""
    grain = 1 << max(n.bit_length() - 4, 5)
    return -(-n // grain) * grain


def _grained(x: Tensor) -> Tensor:
    """Return the vectors in bfloat16, and zeros up to the number of `rounded_up`. (..., D) -> (N, D)"""
    n = x.numel() // x.size(-1)
    rows = x.new_empty(rounded_up(n), x.size(-1), dtype=torch.bfloat16)
    rows[:n].view(x.shape).copy_(x)
    rows[n:] = 0.0
    return rows


class LoraLinear(Linear):
    """x (W + s B A)^T + b, where only A and B learn: LoRA (Hu et al. 2021), section 4.1.

    A (R, in_features) begins at random and B (out_features, R) at zero, so training begins with the output of `linear`,
    whose weights it shares. The product with s B A is computed as two thin ones.
    """

    def __init__(self, linear: Linear, rank: int, scale: float) -> None:
        nn.Module.__init__(self)
        self.blocks, self.in_features, self.out_features = linear.blocks, linear.in_features, linear.out_features
        self.weight, self.bias, self.scale = linear.weight, linear.bias, scale
        self.lora_a = nn.Parameter(self.weight.new_empty(rank, self.in_features))
        self.lora_b = nn.Parameter(self.weight.new_zeros(self.out_features, rank))
        nn.init.kaiming_uniform_(self.lora_a, a=5**0.5)

    def forward(self, x: Tensor) -> Tensor:  # (..., D) -> (..., F)
        return super().forward(x) + self.scale * _product(_product(x, self.lora_a), self.lora_b)


def block_layers(model: nn.Module) -> dict[str, Linear]:
    """Return the linear layers in the blocks of a model, by name: all except those of heads and projections."""
    return {name: it for name, it in model.named_modules() if isinstance(it, Linear) and "blocks." in name}


def add_lora(model: nn.Module, names: Collection[str], rank: int, scale: float) -> None:
    """Give linear layers low-rank updates; see `LoraLinear`.

    Args:
        model: changed in place.
        names: layers to update, keyed as in `block_layers`.
        rank: the rank of an update, R.
        scale: the factor of an update, s.
    """
    for name, layer in block_layers(model).items():
        if name in names:
            model.set_submodule(name, LoraLinear(layer, rank, scale))


def remove_lora(model: nn.Module) -> None:
    """Make layers with low-rank updates plain again, with their own weights."""
    for name, layer in block_layers(model).items():
        if isinstance(layer, LoraLinear):
            with torch.device("meta"):
                plain = Linear(layer.in_features, *layer.blocks, bias=layer.bias is not None)
            plain.weight, plain.bias = layer.weight, layer.bias
            model.set_submodule(name, plain)


def learned_state(model: nn.Module) -> dict[str, Tensor]:
    """Return the weights by name; of a model with low-rank updates, only those that learn."""
    state = model.state_dict()
    if not any(isinstance(it, LoraLinear) for it in model.modules()):
        return state
    return {name: state[name] for name, weight in model.named_parameters() if weight.requires_grad}


def learned_table(*shape: int) -> nn.Parameter:
    """Return vectors to learn, drawn from N(0, 1/D). -> (..., D)

    The meta device holds no numbers, so none are drawn there. Torch would spend seconds on importing its compiler.
    """
    table = torch.empty(shape)
    return nn.Parameter(table if table.is_meta else table.normal_(std=shape[-1] ** -0.5))
