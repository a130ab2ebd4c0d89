"""A pointer, which copies tokens from the source (See et al. 2017, "Get To The Point").

Rare names and numbers are hard to learn but easy to copy, since attention already points at them.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .linear import Linear


class Pointer(nn.Module):
    """p(w) = g p_vocabulary(w) + (1 - g) * (attention to the positions of w in the source)

    The gate g = sigmoid(x W + b), with the decoder's state x, decides between generating and copying. The attention is
    the mean over heads. Source and target share one vocabulary, so that w is the same token in both.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.gate = Linear(d_model, 1)

    @staticmethod
    def read(source: Tensor) -> tuple[Tensor, Tensor]:
        """Return the source's tokens, and the first position of each token. (B, S) -> (B, S), (B, S)"""
        same = source[:, :, None] == source[:, None, :]
        return source, same.int().argmax(-1)

    def forward(self, x: Tensor, logits: Tensor, weights: Tensor, source: tuple[Tensor, Tensor]) -> Tensor:
        """(R, T, D), logits (R, T, V), weights (B, H, R/B*T, S), source (B, S), (B, S) -> log_p (R, T, V)

        Args:
            x: the decoder's states; the rows of a source are adjacent.
            logits: the decoder's logits.
            weights: the cross-attention's weights.
            source: the result of `read`.

        Only the source's tokens gain probability, so at most S of the V entries change. A token's weights are summed at
        its first position, and log(a + b) is computed from log a and log b.
        """
        dtype = torch.promote_types(logits.dtype, torch.float32)
        gate, weights = self.gate(x).to(dtype), weights.mean(1).view(*x.shape[:2], -1).to(dtype)  # (R, T, 1), (R, T, S)
        log_p = logits.to(dtype).log_softmax(-1) + F.logsigmoid(gate)
        copies = x.size(0) // source[0].size(0)
        tokens, first = (it.repeat_interleave(copies, 0)[:, None].expand_as(weights) for it in source)
        mass = torch.zeros_like(weights).scatter_add(-1, first, weights)
        said = log_p.gather(-1, tokens)
        copied = mass.clamp(min=torch.finfo(dtype).tiny).log() + F.logsigmoid(-gate)  # log 0 has no gradient
        more = torch.logaddexp(said, copied) - said
        return log_p.scatter_add(-1, tokens, more.masked_fill(mass == 0, 0.0))
