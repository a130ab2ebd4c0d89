"""Dropout (section 5.4) that does not cost more than what it drops out of."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import ModelError


def dropout(x: Tensor, p: float) -> Tensor:
    """Zero each value with probability p and divide the others by 1 - p. (...) -> (...)

    On a processor torch draws one number a value, and spends a third of a training step on it. Here a draw of 64 bits
    decides for eight values, a byte each; p is therefore rounded to a multiple of 1/256, and the others are divided by
    one minus that, so that the mean is kept exactly.
    """
    if not 0 <= p < 1:
        raise ModelError(f"dropout = {p} is no probability of dropping; expected at least 0 and below 1")
    if p == 0.0:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, p)
    threshold = min(max(1, round(p * 256)), 255)
    draws = torch.empty((x.numel() + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
    bits = draws.view(torch.uint8)[: x.numel()].view(x.shape)
    return x * (bits >= threshold).to(x.dtype).mul_(256 / (256 - threshold))


class Dropout(nn.Module):
    """`dropout` while training, nothing otherwise."""

    def __init__(self, p: float = 0.1) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:  # (...) -> (...)
        return dropout(x, self.p) if self.training else x
