"""Check every attention module of a model on the queries, keys and values that it receives, and the pointer."""

import math
from collections.abc import Callable, Sequence
from copy import copy

import torch
from torch import Tensor

from ...model.attention import Attend, scaled_dot_product_attention
from ...model.transformer import Decoder
from ..record.parts import stacks
from .attention_calls import AttentionPart, Call, attention_parts, recorded_calls
from .check import Bound, Check, Difference, Promise, judge, judge_each, skip
from .rounding import apart, furthest, largest
from .subject import Case, numbered, outputs

FUSED = Promise("open = fused attention", "both paths of every attention module compute Equation 1 of their inputs")
SUMS = Promise("weights' rows sum to 1", "a query's weights sum to 1, or to 0 if it may attend to nothing")
REPORTED = Promise("reported weights = used", "the output of attention is the weights that it reports times the values")
ORDER = Promise("keys in any order", "the order of keys and values doesn't matter, which a ring buffer relies on")

POINTER = Promise("pointer sums to 1", "the pointer's probabilities of all tokens sum to 1 at every position")

_NEVER = 2**31  # more keys than any call has
_PER_SCORE = 8  # error of a score in eps of its summed products, for any order of summation


def check_fused(case: Case) -> Check:
    """Compare each attention module's output and its two paths with Equation 1."""
    return _check(
        FUSED,
        case,
        lambda part: hasattr(part.attend, "fused_from"),
        "has two paths",
        lambda _, call: _equation_bound(call),
        _paths,
    )


def check_sums(case: Case) -> Check:
    """Check the sums of weights, which are the outputs of attention if all values are 1.

    One query may attend to nothing. If a module reports its weights, these are summed too.
    """
    return _check(SUMS, case, lambda _: True, "", _sum_bound, _sums)


def check_reported_weights(case: Case) -> Check:
    """Compare each attention module's output with its reported weights, which the views show, times its values."""

    def gap(_: AttentionPart, call: Call) -> Difference:
        return Difference(call.by_weights, problem="has an output that isn't its weights times the values")

    return _check(REPORTED, case, lambda part: part.reports_weights, "reports its weights", _rounding_bound, gap)


def check_key_order(case: Case) -> Check:
    """Check that each attention module gives the same output with its keys in another order."""

    def reordered(part: AttentionPart, call: Call) -> Difference:
        order = torch.randperm(call.k.size(2), generator=torch.Generator().manual_seed(0)).tolist()
        gap = apart(call.in_order(order).run(part.attend), call.run(part.attend))
        return Difference(gap, problem="depends on the order of the keys")

    return _check(ORDER, case, lambda _: True, "", _rounding_bound, reordered)


def check_pointer(case: Case) -> Check:
    """Check that the pointer's probabilities sum to 1."""
    decoder = stacks(case.model).get("decoder")
    if not isinstance(decoder, Decoder) or decoder.pointer is None:
        return skip(POINTER, "the model has no pointer")

    def log_probabilities() -> list[Tensor]:
        return outputs(case.model, case.inputs)

    def bound() -> Bound:
        found, source = log_probabilities(), case.inputs.source
        assert source is not None
        weights, output = torch.finfo(next(case.model.parameters()).dtype).eps, torch.finfo(found[0].dtype).eps
        most = max(largest(row) for row in found)
        reason = f"(2 x {source.size(1)} keys + 16) eps + {_PER_SCORE} eps x largest log-probability {most:.2g}"
        return Bound((2 * source.size(1) + 16) * weights + _PER_SCORE * most * output, reason)

    def measure() -> Difference:
        sums = [row.double().exp().sum(-1) for row in log_probabilities()]
        return furthest(sums, [torch.ones_like(it) for it in sums], numbered(len(sums)))

    return judge(POINTER, case.precision, bound, measure)


