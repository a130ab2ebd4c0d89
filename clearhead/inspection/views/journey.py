"""The way of a text through a model, part by part: what came out, in which shape, by how many parameters, how fast."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from torch import nn

from ...model.transformer import Decoder, Encoder
from ..record.parts import stacks
from ..record.trace import Trace


@dataclass(frozen=True)
class Stop:
    """A part on the way: the shape of its output, its parameters and the milliseconds that it took in this pass."""

    stack: str
    name: str
    shape: tuple[int, ...]
    parameters: int
    milliseconds: float


def journey(model: nn.Module, trace: Trace) -> list[Stop]:
    """The parts of a recorded pass in order; a sub-layer is everything between its input and its output. A matrix that
    several parts share is counted with each."""
    found = []
    for stack, module in stacks(model).items():
        found += [stop for name in _parts(stack, module) if (stop := _stop(trace, stack, name)) is not None]
        learned = sum(p.numel() for p in module.positions.parameters())  # no part is called for them
        found = [replace(it, parameters=learned) if it.name == f"{stack}.embedded" else it for it in found]
    if "head" in trace.parts:
        found += [it for it in [_stop(trace, "head", "head")] if it is not None]
    return found


def render_journey(stops: list[Stop]) -> str:
    """A table for people, in 80 columns."""
    lines = [f"{'':<32}{'output':<22}{'parameters':>12}{'ms':>10}"]
    before = ""
    for it in stops:
        if it.stack != before and it.name != it.stack:
            lines.append(it.stack)
        before, shape = it.stack, str(it.shape)
        name = it.name.removeprefix(f"{it.stack}.").replace("_", "-")
        number = f"{it.parameters:,}" if it.parameters else ""
        lines.append(f"  {name:<30}{shape:<22}{number:>12}{it.milliseconds:>10.2f}")
    total = sum(it.milliseconds for it in stops)
    return "\n".join([*lines, f"{'':<32}{'all of it':<22}{'':>12}{total:>10.2f}"])


def to_dicts(stops: list[Stop]) -> list[dict[str, Any]]:
    """Plain values for JSON."""
    return [asdict(it) | {"shape": list(it.shape)} for it in stops]


def _parts(stack: str, module: Encoder | Decoder) -> Iterator[str]:
    """The names in the order of Figure 1."""
    yield from (f"{stack}.embedding", f"{stack}.types", f"{stack}.embedded")
    inside: tuple[str, ...] = ("self", "add_norm_1", "cross", "add_norm_2", "feed_forward", "add_norm_3")
    if isinstance(module, Encoder):
        inside = ("self", "add_norm_1", "feed_forward", "add_norm_2")
    for number in range(len(module.blocks)):
        yield from (f"{stack}.{number}.{it}" for it in inside)
    yield from (f"{stack}.norm", f"{stack}.projection", f"{stack}.pointer")


def _stop(trace: Trace, stack: str, name: str) -> Stop | None:
    """A part with all that is inside it; of what stands around a sub-layer only its norm."""
    if name in trace.calls:
        inside = [trace.parts[it][-1] for it in trace.parts if it.startswith(f"{name}.")]
        shape = next((it.output.shape for it in inside if it.name.endswith(".out")), trace.calls[name][-1].output.shape)
        seconds = trace.calls[name][-1].seconds + sum(it.seconds for it in inside)
        return Stop(stack, name, tuple(shape), sum(it.parameters for it in inside), 1000 * seconds)
    if name not in trace.parts:
        return None
    call = trace.parts[name][-1]
    norm = trace.parts.get(f"{name}.norm")
    seconds = norm[-1].seconds if norm else call.seconds
    return Stop(stack, name, tuple(call.output.shape), call.parameters, 1000 * seconds)
