"""Check that recording a model or saving it changes nothing."""

import tempfile
from dataclasses import replace
from pathlib import Path

from torch import Tensor, nn

from ..record.recorder import record
from ..record.uncompiled import compiled_parts, uncompiled, unwrapped_name
from .check import EXACT, Bound, Check, Difference, Promise, judge, skip
from .rounding import furthest
from .subject import Case, numbered, outputs

RECORDED = Promise("recorded = unrecorded", "recording doesn't change a bit of the outputs, and no hooks remain")
SAVED = Promise("saved = loaded", "saved and reloaded weights are the same, and so are the outputs")


def check_recording(case: Case) -> Check:
    """Compare outputs before, during and after recording, and check that no hooks remain.

    Compiled parts are recorded uncompiled, so their outputs may differ by rounding.
    """
    model, names, compiled = case.model, numbered(len(case.inputs)), compiled_parts(case.model)

    def bound() -> Bound:
        if not compiled:
            return EXACT
        found = case.bound(lambda model: outputs(model, case.inputs))
        return replace(found, reason=f"{found.reason}; compiled: {', '.join(it.name for it in compiled)}")

    def measure() -> Difference:
        hooks, before = _hooks(model), outputs(model, case.inputs)
        with record(model):
            during = outputs(model, case.inputs)
        if remaining := {name for name, these in _hooks(model).items() if these != hooks.get(name)}:
            return Difference(float("inf"), f"hooks remain on {', '.join(sorted(remaining))}")
        after = outputs(model, case.inputs)
        found = [furthest(some, before, names) for some in (during, after)]
        return max(found, key=lambda it: it.value)

    return judge(RECORDED, case.precision, bound, measure)


def check_saving(case: Case) -> Check:
    """Compare every weight and output with those of the model reloaded from a temporary folder."""
    reload = case.subject.reload
    if reload is None:
        return skip(SAVED, "no way to save the model is given")

    def measure() -> Difference:
        with tempfile.TemporaryDirectory(prefix="clearhead-verify-") as folder:
            loaded = reload(case.model, Path(folder) / "model").to(case.device).eval()
        own, found = _tensors(case.model), _tensors(loaded)
        if missing := own.keys() ^ found.keys():
            return Difference(float("inf"), f"only in one of the two models: {', '.join(sorted(missing))}")
        if other := [name for name in own if own[name].dtype != found[name].dtype]:
            return Difference(float("inf"), f"in another precision: {', '.join(other)}")
        weights = furthest([found[name] for name in own], list(own.values()), list(own))
        with uncompiled(case.model):
            own_outputs = outputs(case.model, case.inputs)
        after = furthest(outputs(loaded, case.inputs), own_outputs, numbered(len(case.inputs)))
        return weights if weights.value > 0 else after

    return judge(SAVED, case.precision, lambda: EXACT, measure)


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    """Return parameters and buffers, including buffers that aren't saved."""
    every = (*model.named_parameters(), *model.named_buffers())
    return {unwrapped_name(name): it.detach() for name, it in every}


def _hooks(model: nn.Module) -> dict[str, list[int]]:
    """Return the ids of all functions that run before, after or instead of each module."""
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    found = {}
    for name, module in model.named_modules():
        hooks = [hook for kind in kinds for hook in getattr(module, kind).values()]
        found[name or "the model"] = [*map(id, hooks), id(vars(module).get("forward")), id(type(module).forward)]
    return found
