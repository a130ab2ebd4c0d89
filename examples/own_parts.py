"""A position scheme and a norm of one's own. In the folder of this file they stand in any model:

clearhead train pairs.tsv --model.positions=own_parts:Near --model.norm=own_parts:ScaleNorm --out runs/own
"""

import torch
from torch import nn

from clearhead.model.positions import Positions


class Near(Positions):
    """What is far is less alike: each head takes a share of the distance from its scores, and learns how large a share.

    Of the three doors of `Positions` it opens one; the other two, which turn queries and keys and which add to the
    embeddings, stay shut. Any distance has its place, so that a text of any length can be read: `endless` stays True.
    """

    def __init__(self, n_heads: int) -> None:  # of what is offered it asks for this alone
        super().__init__()
        self.share = nn.Parameter(torch.full((n_heads,), -2.0))

    def bias(self, queries, keys):  # (B, T), (B, S) -> (B, H, T, S)
        distance = (queries[:, :, None] - keys[:, None, :]).abs()[:, None]
        return -self.share.exp()[:, None, None] * distance


class ScaleNorm(nn.Module):
    """Every vector at the same length, g x / |x|, with one number g for all (Nguyen and Salazar 2019)."""

    def __init__(self, d_model: int, eps: float) -> None:
        super().__init__()
        self.length, self.eps = nn.Parameter(torch.tensor(float(d_model) ** 0.5)), eps

    def forward(self, x):  # (..., D) -> (..., D)
        return self.length * x / x.norm(dim=-1, keepdim=True).clamp(min=self.eps)
