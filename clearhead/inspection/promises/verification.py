"""Run all checks on a subject, and find the parts at fault."""

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import torch

from ...model.transformer import evaluation
from . import (
    attention_checks,
    batch_checks,
    decoding_checks,
    front_checks,
    gradient_checks,
    recording_checks,
    window_checks,
)
from .check import Check, Promise, Verification
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
from .subject import Case, Subject, reads_tokens

_ALONE = (TOKENS, ROWS)
_DECODING = (CACHE, CAUSALITY, PADDING, PERMUTATION, POSITIONS, *_ALONE)
_RELEVANT: dict[Promise, tuple[str, ...]] = {
    batch_checks.FUTURE: (CAUSALITY, *_ALONE),
    batch_checks.MASKED: (PADDING, *_ALONE),
    batch_checks.PADDED: (PADDING, PERMUTATION, POSITIONS, *_ALONE),
    batch_checks.BATCHED: (PADDING, POSITIONS, *_ALONE),
    decoding_checks.CACHED: _DECODING,
    decoding_checks.ENGINE: _DECODING,
    window_checks.WINDOW: _DECODING,
    decoding_checks.BEAM: (CACHE, CAUSALITY, PERMUTATION, POSITIONS, *_ALONE),
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
    first = next(subject.model.parameters())
    with evaluation(subject.model), torch.no_grad():
        sharp = Case(subject, torch.float64, torch.device("cpu"))
        used = sharp if first.dtype == torch.float64 else None
        checks = [*_in_each_precision(sharp), *front_checks.check_front(sharp), gradient_checks.check_gradients(sharp)]
        faults = find_faults(sharp) if _broken(checks) else []
        checks = _with_parts(checks, faults)
        del sharp  # to free its copies of the weights
        if used is None:
            used = Case(subject, first.dtype, first.device)
            again = [*_in_each_precision(used)]
            if _broken(again) - _broken(checks):  # float64 didn't show it
                faults += [it for it in find_faults(used) if it.part not in kinds_by_part(faults)]
            checks = _explained_by_rounding(checks, again) + _with_parts(again, faults, _broken(checks))
        checks += [recording_checks.check_recording(used), recording_checks.check_saving(used)]
    if not reads_tokens(subject.model):  # then many checks don't apply
        checks = [check for check in checks if check.status != "skipped"]
    return Verification(tuple(_grouped(checks)), subject.texts, time.perf_counter() - started, kinds_by_part(faults))


def _in_each_precision(case: Case) -> Iterator[Check]:
    yield attention_checks.check_fused(case)
    yield attention_checks.check_sums(case)
    yield attention_checks.check_reported_weights(case)
    yield attention_checks.check_key_order(case)
    yield attention_checks.check_pointer(case)
    yield decoding_checks.check_cache(case)
    yield batch_checks.check_batch(case)
    yield batch_checks.check_padding(case)
    yield batch_checks.check_future(case)
    yield batch_checks.check_masked(case)
    for name, open_engine in case.engines.items():
        yield decoding_checks.check_engine(case, name, open_engine)
    yield decoding_checks.check_engines(case)
    yield from window_checks.check_windows(case)
    yield decoding_checks.check_search(case)


def _broken(checks: Sequence[Check]) -> set[str]:
    """Return the names of failed checks that a single part can cause to fail."""
    promises = {promise.name for promise in (*_RELEVANT, attention_checks.ORDER)}
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
