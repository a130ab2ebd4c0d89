"""Cross-entropy with label smoothing (section 5.4). Padding is ignored and gets no probability mass.

If a vocabulary has no padding token, the id of padding is one past its last id.
"""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from ..model.fronts.tokens import Projection
from ..model.linear import rounded_up

_ROWS = 128  # rows processed at a time; in float32, they stay in the CPU cache between passes
_PROJECTED = 2**23  # logits computed at a time: few enough for the cache, and enough for a fast product


def smoothed_cross_entropy(logits: Tensor, targets: Tensor, *, smoothing: float = 0.0, pad: int = 0) -> Tensor:
    """Return the sum over real targets of -sum_v q(v) log p(v), with p = softmax(logits). (N, V), (N,) -> ()

    q gives 1 - smoothing to the target and spreads the rest over all tokens except padding, including the target.

    Args:
        logits: any dtype; sums are in float32 or wider.
        targets: token ids, or `pad` for what isn't predicted.
        smoothing: at least 0, less than 1.
        pad: the id of padding, which may be one past the vocabulary.
    """
    return cast(Tensor, _SmoothedCrossEntropy.apply(logits, targets, smoothing, pad))  # type: ignore[no-untyped-call]


def projected_cross_entropy(
    x: Tensor, projection: Projection, targets: Tensor, *, smoothing: float = 0.0, pad: int = 0
) -> Tensor:
    """Return `smoothed_cross_entropy(projection(x), targets)`. (N, D), (N,) -> ()

    Logits are computed a few rows at a time, and each of them once: the gradients of x and of the projection are sums
    over rows, so they are computed together with the loss. All logits would take more memory than the rest of the step.

    Args:
        x: what the projection reads.
        projection: the projection to the vocabulary, whose gradients are computed too.
        targets: token ids, or `pad` for what isn't predicted.
        smoothing: at least 0, less than 1.
        pad: the id of padding, which may be one past the vocabulary.
    """
    device, dtype = x.device.type, x.dtype
    given = projection.scaled(x), projection.weight, projection.bias, targets, smoothing, pad
    if not torch.amp.is_autocast_available(device):
        return cast(Tensor, _ProjectedCrossEntropy.apply(*given, dtype))  # type: ignore[no-untyped-call]
    if torch.is_autocast_enabled(device) and dtype != torch.float64:
        dtype = torch.get_autocast_dtype(device)  # as autocast computes products
    with torch.autocast(device, enabled=False):  # it would compute the softmax in float32, with copies on both sides
        return cast(Tensor, _ProjectedCrossEntropy.apply(*given, dtype))  # type: ignore[no-untyped-call]


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

    Args:
        logits: the scores of C classes for each example.
        targets: the correct classes.
        smoothing: at least 0, less than 1.
        weights: weight of each class (default: 1).
    """
    log_p = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
    terms = (1 - smoothing) * log_p.gather(-1, targets[:, None])[:, 0] + smoothing * log_p.mean(-1)
    return -(terms if weights is None else terms * weights[targets]).sum()


def disagreement(logits: Tensor, others: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return the difference between two predictions for the same examples (R-Drop, Liang et al. 2021).

    It's the sum over examples of w (KL(p || q) + KL(q || p)), with w from `weights` (N,), or 1. (N, C), (N, C) -> ()

    Args:
        logits: one prediction for each example.
        others: another prediction for each of them.
        weights: weight of each example (default: 1).
    """
    dtype = torch.promote_types(logits.dtype, torch.float32)
    log_p, log_q = logits.to(dtype).log_softmax(-1), others.to(dtype).log_softmax(-1)
    terms = ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(-1)
    return (terms if weights is None else terms * weights).sum()


