"""The parts of a model for the page: shapes, times, source code, the first values, and the attention."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from ..record.calls import AttentionCall
from ..record.parts import named_parts, stacks, sub_layers
from ..record.trace import Trace
from ..views.explanation import Explanation
from ..views.head_grid import heads_of
from ..views.part_table import part_rows
from .arrays import bits_array, bytes_array, float_array, weights_array
from .part_equations import part_equation

_VALUES = 8  # of a token's vector


def part_data(explanation: Explanation) -> list[dict[str, Any]]:
    """Return the parts in the order of computation, each with the first values of every position before and after."""
    found = part_facts(explanation.model, explanation.trace)
    return [it | _first_values(explanation, it["name"]) for it in found]


def part_facts(model: nn.Module, trace: Trace) -> list[dict[str, Any]]:
    """Return the parts in the order of computation: shapes, parameters, times, equations and source code."""
    modules, found = dict(named_parts(model)), []
    for row in part_rows(model, trace):
        part = _module(model, row.name, modules)
        about = {
            "class": type(part).__name__,
            "code": "" if part is None else _source(part),
            "equation": part_equation(model, row.name, part),
        }
        found.append(row.to_dict() | about)
    return found


def _module(model: nn.Module, name: str, modules: Mapping[str, nn.Module]) -> nn.Module | None:
    """Return the module of a part. An attention's name is that of its `attend`; its own module projects the heads."""
    stack, *place = name.split(".")
    if len(place) == 2 and place[1] in ("self", "cross"):
        block = stacks(model)[stack].blocks[int(place[0])]
        return next(part for kind, part, _, _ in sub_layers(block) if kind == place[1])
    return modules.get(name)


def _source(part: nn.Module) -> str:
    try:
        return inspect.cleandoc("\n" + inspect.getsource(type(part).forward))
    except (OSError, TypeError):
        return ""


def _first_values(explanation: Explanation, name: str) -> dict[str, Any]:
    """Return the first numbers of each position's vector before and after a part, and the shape before it."""
    trace = explanation.trace
    last = next((it for it in (f"{name}.out", name) if it in trace.parts), None)
    if last is None:
        return {"values": [], "inputs": []}
    first = trace.parts.get(f"{name}.qkv") or trace.parts.get(f"{name}.q") or trace.parts.get(name)
    given = first[-1].inputs if first else ()
    read = given[0] if given and isinstance(given[0], Tensor) and given[0].is_floating_point() else None
    return {
        "values": _rows(trace[last].output[0]),
        "inputs": [] if read is None else _rows(read[0]),
        "input_shape": [] if read is None else list(read.shape),
    }


def _rows(x: Tensor) -> list[list[float]]:
    return [[float(f"{value:.4g}") for value in row] for row in x.reshape(-1, x.size(-1))[:, :_VALUES].tolist()]


def attention_data(explanation: Explanation, leave_out: Callable[[str, str], None]) -> dict[str, Any]:
    """Return the weights of each attention module, and what made its scores."""
    modules = {}
    for name, calls in explanation.trace.calls.items():
        call = calls[-1]
        if call.known_weights is None:
            leave_out(name, f"{call.kind} doesn't report its weights")
            continue
        weights = call.weights.values[0]
        modules[name] = {
            "weights": weights_array(weights.numpy(force=True)),
            "entropy": [round(it.entropy, 6) for it in heads_of(call.weights.select(row=0))],
            **_scores(call),
        }
    return modules


def _scores(call: AttentionCall) -> dict[str, Any]:
    """Return what made the scores of Equation 1: queries, keys, the mask, and the logarithm of each row's sum."""
    if call.kind != "Attend":
        return {}
    scores = call.masked_scores[0].double()
    sums = scores.logsumexp(-1)
    given = {"lse": float_array(sums.numpy(force=True)), "q": bytes_array(call.q[0].float().numpy(force=True))}
    given["k"] = bytes_array(call.k[0].float().numpy(force=True))
    if call.mask is not None:
        whole = (*call.q.shape[:3], call.k.size(2))
        given["mask"] = bits_array(call.mask.expand(whole)[0, 0].numpy(force=True))
    return given
