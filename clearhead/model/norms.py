"""Add & Norm of Figure 1: LayerNorm (used in the paper) or RMSNorm, and the residual connection around a sub-layer.

The functions write out the equations.

To use another norm, name its class with `--model.norm=package.module:Class`, or add it to `NORMS`.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .dropout import Dropout


def layer_norm(x: Tensor, n_dims: int = 1, eps: float = 1e-5) -> Tensor:
    """(x - mean) / sqrt(variance + eps) over the last `n_dims` dimensions, with the biased variance. (...) -> (...)

    Args:
        x: any shape with at least `n_dims` dimensions.
        n_dims: number of trailing dimensions to normalise over.
        eps: added to the variance, so that a constant input doesn't divide by zero.
    """
    dims = tuple(range(-n_dims, 0))
    centred = x - x.mean(dims, keepdim=True)
    return centred / (centred.square().mean(dims, keepdim=True) + eps).sqrt()


def rms_norm(x: Tensor, eps: float = 1e-5) -> Tensor:
    """x / sqrt(mean(x^2) + eps) over the last dimension (Zhang and Sennrich 2019). (..., D) -> (..., D)"""
    return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt()


class LayerNorm(nn.Module):
    """`layer_norm` times a learned gain plus a learned bias (Ba et al. 2016), with PyTorch's fused kernel."""

    def __init__(
        self, normalized_shape: int | tuple[int, ...], eps: float = 1e-5, elementwise_affine: bool = True
    ) -> None:
        super().__init__()
        self.shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(self.shape)) if elementwise_affine else None
        self.bias = nn.Parameter(torch.zeros(self.shape)) if elementwise_affine else None

    def forward(self, x: Tensor) -> Tensor:  # (..., *shape) -> (..., *shape)
        return F.layer_norm(x, self.shape, self.weight, self.bias, self.eps)


class RMSNorm(nn.Module):
    """`rms_norm` times a learned gain. It subtracts no mean and adds no bias."""

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.ones(d_model))

    def forward(self, x: Tensor) -> Tensor:  # (..., D) -> (..., D)
        return rms_norm(x, self.eps) * self.weight


NORMS: dict[str, type[nn.Module]] = {"layer": LayerNorm, "rms": RMSNorm}  # values of model.norm


class AddNorm(nn.Module):
    """The residual connection around a sub-layer, with dropout and normalisation.

    post-norm (the paper):  norm(x + dropout(sublayer(x)))
    pre-norm:               x + dropout(sublayer(norm(x)))
    """

    def __init__(self, norm: nn.Module, dropout: float = 0.1, *, pre_norm: bool = False) -> None:
        super().__init__()
        self.norm, self.dropout, self.pre_norm = norm, Dropout(dropout), pre_norm

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:  # (B, T, D) -> (B, T, D)
        if self.pre_norm:
            return x + self.dropout(sublayer(self.norm(x)))
        return self.norm(x + self.dropout(sublayer(x)))
