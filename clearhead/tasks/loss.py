"""Cross-entropy with label smoothing (section 5.4). Padding is ignored and gets no probability mass.

If a vocabulary has no padding token, the id of padding is one past its last id.
"""

from collections.abc import Iterator
from typing import Any, cast

import torch
from torch import Tensor

_ROWS = 128  # rows processed at a time; in float32, they stay in the CPU cache between passes


def smoothed_cross_entropy(logits: Tensor, targets: Tensor, *, smoothing: float = 0.0, pad: int = 0) -> Tensor:
    """Return the sum over real targets of -sum_v q(v) log p(v), with p = softmax(logits). (N, V), (N,) -> ()

    q gives 1 - smoothing to the target and spreads the rest over all tokens except padding, including the target.
    """
    return cast(Tensor, _SmoothedCrossEntropy.apply(logits, targets, smoothing, pad))  # type: ignore[no-untyped-call]


def log_probability_of(targets: Tensor, log_p: Tensor) -> Tensor:
    """Return log p of each target. Where a target is padding beyond the vocabulary, it's any finite number.

    (..., 1), (..., V) -> (..., 1)
    """
    return log_p.gather(-1, _inside(targets, log_p))


def class_cross_entropy(
    logits: Tensor, targets: Tensor, *, smoothing: float = 0.0, weights: Tensor | None = None
) -> Tensor:
    """Return the sum over examples of -w sum_c q(c) log p(c). (N, C), (N,) -> ()

    w is the weight of the correct class in `weights` (C,), or 1. q gives 1 - smoothing to the correct class and spreads
    the rest over all classes, including the correct one.
    """
    log_p = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
    terms = (1 - smoothing) * log_p.gather(-1, targets[:, None])[:, 0] + smoothing * log_p.mean(-1)
    return -(terms if weights is None else terms * weights[targets]).sum()


def disagreement(logits: Tensor, others: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return the difference between two predictions for the same examples (R-Drop, Liang et al. 2021).

    It's the sum over examples of w (KL(p || q) + KL(q || p)), with w from `weights` (N,), or 1. (N, C), (N, C) -> ()
    """
    dtype = torch.promote_types(logits.dtype, torch.float32)
    log_p, log_q = logits.to(dtype).log_softmax(-1), others.to(dtype).log_softmax(-1)
    terms = ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(-1)
    return (terms if weights is None else terms * weights).sum()


def span_cross_entropy(scores: Tensor, answers: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """Return the sum over windows, and over first and last token, of -sum_s q(s) log p(s), with p = softmax(scores).

    q gives 1 - smoothing to the token of the answer, and spreads the rest over all tokens with a finite score,
    including that one. (B, S, 2), (B, 2) -> ()
    """
    log_p = scores.to(torch.promote_types(scores.dtype, torch.float32)).log_softmax(1)
    terms = (1 - smoothing) * log_p.gather(1, answers[:, None])[:, 0]
    if smoothing:
        barred = scores == -torch.inf
        terms = terms + smoothing * log_p.masked_fill(barred, 0.0).sum(1) / (~barred).sum(1)
    return -terms.sum()


class _SmoothedCrossEntropy(torch.autograd.Function):
    """The loss with its gradient p - q.

    Autograd would take several times as long, since it fills and adds an (N, V) tensor for each term of the sum.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, smoothing: float, pad: int) -> Tensor:
        ctx.save_for_backward(logits, targets)
        ctx.smoothing, ctx.pad, inside = smoothing, pad, pad < logits.size(-1)
        spread = smoothing / (logits.size(-1) - inside)
        loss = logits.new_zeros((), dtype=torch.promote_types(logits.dtype, torch.float32))
        for log_p, target, _ in _pieces(logits, targets):
            terms = (1 - smoothing) * log_probability_of(target, log_p)
            if smoothing:
                total = log_p.sum(-1, keepdim=True)
                terms += spread * (total - log_p[:, pad, None] if inside else total)
            loss -= terms.masked_fill_(target == pad, 0.0).sum()
        return loss

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None, None]:
        (logits, targets), inside = ctx.saved_tensors, ctx.pad < ctx.saved_tensors[0].size(-1)
        spread = ctx.smoothing / (logits.size(-1) - inside)
        gradient = torch.empty_like(logits)
        for log_p, target, rows in _pieces(logits, targets):
            difference = log_p.exp_().sub_(spread)  # p - q for all but the target and padding
            if inside:
                difference[:, ctx.pad] += spread
            difference.scatter_add_(-1, _inside(target, log_p), difference.new_full(target.shape, ctx.smoothing - 1))
            gradient[rows] = difference.mul_(upstream * (target != ctx.pad))
        return gradient, None, None, None


def _inside(targets: Tensor, log_p: Tensor) -> Tensor:
    """Return targets with padding beyond the vocabulary replaced by the last token."""
    return targets.clamp(max=log_p.size(-1) - 1)


def _pieces(logits: Tensor, targets: Tensor) -> Iterator[tuple[Tensor, Tensor, slice]]:
    """Yield log p (R, V), targets (R, 1) and their rows, a few rows at a time, in float32 or better."""
    dtype = torch.promote_types(logits.dtype, torch.float32)
    for start in range(0, len(logits), _ROWS):
        rows = slice(start, start + _ROWS)
        yield logits[rows].to(dtype).log_softmax(-1), targets[rows, None], rows
