"""Write a model as a folder of ONNX models, with what a program needs to use them."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import ConfigError
from ...folder.atomic import write_folder
from ...loading.loaded import LoadedModel

if TYPE_CHECKING:
    from .graphs import Graph, Port

DESCRIPTION = "model.json"
FORMAT_VERSION = 1


def export(loaded: LoadedModel, out: Path, *, precision: str = "fp32") -> None:
    """Write the ONNX models, their weights, the tokenizers and model.json to the folder `out`.

    Args:
        loaded: the model, on the CPU.
        out: a folder that's new or empty.
        precision: fp32, or int8 for matrices of 8 bits.

    Raises:
        ConfigError: a program that exporting needs isn't installed.
        ModelError: a part of the model can't be exported.
    """
    _expect_programs(precision)
    write_folder(out, list(_files(loaded, precision)))


def _files(loaded: LoadedModel, precision: str) -> Iterator[tuple[str, bytes]]:
    from .folding import fold_transposes
    from .graphs import graphs
    from .tracing import trace
    from .weights_file import WEIGHTS, WeightsFile

    config, weights = loaded.config.model, WeightsFile()
    found = graphs(loaded.model, config)
    for graph in found:
        model = trace(graph, window=config.window)
        fold_transposes(model, shared=precision == "int8")  # the quantiser needs stored matrices
        if precision == "int8":
            from .quantized import quantized

            model = quantized(model)
        weights.move(model)
        yield f"{graph.name}.onnx", model.SerializeToString()
    yield WEIGHTS, bytes(weights.content)
    tokenizers = loaded.tokenizer_files()
    yield from ((name, text.encode()) for name, text in tokenizers.items())
    described = _description(loaded, found, precision, list(tokenizers))
    yield DESCRIPTION, (json.dumps(described, indent=2, ensure_ascii=False) + "\n").encode()


def _description(loaded: LoadedModel, found: "list[Graph]", precision: str, tokenizers: list[str]) -> dict[str, Any]:
    config, model = loaded.config, loaded.config.model
    values: dict[str, Any] = {
        "format_version": FORMAT_VERSION,
        "task": loaded.task.verb,
        "topology": model.topology,
        "precision": precision,
        "graphs": {
            it.name: {
                "file": f"{it.name}.onnx",
                "inputs": [_port(port) for port in it.inputs],
                "outputs": [_port(port) for port in it.outputs],
            }
            for it in found
        },
        "special_ids": asdict(model.special),
        "begins_with_bos": model.begins,
        "max_len": model.max_len,
        "positions": model.positions,
    }
    if tokenizers:
        values["tokenizers"] = {"source": tokenizers[0], "target": tokenizers[-1]}
    if model.topology != "encoder-only":
        suppressed = loaded.tokenizers.target.suppressed(config.decode)
        values["decode"] = {"suppress": suppressed, "max_extra": config.decode.max_extra}
    if model.head == "class":
        values["labels"] = list(config.data.labels)
    front = {"patches": ("image_size", "image_channels"), "frames": ("sample_rate",)}.get(model.front, ())
    return values | {name: getattr(model, name) for name in front}


def _port(port: "Port") -> dict[str, Any]:
    return {"name": port.name, "type": str(port.dtype).removeprefix("torch."), "shape": list(port.shape)}


def _expect_programs(precision: str) -> None:
    """Raise ConfigError unless what exporting needs is installed."""
    needed = ("onnx", "onnxscript", *(["onnxruntime"] if precision == "int8" else []))
    for name in needed:
        try:
            __import__(name)
        except ImportError as error:
            raise ConfigError(
                f"exporting to ONNX needs {name}", fix="install it: pip install onnx onnxscript onnxruntime", name=name
            ) from error