def label_cross_entropy(logits: Tensor, targets: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """Return the sum over examples and labels of -q log p - (1 - q) log(1 - p), with p = sigmoid(logits).

    q is 1 - smoothing / 2 for the labels of an example, where `targets` is 1, and smoothing / 2 for the others.
    (N, C), (N, C) -> ()

    Args:
        logits: the score of each label for each example.
        targets: 1 for the labels of an example, 0 for others.
        smoothing: at least 0, less than 1.
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    q = targets.to(logits.dtype) * (1 - smoothing) + smoothing / 2
    return F.binary_cross_entropy_with_logits(logits, q, reduction="sum")


def label_disagreement(logits: Tensor, others: Tensor) -> Tensor:
    """Return the sum over examples and labels of KL(p || q) + KL(q || p), with p and q the sigmoids of the logits.

    (N, C), (N, C) -> ()
    """
    dtype = torch.promote_types(logits.dtype, torch.float32)
    x, y = logits.to(dtype), others.to(dtype)
    return ((x.sigmoid() - y.sigmoid()) * (x - y)).sum()


def span_cross_entropy(scores: Tensor, answers: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """Return the sum over windows, and over first and last token, of -sum_s q(s) log p(s), with p = softmax(scores).

    q gives 1 - smoothing to the token of the answer, and spreads the rest over all tokens with a finite score,
    including that one. (B, S, 2), (B, 2) -> ()

    Args:
        scores: of each token as the first one of an answer and as the last one; -inf where neither is allowed.
        answers: the first and the last position of each answer.
        smoothing: at least 0, less than 1.
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
    """The loss of projected vectors, with all gradients.

    Passes over the logits take most of the time: there are only two maxima and the softmax, which replaces them. The
    share of the loss that's spread over the vocabulary is linear in the logits, so it needs only sums of weights and of
    vectors. For logits y = x W^T + b, p = softmax(y), target t, smoothing s and n tokens other than padding:

        loss    = -log p_t + s y_t - (s/n) u(y),  with u(y) = sum of all y_v but padding's = x u(W) + u(b)
        d/dx    = (p - (1-s) [t]) W - (s/n) u(W)
        d/dW    = (p - (1-s) [t])^T x - (s/n) x in every row but padding's, and the same for b with x = 1
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float, pad: int,
        dtype: torch.dtype,
    ) -> Tensor:  # fmt: skip
        exact = torch.promote_types(x.dtype, torch.float32)
        given, needed = (x, weight, bias), ctx.needs_input_grad
        gradients = [torch.zeros_like(it) if it is not None and need else None for it, need in zip(given, needed)]
        of_x, of_weight, of_bias = gradients
        padding = (targets == pad)[:, None]
        x = x.masked_fill(padding, 0.0)  # so that padding adds nothing to d/dW
        blocks, w, b = _padded(x.to(dtype), 0.0), weight.to(dtype), None if bias is None else bias.to(dtype)
        targets, padded = _padded(targets[:, None], pad), _padded(padding, True)
        loss = x.new_zeros((), dtype=exact)
        for rows in _pieces(blocks, _power_of_two(_PROJECTED // len(weight))):
            block = blocks[rows]
            p = F.linear(block, w, b)
            target = _inside(targets[rows], p)
            highest, own = p.amax(-1, keepdim=True).to(exact), p.gather(-1, target).to(exact)
            torch.softmax(p, -1, out=p)
            log_p = own - highest + p.amax(-1, keepdim=True).to(exact).log()  # p of the target itself may be 0
            wanted = smoothing * own - log_p
            loss += wanted.masked_fill_(padded[rows], 0.0).sum()
            p[torch.arange(len(p), device=p.device), target[:, 0]] += smoothing - 1  # scatter_add_ would copy all of p
            if of_x is not None:
                part = of_x[rows]  # fewer at the end
                part.copy_((p @ w)[: len(part)])
            if of_weight is not None:
                of_weight += p.T @ block
            if of_bias is not None:
                of_bias += p.masked_fill_(padded[rows], 0.0).sum(0, dtype=of_bias.dtype)
        loss -= _spread(x, weight, bias, padding, smoothing, pad, gradients)
        if of_x is not None:
            of_x.masked_fill_(padding, 0.0)
        ctx.save_for_backward(*gradients)
        return loss

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        return *(None if it is None else it * upstream for it in ctx.saved_tensors), None, None, None, None


def _spread(
    x: Tensor, weight: Tensor, bias: Tensor | None, padding: Tensor, smoothing: float, pad: int,
    gradients: Sequence[Tensor | None],
) -> Tensor | float:  # fmt: skip
    """Return (s/n) u(y), summed over all rows, and subtract its gradients from `gradients`."""
    if not smoothing:
        return 0.0
    real = torch.arange(len(weight), device=weight.device) != pad
    share, exact = smoothing / int(len(weight) - (pad < len(weight))), torch.promote_types(x.dtype, torch.float32)
    vectors, tokens = x.sum(0, dtype=exact), (~padding).sum(dtype=exact)
    words = weight.sum(0, dtype=exact) - (weight[pad] if pad < len(weight) else 0.0)
    total = (vectors * words).sum()
    if bias is not None:
        total = total + tokens * bias.masked_fill(~real, 0.0).sum(dtype=exact)
    for gradient, value in zip(gradients, (words, vectors, tokens)):
        if gradient is not None:
            gradient -= share * value
    for gradient, value in zip(gradients[1:], (vectors, tokens)):
        if gradient is not None and pad < len(weight):
            gradient[pad] += share * value
    return share * total


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


def _padded(rows: Tensor, value: float) -> Tensor:
    """Append rows with this value, since oneDNN compiles a product for each number of rows."""
    return F.pad(rows, (0, 0, 0, rounded_up(len(rows)) - len(rows)), value=value)


def _power_of_two(most: int) -> int:
    """Return the largest power of two that's at most so large, or 1."""
    return 1 << max(most.bit_length() - 1, 0)


def _pieces(x: Tensor, size: int) -> Iterator[slice]:
    """Yield slices of `size` rows, or of many more on a GPU, which has no cache to stay in but waits for each call."""
    size = max(size if x.device.type == "cpu" else 64 * size, 1)
    return (slice(start, start + size) for start in range(0, len(x), size))


def _inside(targets: Tensor, log_p: Tensor) -> Tensor:
    """Return targets with padding beyond the vocabulary replaced by the last token."""
    return targets.clamp(max=log_p.size(-1) - 1)
