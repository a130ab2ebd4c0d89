"""The position-wise feed-forward network (section 3.3).

To use another one, name its class with `--model.feed_forward=package.module:Class`, or add it to `FEED_FORWARDS`.
"""

from collections.abc import Callable
from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import ModelError
from .dropout import Dropout
from .linear import Linear

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),  # GPT-2's; within 0.0005 of gelu
    "silu": F.silu,
}


class FeedForward(nn.Module):
    """max(0, x W_1 + b_1) W_2 + b_2: Equation 2, optionally with another activation, and dropout on the inner layer."""

    def __init__(
        self, d_model: int = 512, d_ff: int = 2048, dropout: float = 0.1, *, activation: str = "relu", bias: bool = True
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            what = f"activation={activation!r} is unknown"
            raise ModelError(what, expected=f"one of {', '.join(ACTIVATIONS)}", name="activation", value=activation)
        self.activation = ACTIVATIONS[activation]
        self.inner = Linear(d_model, d_ff, bias=bias)
        self.outer = Linear(d_ff, d_model, bias=bias)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:  # (B, T, D) -> (B, T, D)
        inner = self.inner(x)
        if self.activation is F.relu:  # it commutes with dropout, and this way round, one tensor less is stored
            return self.outer(F.relu(self.dropout(inner)))
        return self.outer(self.dropout(self.activation(inner)))


class GatedFeedForward(nn.Module):
    """(f(x W_1) * x W_3) W_2: a gated network (Shazeer 2020). One matrix product computes gate and value."""

    gate: Callable[[Tensor], Tensor]

    def __init__(self, d_model: int = 512, d_ff: int = 2048, dropout: float = 0.1, *, bias: bool = True) -> None:
        super().__init__()
        self.inner = Linear(d_model, d_ff, d_ff, bias=bias)
        self.outer = Linear(d_ff, d_model, bias=bias)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:  # (B, T, D) -> (B, T, D)
        gate, value = self.inner(x).chunk(2, dim=-1)
        return self.outer(self.dropout(type(self).gate(gate) * value))


class SwiGLU(GatedFeedForward):
    """A gated network with f = silu."""

    gate = staticmethod(F.silu)


class GeGLU(GatedFeedForward):
    """A gated network with f = gelu, in the tanh form of T5."""

    gate = staticmethod(ACTIVATIONS["gelu_tanh"])


# Values of model.feed_forward.
FEED_FORWARDS: dict[str, type[nn.Module]] = {
    **dict.fromkeys(ACTIVATIONS, FeedForward),
    "swiglu": SwiGLU,
    "geglu": GeGLU,
}
