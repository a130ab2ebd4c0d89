"""Table of the parts of a recorded pass, with output shapes, parameter counts and times."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from torch import nn

from ...model.transformer import Decoder, Encoder
from ..record.parts import stacks, sub_layers
from ..record.trace import Trace


@dataclass(frozen=True)
class PartRow:
    """A part of a recorded pass, with the shape of its output and its running time."""

    stack: str
    name: str
    shape: tuple[int, ...]
    parameters: int
    milliseconds: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"shape": list(self.shape)}


def part_rows(model: nn.Module, trace: Trace) -> list[PartRow]:
    """Return the parts of a recorded pass in the order of Figure 1.

    A sub-layer includes everything between its input and its output. A matrix shared by several parts counts for each.
    """
    found = []
    for stack, module in stacks(model).items():
        rows = [row for name in _part_names(stack, module) if (row := _row(trace, stack, name)) is not None]
        learned = sum(p.numel() for p in module.positions.parameters())  # positions have no call of their own
        found += [replace(it, parameters=learned) if it.name == f"{stack}.embedded" else it for it in rows]
    if "head" in trace.parts:
        found += [it for it in [_row(trace, "head", "head")] if it is not None]
    return found


def render_part_rows(rows: list[PartRow]) -> str:
    """Render a table of 80 columns."""
    lines = [f"{'':<32}{'output':<22}{'parameters':>12}{'ms':>10}"]
    before = ""
    for it in rows:
        if it.stack != before and it.name != it.stack:
            lines.append(it.stack)
        before, shape = it.stack, str(it.shape)
        name = it.name.removeprefix(f"{it.stack}.").replace("_", "-")
        number = f"{it.parameters:,}" if it.parameters else ""
        lines.append(f"  {name:<30}{shape:<22}{number:>12}{it.milliseconds:>10.2f}")
    total = sum(it.milliseconds for it in rows)
    return "\n".join([*lines, f"{'':<32}{'total':<22}{'':>12}{total:>10.2f}"])


def _part_names(stack: str, module: Encoder | Decoder) -> Iterator[str]:
    yield from (f"{stack}.embedding", f"{stack}.types", f"{stack}.embedding_norm", f"{stack}.embedded")
    for number, block in enumerate(module.blocks):
        for kind, _, _, add_norm in sub_layers(block):
            yield from (f"{stack}.{number}.{kind}", f"{stack}.{number}.{add_norm}")
    yield from (f"{stack}.norm", f"{stack}.projection", f"{stack}.pointer")


def _row(trace: Trace, stack: str, name: str) -> PartRow | None:
    """Return the row of a part, including everything inside it. For a residual connection, only the norm counts."""
    if name in trace.calls:
        inside = [trace.parts[it][-1] for it in trace.parts if it.startswith(f"{name}.")]
        shape = next((it.output.shape for it in inside if it.name.endswith(".out")), trace.calls[name][-1].output.shape)
        seconds = trace.calls[name][-1].seconds + sum(it.seconds for it in inside)
        return PartRow(stack, name, tuple(shape), sum(it.parameters for it in inside), 1000 * seconds)
    if name not in trace.parts:
        return None
    call = trace.parts[name][-1]
    norm = trace.parts.get(f"{name}.norm")
    seconds = norm[-1].seconds if norm else call.seconds
    return PartRow(stack, name, tuple(call.output.shape), call.parameters, 1000 * seconds)
