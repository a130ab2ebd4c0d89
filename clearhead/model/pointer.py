"""Copying from the source: a pointer beside the vocabulary (See et al. 2017, "Get To The Point").

Names and numbers are rarely learned, but often only have to be repeated. Attention knows already where they stand.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .linear import Linear


class Pointer(nn.Module):
    """p(w) = g p_vocabulary(w) + (1 - g) * (attention to the places of the source where w stands)

    g = sigmoid(x W + b), with x the decoder's state: whether it would rather say a word or repeat one. The attention
    is the mean over heads. Both sides need one vocabulary, or w would be another word in the source.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.gate = Linear(d_model, 1)

    @staticmethod
    def read(source: Tensor) -> tuple[Tensor, Tensor]:
        """The tokens of the source, and for each the place where it first stands. (B, S) -> (B, S), (B, S)"""
        same = source[:, :, None] == source[:, None, :]
        return source, same.int().argmax(-1)

    def forward(self, x: Tensor, logits: Tensor, weights: Tensor, source: tuple[Tensor, Tensor]) -> Tensor:
        """(R, T, D), logits (R, T, V), weights (B, H, R/B*T, S), source (B, S), (B, S) -> log_p (R, T, V)

        The source comes as `read` gives it, and the weights as cross-attention does: of the R rows those of one source
        stand together. Only what the source has is likelier than g p_vocabulary, so that S of V entries are computed:
        the weights of a token are summed at its first place, and log(a + b) is made of log a and log b.
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
