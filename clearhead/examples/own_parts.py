"""A custom position scheme and a custom norm.

In the folder of this file, use them in any model:

clearhead train pairs.tsv --model.positions=own_parts:Near --model.norm=own_parts:ScaleNorm --out runs/own
"""

import torch
from torch import nn

from clearhead.model.positions import Positions


class Near(Positions):
    """Subtract a learned share of the distance from the scores of each head.

    It overrides one of the three methods of `Positions`. It works for any distance and so for texts of any length:
    `endless` stays True.
    """

    def __init__(self, n_heads: int) -> None:  # the only argument it asks for
        super().__init__()
        self.share = nn.Parameter(torch.full((n_heads,), -2.0))

    def bias(self, queries, keys):  # (B, T), (B, S) -> (B, H, T, S)
        distance = (queries[:, :, None] - keys[:, None, :]).abs()[:, None]
        return -self.share.exp()[:, None, None] * distance


class ScaleNorm(nn.Module):
    """Scale every vector to the same length: g x / |x|, with one learned g (Nguyen and Salazar 2019)."""

    def __init__(self, d_model: int, eps: float) -> None:
        super().__init__()
        self.length, self.eps = nn.Parameter(torch.tensor(float(d_model) ** 0.5)), eps

    def forward(self, x):  # (..., D) -> (..., D)
        return self.length * x / x.norm(dim=-1, keepdim=True).clamp(min=self.eps)
