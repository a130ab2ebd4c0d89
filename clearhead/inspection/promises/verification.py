"""All promises of a subject, one by one; and where one is broken, the parts that break it."""

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import torch

from ...model.transformer import evaluation
from . import attending, batching, decoding, gradients, recording
from .check import Check, Promise, Verification
from .subject import Case, Subject
from .suspects import CACHE, CAUSALITY, PADDING, PERMUTATION, PLACES, ROWS, TOKENS, Suspect, by_part, suspects, told

_ALONE = (TOKENS, ROWS)
_RELEVANT: dict[Promise, tuple[str, ...]] = {
    batching.FUTURE: (CAUSALITY, *_ALONE),
    batching.HIDDEN: (PADDING, *_ALONE),
    batching.PADDED: (PADDING, PERMUTATION, PLACES, *_ALONE),
    batching.BATCHED: (PADDING, PLACES, *_ALONE),
    decoding.CACHED: (CACHE, CAUSALITY, PADDING, PERMUTATION, PLACES, *_ALONE),
    decoding.ENGINE: (CACHE, CAUSALITY, PADDING, PERMUTATION, PLACES, *_ALONE),
    decoding.BEAM: (CACHE, CAUSALITY, PERMUTATION, PLACES, *_ALONE),
}
_NONE_ALONE = (
    "no attention, positions, norm or feed-forward network breaks it alone, but what joins them: masks, the cache"
)
_AS_MUCH = "as much is rounding in {}: does a part compute in that, whatever it is given?"


def verify(subject: Subject) -> Verification:
    """Try every promise: in float64, where bounds are narrow, and in the precision and on the device of the model.

    The model is in evaluation mode meanwhile, and afterwards as it was.
    """
    begun = time.perf_counter()
    first = next(subject.model.parameters())
    with evaluation(subject.model), torch.no_grad():
        sharp = Case(subject, torch.float64, torch.device("cpu"))
        used = sharp if first.dtype == torch.float64 else None
        checks = [*_both(sharp), gradients.slopes(sharp)]
        found = suspects(sharp) if _broken(checks) else []
        checks = _named(checks, found)
        del sharp  # with its copies of the weights
        if used is None:
            used = Case(subject, first.dtype, first.device)
            again = [*_both(used)]
            if _broken(again) - _broken(checks):  # what float64 does not show
                found += [it for it in suspects(used) if it.part not in by_part(found)]
            checks = _within_rounding(checks, again) + _named(again, found, _broken(checks))
        checks += [recording.recorded(used), recording.saved(used)]
    return Verification(tuple(_in_order(checks)), subject.texts, time.perf_counter() - begun, by_part(found))


def _both(case: Case) -> Iterator[Check]:
    """What is tried in every precision."""
    yield attending.fused(case)
    yield attending.sums(case)
    yield attending.told(case)
    yield attending.order(case)
    yield decoding.cached(case)
    yield batching.batched(case)
    yield batching.padded(case)
    yield batching.future(case)
    yield batching.hidden(case)
    for name, make in case.subject.engines.items():
        yield decoding.engine(case, name, make)
    yield decoding.engines(case)
    yield decoding.beam(case)


def _broken(checks: Sequence[Check]) -> set[str]:
    """The promises that are broken, of those that a part alone may break."""
    may_be = {promise.name for promise in (*_RELEVANT, attending.ORDER)}
    return {check.name for check in checks if check.status == "failed"} & may_be


def _named(checks: Sequence[Check], found: Sequence[Suspect], besides: Collection[str] = ()) -> list[Check]:
    """The checks, and of those that failed the parts that break the promise, but `besides` those that said so."""
    relevant = {promise.name: kinds for promise, kinds in _RELEVANT.items() if promise.name not in besides}
    named = []
    for check in checks:
        if check.status == "failed" and check.name in relevant:
            parts = told(found, relevant[check.name]) or _NONE_ALONE
            check = replace(check, detail="; ".join(filter(None, (check.detail, parts))))
        named.append(check)
    return named


def _within_rounding(sharp: Sequence[Check], used: Sequence[Check]) -> list[Check]:
    """The checks in float64, of which some failed by no more than the precision in use may round."""
    passed = {check.name: check for check in used if check.status == "passed"}
    found = []
    for check in sharp:
        beside = passed.get(check.name)
        if check.status == "failed" and beside is not None:
            difference, bound = check.difference, beside.bound
            if difference is not None and bound is not None and difference <= bound:
                check = replace(check, detail=f"{check.detail}; {_AS_MUCH.format(beside.precision)}")
        found.append(check)
    return found


def _in_order(checks: Sequence[Check]) -> list[Check]:
    """Those of one promise together, and what was skipped in both precisions once."""
    names = dict.fromkeys(check.name for check in checks)
    return list(dict.fromkeys(check for name in names for check in checks if check.name == name))
