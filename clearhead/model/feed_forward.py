"""The position-wise feed-forward network (section 3.3)."""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from .attention import xavier_blocks_
from .dropout import Dropout

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}


class FeedForward(nn.Module):
    """max(0, x W_1 + b_1) W_2 + b_2: Equation 2, or with another activation; dropout on the inner layer."""

    def __init__(
        self, d_model: int = 512, d_ff: int = 2048, dropout: float = 0.1, *, activation: str = "relu", bias: bool = True
    ) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        self.inner = nn.Linear(d_model, d_ff, bias=bias)
        self.outer = nn.Linear(d_ff, d_model, bias=bias)
        self.dropout = Dropout(dropout)
        xavier_blocks_(self.inner)
        xavier_blocks_(self.outer)

    def forward(self, x: Tensor) -> Tensor:  # (B, T, D) -> (B, T, D)
        return self.outer(self.dropout(self.activation(self.inner(x))))


class SwiGLU(nn.Module):
    """(silu(x W_1) * x W_3) W_2: a gated feed-forward (Shazeer 2020), gate and value from one product."""

    def __init__(self, d_model: int = 512, d_ff: int = 2048, dropout: float = 0.1, *, bias: bool = True) -> None:
        super().__init__()
        self.inner = nn.Linear(d_model, 2 * d_ff, bias=bias)
        self.outer = nn.Linear(d_ff, d_model, bias=bias)
        self.dropout = Dropout(dropout)
        xavier_blocks_(self.inner, d_ff, d_ff)
        xavier_blocks_(self.outer)

    def forward(self, x: Tensor) -> Tensor:  # (B, T, D) -> (B, T, D)
        gate, value = self.inner(x).chunk(2, dim=-1)
        return self.outer(self.dropout(F.silu(gate) * value))
