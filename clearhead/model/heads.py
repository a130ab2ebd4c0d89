"""Encoder heads, which predict a class, a span or masked tokens (BERT, Devlin et al. 2019).

Every head takes the encoder's output x (B, S, D), and the positions that it may read.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ..errors import ModelError
from .dropout import Dropout
from .feed_forward import ACTIVATIONS
from .linear import Linear

_POOLERS: dict[str, Callable[[Tensor], Tensor] | None] = {"none": None, "tanh": torch.tanh, "relu": torch.relu}


def pool(x: Tensor, real: Tensor, pooling: str) -> Tensor:
    """Return the mean of the real vectors ("mean"), or the first one ("first"). (B, S, D), real (B, S) -> (B, D)

    If a row has no real vector, its mean is zero, and its first vector is the one at position 0.

    Args:
        x: the encoder's output.
        real: True for real vectors, False for padding.
        pooling: "mean" or "first".
    """
    if pooling == "first":
        first = real.long().argmax(1)[:, None, None]
        return x.gather(1, first.expand(-1, 1, x.size(2))).squeeze(1)
    return (x * real[..., None]).sum(1) / real.sum(1).clamp(min=1)[:, None]


class ClassPredictor(nn.Module):
    """Scores the classes with pooling, dropout and a linear layer.

    Pooling takes the mean of the vectors ("mean") or the first one ("first"). With a `pooler`, "tanh" or "relu", a
    hidden layer with that activation follows, as in BERT.
    """

    def __init__(
        self,
        d_model: int,
        n_classes: int,
        pooling: str = "mean",
        dropout: float = 0.1,
        *,
        bias: bool = True,
        pooler: str = "none",
    ) -> None:
        super().__init__()
        if pooling not in ("mean", "first"):
            what = f"pooling={pooling!r} is unknown"
            raise ModelError(what, expected="'mean' or 'first'", name="pooling", value=pooling)
        self.pooling, self.dropout, self.linear = pooling, Dropout(dropout), Linear(d_model, n_classes, bias=bias)
        self.activation = _POOLERS[pooler]
        self.hidden = None if self.activation is None else Linear(d_model, d_model, bias=bias)

    def forward(self, x: Tensor, real: Tensor) -> Tensor:
        """(B, S, D), real (B, S) -> (B, C)

        `real` is True for the positions to pool.
        """
        pooled = pool(x, real, self.pooling)
        if self.hidden is not None and self.activation is not None:
            pooled = self.activation(self.hidden(pooled))
        return self.linear(self.dropout(pooled))


class SpanFinder(nn.Module):
    """Scores every token as the first and as the last of the answer's span."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.linear = Linear(d_model, 1, 1)

    def forward(self, x: Tensor, allowed: Tensor) -> Tensor:
        """(B, S, D), allowed (B, S) -> (B, S, 2), start and end; -inf where `allowed` is False

        Position 0 means "there is no answer" and is always allowed, so at least one score is finite.
        """
        masked = ~allowed
        masked[:, 0] = False
        return self.linear(x).masked_fill(masked[..., None], float("-inf"))


class TokenPredictor(nn.Module):
    """Scores the vocabulary at each masked token, to learn from plain text.

    `transform` is a layer before the projection, such as `TokenTransform`.
    """

    def __init__(self, projection: nn.Module, transform: nn.Module | None = None) -> None:
        super().__init__()
        self.transform, self.projection = transform, projection

    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        """(B, S, D), at (N,) -> (N, V)

        `at` gives the masked positions, as indices into the flattened batch or as a boolean mask (B, S). Indices are
        faster on a GPU, because a mask makes the CPU wait for the number of positions.
        """
        x = x.flatten(0, 1)[at.flatten()]
        return self.projection(x if self.transform is None else self.transform(x))


class TokenTransform(nn.Module):
    """norm(f(x W + b)), before the projection of BERT's token head."""

    def __init__(self, d_model: int, norm: nn.Module, activation: str = "gelu") -> None:
        super().__init__()
        self.linear, self.norm, self.activation = Linear(d_model, d_model), norm, ACTIVATIONS[activation]

    def forward(self, x: Tensor) -> Tensor:  # (N, D) -> (N, D)
        return self.norm(self.activation(self.linear(x)))
