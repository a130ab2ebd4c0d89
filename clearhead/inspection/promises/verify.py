"""All promises of a subject, one by one; and where one is broken, the parts that break it."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from ...model.transformer import evaluation
from . import attention, company, decoding, gradients, keeping
from .check import Check, Promise, Verification
from .subject import Case, Subject
from .suspects import suspects

_RELEVANT: dict[Promise, tuple[str, ...]] = {
    company.FUTURE: ("causality",),
    company.HIDDEN: ("padding",),
    company.PADDED: ("padding", "order", "company"),
    company.BATCHED: ("padding", "company"),
    decoding.CACHED: ("cache", "causality", "padding", "order", "company"),
    decoding.ENGINE: ("cache", "causality", "padding", "order", "company"),
    decoding.BEAM: ("cache", "causality", "order", "company"),
}
_NONE_ALONE = "no attention, norm or feed-forward network breaks it alone, but what joins them: masks, positions, cache"


def verify(subject: Subject) -> Verification:
    """Try every promise: in float64, where bounds are narrow, and in the precision and on the device of the model.

    The model is in evaluation mode meanwhile, and afterwards as it was.
    """
    begun = time.perf_counter()
    first = next(subject.model.parameters())
    with evaluation(subject.model), torch.no_grad():
        sharp = Case(subject, torch.float64, torch.device("cpu"))
        used = sharp if first.dtype == torch.float64 else None
        checks = _named(sharp, [*_both(sharp), gradients.slopes(sharp)])
        del sharp  # with its copies of the weights
        if used is None:
            used = Case(subject, first.dtype, first.device)
            checks += _named(used, [*_both(used)])
        checks += [keeping.recorded(used), keeping.saved(used)]
    return Verification(tuple(_in_order(checks)), subject.texts, time.perf_counter() - begun)


def _both(case: Case) -> Iterator[Check]:
    """What is tried in every precision."""
    yield attention.fused(case)
    yield attention.sums(case)
    yield decoding.cached(case)
    yield company.batched(case)
    yield company.padded(case)
    yield company.future(case)
    yield company.hidden(case)
    for name, make in case.subject.engines.items():
        yield decoding.engine(case, name, make)
    yield decoding.engines(case)
    yield decoding.beam(case)


def _named(case: Case, checks: Sequence[Check]) -> list[Check]:
    """The checks, and of those that failed the parts that break the promise."""
    relevant = {promise.name: kinds for promise, kinds in _RELEVANT.items()}
    if not any(check.status == "failed" and check.name in relevant for check in checks):
        return list(checks)
    found, named = suspects(case), []
    for check in checks:
        if check.status == "failed" and check.name in relevant:
            said = [it for kind in relevant[check.name] for it in found.get(kind, ())]
            detail = "; ".join([*filter(None, [check.detail]), *(said or [_NONE_ALONE])])
            check = replace(check, detail=detail)
        named.append(check)
    return named


def _in_order(checks: Sequence[Check]) -> list[Check]:
    """Those of one promise together, and what was skipped in both precisions once."""
    names = dict.fromkeys(check.name for check in checks)
    return list(dict.fromkeys(check for name in names for check in checks if check.name == name))
