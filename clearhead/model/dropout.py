"""Dropout (section 5.4), fast on a CPU."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import ModelError


def dropout(x: Tensor, p: float) -> Tensor:
    """Zero each value with probability p, and divide the others by 1 - p. (...) -> (...)

    On a CPU, torch draws a number for each value, which takes a third of a training step. Here each draw of 64 bits
    serves eight values, a byte each, so p is rounded to a multiple of 1/256. The mean stays exact.
    """
    if not 0 <= p < 1:
        what = f"dropout={p} isn't a probability of dropping a value"
        raise ModelError(what, expected="a number from 0 up to, but not including, 1", name="dropout", value=p)
    if p == 0.0:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, p)
    dropped = min(max(1, round(p * 256)), 255)  # of 256 bytes
    draws = torch.empty((x.numel() + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
    return x * _scales(draws.view(torch.uint8)[: x.numel()].view(x.shape), dropped, x.dtype)


class Dropout(nn.Module):
    """Applies `dropout` in training mode only."""

    def __init__(self, p: float = 0.1) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:  # (...) -> (...)
        return dropout(x, self.p) if self.training else x


def _scales(bits: Tensor, dropped: int, dtype: torch.dtype) -> Tensor:
    """Return 0 for bytes below `dropped`, and 256 / (256 - dropped) for the others.

    In 16 bits that quotient is rounded, by 0.3% at p = 0.1. Giving some of the highest bytes the next larger number
    keeps the mean exact.
    """
    kept = 256 - dropped
    scales = _at_least(bits, dropped, dtype)
    if torch.finfo(dtype).bits > 16:
        return scales.mul_(256 / kept)
    spacing = torch.finfo(dtype).eps * 2.0 ** (math.frexp(256 / kept)[1] - 1)  # between the dtype's numbers around it
    lower = math.floor(256 / kept / spacing) * spacing
    scales.mul_(lower)
    if larger := round((256 - kept * lower) / spacing):
        scales.add_(_at_least(bits, 256 - larger, dtype), alpha=spacing)
    return scales


def _at_least(bits: Tensor, least: int, dtype: torch.dtype) -> Tensor:
    """Return 1 for bytes from `least` up, and 0 for the others. Booleans would take ten times as long to convert."""
    return bits.clone().ge_(least).to(dtype)
