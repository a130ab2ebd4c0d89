"""What every attention of a model does, on the queries, keys and values that it had."""

import math
from collections.abc import Callable, Sequence
from copy import copy

import torch
from torch import Tensor

from ...model.attention import Attend, scaled_dot_product_attention
from .attention_seam import Call, Seam, heard, seams
from .check import Bound, Check, Difference, Promise, judge_each, skip
from .rounding import apart, largest
from .subject import Case

FUSED = Promise("open = fused attention", "both paths of every attention give Equation 1 of what it is given")
SUMS = Promise("weights' rows sum to 1", "what a query takes of all keys adds up to 1, or to 0 where it may see none")
TOLD = Promise("weights told = used", "the weights that an attention tells make its output of the values")
ORDER = Promise("keys in any order", "in another order the same keys and values give the same: a ring of them turns")

_NEVER = 2**31  # keys: more than there are
_EACH = 8  # eps of the products in a score, whatever the order of their sum


def fused(case: Case) -> Check:
    """Equation 1 against what each attention gave, and against its two paths."""
    return _tried(
        FUSED,
        case,
        lambda seam: hasattr(seam.attend, "fused_from"),
        "has two paths",
        lambda _, call: _bound(call),
        _paths,
    )


def sums(case: Case) -> Check:
    """With values that are all 1, the output of an attention is the sum of its weights; one query is barred from all
    keys. Where a part tells its weights, they are added up, too."""
    return _tried(SUMS, case, lambda _: True, "", _sum_bound, _sums)


def told(case: Case) -> Check:
    """What each attention gave against its values by the weights that it tells, which is what a view of it shows."""

    def gap(_: Seam, call: Call) -> Difference:
        return Difference(call.by_weights, said="has an output that is not what its weights make of the values")

    return _tried(TOLD, case, lambda seam: seam.tells_weights, "tells its weights", _own_bound, gap)


def order(case: Case) -> Check:
    """Each attention with its keys in another order against what it gave."""

    def turned(seam: Seam, call: Call) -> Difference:
        mixed = torch.randperm(call.k.size(2), generator=torch.Generator().manual_seed(0)).tolist()
        gap = apart(call.in_order(mixed).run(seam.attend), call.run(seam.attend))
        return Difference(gap, said="depends on the order of the keys")

    return _tried(ORDER, case, lambda _: True, "", _own_bound, turned)


def _tried(
    promise: Promise,
    case: Case,
    fits: Callable[[Seam], bool],
    which: str,
    bound: Callable[[Seam, Call], Bound],
    measure: Callable[[Seam, Call], Difference],
) -> Check:
    """A promise of those attentions that it fits, each call of each by itself."""
    there = seams(case.model)
    wanted = [seam for seam in there if fits(seam)]
    if not wanted:
        own = ", ".join(sorted({seam.kind for seam in there}))
        return skip(promise, f"no attention {which} (they are of {own})" if there else "there is no attention")
    calls: list[tuple[Seam, Call]] = []

    def bounds() -> Sequence[Bound]:
        calls.extend(heard(case, wanted))
        return [bound(seam, call) for seam, call in calls]

    def differences() -> Sequence[Difference]:
        found = [(seam, measure(seam, call)) for seam, call in calls]
        return [Difference(it.value, seam.name, seam.kind, it.said) for seam, it in found]

    return judge_each(promise, case.precision, bounds, differences)


def _own_bound(seam: Seam, call: Call) -> Bound:
    return call.bound(seam.attend)


def _sum_bound(_: Seam, call: Call) -> Bound:
    keys, eps = call.k.size(-2), torch.finfo(call.q.dtype).eps
    return Bound((2 * keys + 16) * eps, f"(2 x {keys} + 16) eps: each of {keys} weights is rounded, and each sum")


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
    found = {"an output": call.output}
    for name, start in (("an open path", _NEVER), ("a fused path", 0)):
        part = copy(seam.attend)
        part.fused_from = start  # type: ignore[assignment]
        found[name] = call.run(part)
    ours = type(seam.attend).forward is Attend.forward  # another equation has to agree with itself alone
    expected, what = (_equation(call), "Equation 1") if ours else (found["an open path"], "its open path")
    gaps = {name: apart(it, expected) for name, it in found.items()}
    worst = max(gaps, key=gaps.__getitem__)
    return Difference(gaps[worst], said=f"has {worst} that is not {what}")


def _sums(seam: Seam, call: Call) -> Difference:
    shape = (*call.q.shape[:3], call.k.size(2))
    mask = torch.ones(shape, dtype=torch.bool, device=call.q.device)
    if call.mask is not None:
        mask &= call.mask
    mask[0, :, 0] = False
    expected = mask.any(-1)
    found = [seam.attend(call.q, call.k, torch.ones_like(call.v), mask=mask, bias=call.bias)]
    if seam.tells_weights:
        weights = seam.attend.weights(call.q, call.k, mask=mask, bias=call.bias)  # type: ignore[operator]
        found.append(weights.sum(-1)[..., None])
        if (weights < 0).any() or weights[~mask].any():
            return Difference(math.inf, said="has weights below 0, or where a query may not look")
    gap = max(apart(it, expected[..., None].to(it.dtype).expand(it.shape)) for it in found)
    return Difference(gap, said="has weights that do not add up to 1, or to 0 where nothing may be seen")
