"""The residual connection (sections 3.1 and 5.4), with post-norm or pre-norm."""

from collections.abc import Callable

from torch import Tensor, nn

from .dropout import Dropout


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
