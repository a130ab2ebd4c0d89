"""Run all checks on a subject, and find the parts at fault."""

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import torch

from ...model.transformer import evaluation
from .check import Check, Promise, Verification
from .decoding_checks import BEAM, CACHED, ENGINE, ENGINES, WINDOW
from .diagnosis import (
    CACHE,
    CAUSALITY,
    PADDING,
    PERMUTATION,
    POSITIONS,
    ROWS,
    TOKENS,
    Fault,
    describe,
    find_faults,
    kinds_by_part,
)
from .gradient_checks import GRADIENTS
from .output_checks import BATCHED, FUTURE, MASKED, PADDED, RECORDED, REPEATED, SAVED
from .part_checks import FRONT, FUSED, ORDER, POINTER, REPORTED, SUMS
from .subject import Case, Subject, reads_tokens

_ALONE = (TOKENS, ROWS)
_DECODING = (CACHE, CAUSALITY, PADDING, PERMUTATION, POSITIONS, *_ALONE)
_RELEVANT: dict[Promise, tuple[str, ...]] = {
    FUTURE: (CAUSALITY, *_ALONE),
    MASKED: (PADDING, *_ALONE),
    PADDED: (PADDING, PERMUTATION, POSITIONS, *_ALONE),
    BATCHED: (PADDING, POSITIONS, *_ALONE),
    CACHED: _DECODING,
    ENGINE: _DECODING,
    WINDOW: _DECODING,
    BEAM: (CACHE, CAUSALITY, PERMUTATION, POSITIONS, *_ALONE),
}
_NO_PART_ALONE = (
    "no attention, position scheme, norm or feed-forward network breaks it alone, so check the code between them, "
    "such as the masks and the cache"
)
_ROUNDING = "in {}, rounding alone can be this large; check whether a part computes in that precision for any input"


def verify(subject: Subject) -> Verification:
    """Run every check in float64, where bounds are tight, and in the model's own precision on its own device.

    The model is switched to evaluation mode, then back to its previous mode.
    """
    started = time.perf_counter()
    first, tokens = next(subject.model.parameters()), reads_tokens(subject.model)
    with evaluation(subject.model), torch.no_grad():
        sharp = Case(subject, torch.float64, torch.device("cpu"))
        used = sharp if first.dtype == torch.float64 else None
        once = (GRADIENTS,) if tokens else (REPEATED, FRONT, GRADIENTS)
        checks = [*_in_each_precision(sharp), *(promise.check(sharp) for promise in once)]
        faults = find_faults(sharp) if _broken(checks) else []
        checks = _with_parts(checks, faults)
        del sharp  # to free its copies of the weights
        if used is None:
            used = Case(subject, first.dtype, first.device)
            again = [*_in_each_precision(used)]
            if _broken(again) - _broken(checks):  # float64 didn't show it
                faults += [it for it in find_faults(used) if it.part not in kinds_by_part(faults)]
            checks = _explained_by_rounding(checks, again) + _with_parts(again, faults, _broken(checks))
        checks += [RECORDED.check(used), SAVED.check(used)]
    if not tokens:  # then many checks don't apply
        checks = [check for check in checks if check.status != "skipped"]
    return Verification(tuple(_grouped(checks)), subject.texts, time.perf_counter() - started, kinds_by_part(faults))


def _in_each_precision(case: Case) -> Iterator[Check]:
    for promise in (FUSED, SUMS, REPORTED, ORDER, POINTER, CACHED, BATCHED, PADDED, FUTURE, MASKED):
        yield promise.check(case)
    for engine in case.engines:
        yield ENGINE.check(case, engine)
    yield ENGINES.check(case)
    for engine in case.engines or ("",):
        yield WINDOW.check(case, engine)
    yield BEAM.check(case)


def _broken(checks: Sequence[Check]) -> set[str]:
    """Return the names of failed checks that a single part can cause to fail."""
    promises = {promise.name for promise in (*_RELEVANT, ORDER)}
    return {check.name for check in checks if check.status == "failed"} & promises


def _with_parts(checks: Sequence[Check], faults: Sequence[Fault], already: Collection[str] = ()) -> list[Check]:
    """Add the parts at fault to the details of failed checks, except for checks named in `already`."""
    relevant = {promise.name: kinds for promise, kinds in _RELEVANT.items() if promise.name not in already}
    found = []
    for check in checks:
        if check.status == "failed" and check.name in relevant:
            parts = describe(faults, relevant[check.name]) or _NO_PART_ALONE
            check = replace(check, detail="; ".join(filter(None, (check.detail, parts))))
        found.append(check)
    return found


def _explained_by_rounding(sharp: Sequence[Check], used: Sequence[Check]) -> list[Check]:
    """Add a remark to float64 failures that are within the bound of the model's own precision."""
    passed = {check.name: check for check in used if check.status == "passed"}
    found = []
    for check in sharp:
        same = passed.get(check.name)
        if check.status == "failed" and same is not None:
            difference, bound = check.difference, same.bound
            if difference is not None and bound is not None and difference <= bound:
                check = replace(check, detail=f"{check.detail}; {_ROUNDING.format(same.precision)}")
        found.append(check)
    return found


def _grouped(checks: Sequence[Check]) -> list[Check]:
    """Group checks by name. One that was skipped in both precisions appears only once."""
    names = dict.fromkeys(check.name for check in checks)
    return list(dict.fromkeys(check for name in names for check in checks if check.name == name))
