"""Cross-entropy with label smoothing (section 5.4); padding neither counts nor gets any of the mass."""

from collections.abc import Iterator
from typing import Any, cast

import torch
from torch import Tensor

_ROWS = 128  # at a time: so many rows of float32 stay in a processor's cache from the first pass over them to the last


def smoothed_cross_entropy(logits: Tensor, targets: Tensor, *, smoothing: float = 0.0, pad: int = 0) -> Tensor:
    """The sum over real targets of -sum_v q(v) log p(v), with p = softmax(logits): q gives 1 - smoothing to the target,
    and spreads the rest over every token but padding, the target among them. (N, V), (N,) -> ()
    """
    return cast(Tensor, _SmoothedCrossEntropy.apply(logits, targets, smoothing, pad))  # type: ignore[no-untyped-call]


def class_cross_entropy(
    logits: Tensor, targets: Tensor, *, smoothing: float = 0.0, weights: Tensor | None = None
) -> Tensor:
    """The sum over examples of -w sum_c q(c) log p(c), with w the weight of the right class, 1 without `weights` (C,).

    q gives 1 - smoothing to the right class, and spreads the rest over all, that one among them. (N, C), (N,) -> ()
    """
    log_p = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
    terms = (1 - smoothing) * log_p.gather(-1, targets[:, None])[:, 0] + smoothing * log_p.mean(-1)
    return -(terms if weights is None else terms * weights[targets]).sum()


def disagreement(logits: Tensor, others: Tensor, weights: Tensor | None = None) -> Tensor:
    """How far two readings of the same examples are from each other, (N, C), (N, C) -> (): the sum over examples of
    w (KL(p || q) + KL(q || p)), with w their `weights` (N,), 1 without (R-Drop, Liang et al. 2021).
    """
    dtype = torch.promote_types(logits.dtype, torch.float32)
    log_p, log_q = logits.to(dtype).log_softmax(-1), others.to(dtype).log_softmax(-1)
    terms = ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(-1)
    return (terms if weights is None else terms * weights).sum()


class _SmoothedCrossEntropy(torch.autograd.Function):
    """The loss, and its gradient p - q. Left to autograd the way back takes several times as long: it fills and adds
    a whole (N, V) for each term of the sum."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, smoothing: float, pad: int) -> Tensor:
        ctx.save_for_backward(logits, targets)
        ctx.smoothing, ctx.pad = smoothing, pad
        spread = smoothing / (logits.size(-1) - 1)
        loss = logits.new_zeros((), dtype=torch.promote_types(logits.dtype, torch.float32))
        for log_p, target, _ in _pieces(logits, targets):
            terms = (1 - smoothing) * log_p.gather(-1, target)
            if smoothing:
                terms += spread * (log_p.sum(-1, keepdim=True) - log_p[:, pad, None])
            loss -= terms.masked_fill_(target == pad, 0.0).sum()
        return loss

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None, None]:
        logits, targets = ctx.saved_tensors
        spread = ctx.smoothing / (logits.size(-1) - 1)
        gradient = torch.empty_like(logits)
        for log_p, target, rows in _pieces(logits, targets):
            difference = log_p.exp_().sub_(spread)  # p - q, where q is not yet more than what is spread
            difference[:, ctx.pad] += spread
            difference.scatter_add_(-1, target, difference.new_full(target.shape, ctx.smoothing - 1))
            gradient[rows] = difference.mul_(upstream * (target != ctx.pad))
        return gradient, None, None, None


def _pieces(logits: Tensor, targets: Tensor) -> Iterator[tuple[Tensor, Tensor, slice]]:
    """log p (R, V) and targets (R, 1) of some rows at a time, in float32 at least, and which rows they are."""
    dtype = torch.promote_types(logits.dtype, torch.float32)
    for start in range(0, len(logits), _ROWS):
        rows = slice(start, start + _ROWS)
        yield logits[rows].to(dtype).log_softmax(-1), targets[rows, None], rows
