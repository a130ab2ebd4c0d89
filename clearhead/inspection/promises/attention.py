"""What every attention of a model does, on the queries, keys and values that it had."""

import inspect
import math
from copy import copy

import torch
from torch import Tensor

from ...model.attention import scaled_dot_product_attention
from .check import Bound, Check, Difference, Promise, judge_each, skip
from .rounding import apart, largest
from .seams import Call, Seam, listening
from .subject import Case, outputs

FUSED = Promise("open = fused attention", "both paths of every attention give Equation 1 of what it is given")
SUMS = Promise("weights' rows sum to 1", "what a query takes of all keys adds up to 1, or to 0 where it may see none")

_NEVER = 2**31  # keys: more than there are
_EACH = 8  # eps of the products in a score, whatever the order of their sum


def fused(case: Case) -> Check:
    """Equation 1 against what each attention gave, and against its two paths."""
    heard = _heard(case)
    two = [(seam, call) for seam, call in heard if hasattr(seam.attend, "fused_from")]
    if not two:
        own = sorted({type(seam.attend).__name__ for seam, _ in heard})
        return skip(
            FUSED, f"no attention has two paths (they are of {', '.join(own)})" if own else "there is no attention"
        )

    def bounds() -> list[Bound]:
        return [_bound(call) for _, call in two]

    def measure() -> list[Difference]:
        return [_paths(seam, call) for seam, call in two]

    return judge_each(FUSED, case.precision, bounds, measure)


def sums(case: Case) -> Check:
    """With values that are all 1, the output of an attention is the sum of its weights; one query is barred from all
    keys. Where a part tells its weights, they are added up, too."""
    heard = _heard(case)
    if not heard:
        return skip(SUMS, "there is no attention")

    def bounds() -> list[Bound]:
        found = []
        for _, call in heard:
            keys, eps = call.k.size(-2), torch.finfo(call.q.dtype).eps
            found.append(
                Bound(
                    (2 * keys + 16) * eps,
                    f"(2 x {keys} + 16) eps: each of {keys} weights is rounded, and each sum",
                )
            )
        return found

    return judge_each(SUMS, case.precision, bounds, lambda: [_sums(seam, call) for seam, call in heard])


def _heard(case: Case) -> list[tuple[Seam, Call]]:
    with listening(case.model) as found:
        outputs(case.model, case.inputs)
    return [(seam, call) for seam in found for call in seam.calls]


def _bound(call: Call) -> Bound:
    """What rounding does to Equation 1: a score is off by some eps of the products that it is the sum of, a weight by
    the same share of itself, and the output by as much of the largest value, besides the rounding of its own sum."""
    width, keys, eps = call.q.size(-1), call.k.size(-2), torch.finfo(call.q.dtype).eps
    groups = call.q.size(1) // call.k.size(1)
    products = call.q.abs() @ call.k.abs().repeat_interleave(groups, 1).mT / math.sqrt(width)
    score = largest(products) + (0.0 if call.bias is None else largest(call.bias))
    value = largest(call.v)
    reason = f"({_EACH} x {score:.2g} in a score + {keys} keys + 16) eps of {value:.2g}, the largest value"
    return Bound((_EACH * score + keys + 16) * eps * value, reason)


def _equation(call: Call) -> Tensor:
    groups = call.q.size(1) // call.k.size(1)
    k, v = call.k.repeat_interleave(groups, 1), call.v.repeat_interleave(groups, 1)
    return scaled_dot_product_attention(call.q, k, v, mask=call.mask, bias=call.bias)[0]


def _paths(seam: Seam, call: Call) -> Difference:
    expected, found = _equation(call), {"what the model made": call.output}
    for name, start in (("the open path", _NEVER), ("the fused path", 0)):
        part = copy(seam.attend)
        part.fused_from = start  # type: ignore[assignment]
        found[name] = part(call.q, call.k, call.v, mask=call.mask, bias=call.bias)
    gaps = {name: apart(it, expected) for name, it in found.items()}
    worst = max(gaps, key=gaps.__getitem__)
    return Difference(gaps[worst], f"{seam.titled}: {worst} is not Equation 1")


def _sums(seam: Seam, call: Call) -> Difference:
    shape = (*call.q.shape[:3], call.k.size(2))
    mask = torch.ones(shape, dtype=torch.bool, device=call.q.device)
    if call.mask is not None:
        mask &= call.mask
    mask[0, :, 0] = False
    expected = mask.any(-1)
    found = [seam.attend(call.q, call.k, torch.ones_like(call.v), mask=mask, bias=call.bias)]
    weights = getattr(seam.attend, "weights", None)
    if callable(weights):
        options = {"mask": mask} | ({"bias": call.bias} if "bias" in inspect.signature(weights).parameters else {})
        told = weights(call.q, call.k, **options)
        found.append(told.sum(-1)[..., None])
        if (told < 0).any() or told[~mask].any():
            return Difference(float("inf"), f"{seam.titled} has weights below 0, or where a query may not look")
    gap = max(apart(it, expected[..., None].to(it.dtype).expand(it.shape)) for it in found)
    return Difference(gap, f"{seam.titled} has weights that do not add up to 1, or to 0 where nothing may be seen")