def _check(
    promise: Promise,
    case: Case,
    fits: Callable[[AttentionPart], bool],
    which: str,
    bound: Callable[[AttentionPart, Call], Bound],
    measure: Callable[[AttentionPart, Call], Difference],
) -> Check:
    """Check every call of the attention modules for which `fits` returns True."""
    parts = attention_parts(case.model)
    fitting = [part for part in parts if fits(part)]
    if not fitting:
        kinds = ", ".join(sorted({part.kind for part in parts}))
        return skip(promise, f"no attention {which} (classes: {kinds})" if parts else "the model has no attention")
    calls: list[tuple[AttentionPart, Call]] = []

    def bounds() -> Sequence[Bound]:
        calls.extend(recorded_calls(case, fitting))
        return [bound(part, call) for part, call in calls]

    def differences() -> Sequence[Difference]:
        found = [(part, measure(part, call)) for part, call in calls]
        return [Difference(it.value, part.name, part.kind, it.problem) for part, it in found]

    return judge_each(promise, case.precision, bounds, differences)


def _rounding_bound(part: AttentionPart, call: Call) -> Bound:
    return call.bound(part.attend)


def _sum_bound(_: AttentionPart, call: Call) -> Bound:
    keys, eps = call.k.size(-2), torch.finfo(call.q.dtype).eps
    return Bound((2 * keys + 16) * eps, f"(2 x {keys} keys + 16) eps: each weight is rounded, and so is their sum")


def _equation_bound(call: Call) -> Bound:
    """Return a bound on the effect of rounding on Equation 1.

    A score has an error of a few eps of the products that it sums. A weight has the same relative error, and the output
    has the same error relative to the largest value, plus the rounding of its own sum.
    """
    width, keys, eps = call.q.size(-1), call.k.size(-2), torch.finfo(call.q.dtype).eps
    groups = call.q.size(1) // call.k.size(1)
    products = call.q.abs() @ call.k.abs().repeat_interleave(groups, 1).mT / math.sqrt(width)
    score = largest(products) + (0.0 if call.bias is None else largest(call.bias))
    value = largest(call.v)
    reason = f"({_PER_SCORE} x largest score {score:.2g} + {keys} keys + 16) x eps x largest value {value:.2g}"
    return Bound((_PER_SCORE * score + keys + 16) * eps * value, reason)


def _equation(call: Call) -> Tensor:
    groups = call.q.size(1) // call.k.size(1)
    k, v = call.k.repeat_interleave(groups, 1), call.v.repeat_interleave(groups, 1)
    return scaled_dot_product_attention(call.q, k, v, mask=call.mask, bias=call.bias)[0]


def _paths(part: AttentionPart, call: Call) -> Difference:
    found = {"an output": call.output}
    for name, start in (("an open path", _NEVER), ("a fused path", 0)):
        attend = copy(part.attend)
        attend.fused_from = start  # type: ignore[assignment]
        found[name] = call.run(attend)
    ours = type(part.attend).forward is Attend.forward  # custom equations only need two equal paths
    expected, what = (_equation(call), "Equation 1") if ours else (found["an open path"], "its open path")
    gaps = {name: apart(it, expected) for name, it in found.items()}
    worst = max(gaps, key=gaps.__getitem__)
    return Difference(gaps[worst], problem=f"has {worst} that isn't {what}")


def _sums(part: AttentionPart, call: Call) -> Difference:
    shape = (*call.q.shape[:3], call.k.size(2))
    mask = torch.ones(shape, dtype=torch.bool, device=call.q.device)
    if call.mask is not None:
        mask &= call.mask
    mask[0, :, 0] = False
    expected = mask.any(-1)
    found = [part.attend(call.q, call.k, torch.ones_like(call.v), mask=mask, bias=call.bias)]
    if part.reports_weights:
        weights = part.attend.weights(call.q, call.k, mask=mask, bias=call.bias)  # type: ignore[operator]
        found.append(weights.sum(-1)[..., None])
        if (weights < 0).any() or weights[~mask].any():
            return Difference(math.inf, problem="has negative weights, or weights for masked keys")
    gap = max(apart(it, expected[..., None].to(it.dtype).expand(it.shape)) for it in found)
    return Difference(gap, problem="has weights that don't sum to 1, or to 0 if everything is masked")
