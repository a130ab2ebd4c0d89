"""Cross-entropy with label smoothing (section 5.4). Padding is ignored and gets no probability mass.

If a vocabulary has no padding token, the id of padding is one past its last id.
"""

from collections.abc import Iterator
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from ..model.fronts.tokens import Projection

_ROWS = 128  # rows processed at a time; in float32, they stay in the CPU cache between passes
_PROJECTED = 2**23  # logits computed at a time: few enough for the cache, and enough for a fast product


def smoothed_cross_entropy(logits: Tensor, targets: Tensor, *, smoothing: float = 0.0, pad: int = 0) -> Tensor:
    """Return the sum over real targets of -sum_v q(v) log p(v), with p = softmax(logits). (N, V), (N,) -> ()

    q gives 1 - smoothing to the target and spreads the rest over all tokens except padding, including the target.
    """
    return cast(Tensor, _SmoothedCrossEntropy.apply(logits, targets, smoothing, pad))  # type: ignore[no-untyped-call]


def projected_cross_entropy(
    x: Tensor, projection: Projection, targets: Tensor, *, smoothing: float = 0.0, pad: int = 0
) -> Tensor:
    """Return `smoothed_cross_entropy(projection(x), targets)`. (N, D), (N,) -> ()

    Logits are computed a few rows at a time, and each of them once: the gradients of x and of the projection are sums
    over rows, so they are computed together with the loss. All logits would take more memory than the rest of the step.
    """
    device, dtype = x.device.type, x.dtype
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device) and dtype != torch.float64:
        dtype = torch.get_autocast_dtype(device)  # as autocast computes products
    given = projection.scaled(x), projection.weight, projection.bias, targets
    return cast(Tensor, _ProjectedCrossEntropy.apply(*given, smoothing, pad, dtype))  # type: ignore[no-untyped-call]


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
    """The loss with its gradient p - q, which is computed in the same pass.

    Autograd would take several times as long, since it fills and adds an (N, V) tensor for each term of the sum.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, smoothing: float, pad: int) -> Tensor:
        gradient = torch.empty_like(logits) if ctx.needs_input_grad[0] else None
        ctx.save_for_backward(gradient)
        return _loss(logits, targets, smoothing, pad, gradient)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * upstream, None, None, None


class _ProjectedCrossEntropy(torch.autograd.Function):
    """The loss of projected vectors, with all gradients."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float, pad: int,
        dtype: torch.dtype,
    ) -> Tensor:  # fmt: skip
        loss = x.new_zeros((), dtype=torch.promote_types(x.dtype, torch.float32))
        given, needed = (x, weight, bias), ctx.needs_input_grad
        gradients = [torch.zeros_like(it) if it is not None and need else None for it, need in zip(given, needed)]
        of_x, of_weight, of_bias = gradients
        w, b = weight.to(dtype), None if bias is None else bias.to(dtype)
        for rows in _pieces(x, _PROJECTED // len(weight)):
            block = x[rows].to(dtype)
            logits = F.linear(block, w, b)
            loss += _loss(logits, targets[rows], smoothing, pad, logits if any(needed) else None)
            if of_x is not None:
                of_x[rows] = logits @ w  # now p - q
            if of_weight is not None:
                of_weight += logits.T @ block
            if of_bias is not None:
                of_bias += logits.sum(0, dtype=of_bias.dtype)
        ctx.save_for_backward(*gradients)
        return loss

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        return *(None if it is None else it * upstream for it in ctx.saved_tensors), None, None, None, None


def _loss(logits: Tensor, targets: Tensor, smoothing: float, pad: int, gradient: Tensor | None) -> Tensor:
    """Return the loss, and write its gradient to `gradient`, which can be `logits`. (N, V), (N,) -> ()

    log sum_v exp(x_v) is computed as max x - log max p, since p is needed anyway for the gradient.
    """
    inside = pad < logits.size(-1)
    spread = smoothing / (logits.size(-1) - inside)
    dtype = torch.promote_types(logits.dtype, torch.float32)
    loss = logits.new_zeros((), dtype=dtype)
    for rows in _pieces(logits, _ROWS):
        x, target = logits[rows].to(dtype), targets[rows, None]
        p, real = x.softmax(-1), target != pad
        wanted = (1 - smoothing) * x.gather(-1, _inside(target, x))  # sum_v q(v) x_v
        if smoothing:
            total = x.sum(-1, keepdim=True)
            wanted += spread * (total - x[:, pad, None] if inside else total)
        normaliser = x.amax(-1, keepdim=True) - p.amax(-1, keepdim=True).log()
        loss += (normaliser - wanted).masked_fill_(~real, 0.0).sum()
        if gradient is None:
            continue
        p.sub_(spread)  # p - q for all but the target and padding
        if inside:
            p[:, pad] += spread
        p.scatter_add_(-1, _inside(target, p), p.new_full(target.shape, smoothing - 1))
        gradient[rows] = p.mul_(real)
    return loss


def _pieces(x: Tensor, size: int) -> Iterator[slice]:
    """Yield slices of `size` rows, or of many more on a GPU, which has no cache to stay in but waits for each call."""
    size = max(size if x.device.type == "cpu" else 64 * size, 1)
    return (slice(start, start + size) for start in range(0, len(x), size))


def _inside(targets: Tensor, log_p: Tensor) -> Tensor:
    """Return targets with padding beyond the vocabulary replaced by the last token."""
    return targets.clamp(max=log_p.size(-1) - 1)
