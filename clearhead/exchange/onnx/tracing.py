"""Trace a graph with torch's exporter, which turns it into an ONNX model."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import nn

from ...errors import ModelError
from ...model.attention import Attend
from .graphs import Graph

if TYPE_CHECKING:
    from onnx import ModelProto

_SIZES = {  # distinct, and none is 1, which torch would take as fixed
    "batch": 3, "source": 5, "positions": 6, "past": 7, "tokens": 4, "samples": 16_001,
}  # fmt: skip
_NEVER = 2**62  # more keys than any text has


def trace(graph: Graph, *, window: int | None = None) -> "ModelProto":
    """Return a graph as an ONNX model.

    Args:
        graph: the graph, on the CPU and in evaluation mode.
        window: the number of latest tokens that a token attends to. Tracing takes one branch of each condition, and
            the branch for more tokens than the window is right for fewer, too.

    Raises:
        ModelError: torch can't export a part of the model.
    """
    sizes = _SIZES | {"past": _SIZES["past"] + (window or 0)}
    inputs = tuple(
        torch.zeros([sizes[n] if isinstance(n, str) else n for n in port.shape], dtype=port.dtype)
        for port in graph.inputs
    )
    any_size = torch.export.Dim.DYNAMIC
    axes = tuple({i: any_size for i, n in enumerate(port.shape) if isinstance(n, str)} for port in graph.inputs)
    from onnxscript.optimizer import optimize_ir

    module = nn.Module()
    module.model, module.forward = graph.model, lambda *given: graph.run(*given)
    try:
        with quiet(), _written_out(graph.model), torch.no_grad():
            traced = torch.export.export(module, inputs, dynamic_shapes=(axes,), strict=False)
            program = torch.onnx.export(
                traced,
                inputs,
                input_names=[port.name for port in graph.inputs],
                output_names=[port.name for port in graph.outputs],
                dynamo=True,
                verbose=False,
                optimize=False,
            )
            assert program is not None
            optimize_ir(program.model, should_fold=lambda node: False if node.op_type == "Transpose" else None)
    except Exception as error:  # the exporter raises errors of many types
        part = _part(graph.model, error)
        raise ModelError(
            f"torch can't export {part} to ONNX: {str(error).splitlines()[0] if str(error) else type(error).__name__}",
            fix="use a model without it",
            name=part,
        ) from error
    found = program.model_proto
    _name_axes(found, graph)
    _drop_notes(found)
    return found


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the warnings and log messages of other programs' exporters from the user."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


@contextmanager
def _written_out(module: nn.Module) -> Iterator[None]:
    """Compute attention by Equation 1 at any length: a graph can't choose between two ways."""
    ways = {part: part.fused_from for part in module.modules() if isinstance(part, Attend)}
    for part in ways:
        part.fused_from = _NEVER
    try:
        yield
    finally:
        for part, fused_from in ways.items():
            part.fused_from = fused_from


def _part(module: nn.Module, error: BaseException) -> str:
    """Return the class of the innermost part of the model that was running when an error was raised."""
    found, step = type(module).__name__, error.__traceback__
    while step is not None:
        running = step.tb_frame.f_locals.get("self")
        if isinstance(running, nn.Module) and not type(running).__module__.startswith("torch."):
            found = type(running).__name__
        step = step.tb_next
    return found


def _name_axes(model: "ModelProto", graph: Graph) -> None:
    """Give the axes of inputs and outputs the names in the graph's ports, instead of torch's."""
    for ports, values in ((graph.inputs, model.graph.input), (graph.outputs, model.graph.output)):
        for port, value in zip(ports, values, strict=True):
            assert port.name == value.name
            for size, axis in zip(port.shape, value.type.tensor_type.shape.dim, strict=True):
                if isinstance(size, str):
                    axis.dim_param = size
                else:
                    axis.dim_value = size
    del model.graph.value_info[:]  # shapes in between, in torch's names


def _drop_notes(model: "ModelProto") -> None:
    """Drop what torch notes about its own code, such as paths on this machine. It can be larger than the model."""
    for part in (model, model.graph, *model.graph.node, *model.graph.initializer):
        del part.metadata_props[:]
        part.doc_string = ""
