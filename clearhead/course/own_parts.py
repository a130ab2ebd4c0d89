"""The parts of a model, computed by a student's functions. The folder with the exercises has to be on Python's path."""

from importlib import import_module
from typing import Any

from torch import Tensor, nn

from ..model import feed_forward, norms, positions

SETTINGS = {
    f"model.{setting}": f"{__name__}:{name}"
    for setting, name in (
        ("attention", "Attention"),
        ("positions", "Positions"),
        ("norm", "Norm"),
        ("feed_forward", "FeedForward"),
    )
}


def _own(file: str, function: str) -> Any:
    return getattr(import_module(file), function)


class Attention(nn.Module):
    """Equation 1 by the student's `attention` or `masked_attention`."""

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None = None, bias: Tensor | None = None
    ) -> Tensor:
        """Return the output of attention.

        Args:
            q: queries, (B, H, T, K).
            k: keys, (B, H, S, K).
            v: values, (B, H, S, K).
            mask: True where a query may attend, broadcast to (B, H, T, S).
            bias: ignored; the student's positions have none.
        """
        return self._attend(q, k, v, mask)[0]

    def weights(self, q: Tensor, k: Tensor, *, mask: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
        """Return the weights of attention, (B, H, T, S).

        Args:
            q: queries, (B, H, T, K).
            k: keys, (B, H, S, K).
            mask: True where a query may attend, broadcast to (B, H, T, S).
            bias: ignored; the student's positions have none.
        """
        return self._attend(q, k, k, mask)[1]

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        if mask is None:
            found: tuple[Tensor, Tensor] = _own("step_01_attention", "attention")(q, k, v)
        else:
            found = _own("step_02_mask", "masked_attention")(q, k, v, mask)
        return found


class Positions(positions.Positions):
    """The student's table of sines and cosines, added to the embeddings."""

    endless = False
    table: Tensor

    def __init__(self, d_model: int, max_len: int) -> None:
        super().__init__()
        found = _own("step_05_positions", "positional_encoding")(max_len, d_model)
        self.register_buffer("table", found, persistent=False)

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:  # (B, T, D), (B, T) -> (B, T, D)
        return x + self.table[positions].to(x.dtype)


class Norm(norms.LayerNorm):
    """The student's `layer_norm`, with a learned gain and bias."""

    def forward(self, x: Tensor) -> Tensor:  # (..., D) -> (..., D)
        found: Tensor = _own("step_06_add_and_norm", "layer_norm")(x, self.weight, self.bias, self.eps)
        return found


class FeedForward(feed_forward.FeedForward):
    """The student's `feed_forward`, with learned matrices."""

    def forward(self, x: Tensor) -> Tensor:  # (B, T, D) -> (B, T, D)
        inner, outer = self.inner, self.outer
        function = _own("step_07_feed_forward", "feed_forward")
        tokens = x.flatten(0, -2)  # the exercise promises (T, D)
        found: Tensor = function(tokens, inner.weight.mT, inner.bias, outer.weight.mT, outer.bias)
        return found.view(x.shape)
