"""Write a model as a folder of ONNX models, with what a program needs to use them."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

from ...errors import ConfigError
from ...folder.atomic import write_folder
from ...loading import LoadedModel
from .graphs import Graph, Port, graphs, quiet, trace

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

DESCRIPTION = "model.json"
FORMAT_VERSION = 1
WEIGHTS = "weights.bin"
_SMALLEST = 1024  # bytes; smaller tensors, such as shapes, stay in the model
_ALIGNED = 64  # bytes


def export(loaded: LoadedModel, out: Path, *, precision: str = "fp32") -> None:
    """Write the ONNX models, their weights, the tokenizers and model.json to the folder `out`.

    Args:
        loaded: the model, on the CPU.
        precision: fp32, or int8 for matrices of 8 bits.

    Raises:
        ConfigError: a program that exporting needs isn't installed.
        ModelError: a part of the model can't be exported.
    """
    _expect_programs(precision)
    write_folder(out, list(_files(loaded, precision)))


def _files(loaded: LoadedModel, precision: str) -> Iterator[tuple[str, bytes]]:
    config, weights = loaded.config.model, _WeightsFile()
    found = graphs(loaded.model, config)
    for graph in found:
        model = trace(graph, window=config.window)
        _fold_transposes(model, shared=precision == "int8")  # the quantiser needs stored matrices
        if precision == "int8":
            model = _quantized(model)
        weights.move(model)
        yield f"{graph.name}.onnx", model.SerializeToString()
    yield WEIGHTS, bytes(weights.content)
    tokenizers = loaded.tokenizer_files()
    yield from ((name, text.encode()) for name, text in tokenizers.items())
    described = _description(loaded, found, precision, list(tokenizers))
    yield DESCRIPTION, (json.dumps(described, indent=2, ensure_ascii=False) + "\n").encode()


def _fold_transposes(model: "ModelProto", *, shared: bool = False) -> None:
    """Replace transpositions of stored matrices, which torch exports for x W^T, by stored transposed matrices.

    Args:
        model: the model, which is changed.
        shared: also those of matrices that are read elsewhere, such as a tied embedding, which is then stored twice.
    """
    from onnx.numpy_helper import from_array, to_array

    graph = model.graph
    stored = {tensor.name: tensor for tensor in graph.initializer}
    uses = Counter(name for node in graph.node for name in node.input)
    folded = [it for it in graph.node if it.op_type == "Transpose" and it.input[0] in stored and _swaps(it)]
    for node in folded if shared else [it for it in folded if uses[it.input[0]] == 1]:
        matrix = to_array(stored[node.input[0]])
        graph.initializer.append(from_array(matrix.T.copy(), node.output[0]))
        graph.node.remove(node)
    _drop_unused(graph)


def _swaps(node: "NodeProto") -> bool:
    """Return whether a transposition swaps rows and columns."""
    return any(it.name == "perm" and list(it.ints) == [1, 0] for it in node.attribute)


def _drop_unused(graph: "GraphProto") -> None:
    used = {name for node in graph.node for name in node.input}
    kept = [tensor for tensor in graph.initializer if tensor.name in used]
    del graph.initializer[:]
    graph.initializer.extend(kept)


def _quantized(model: "ModelProto") -> "ModelProto":
    """Return a model with 8-bit integers for its matrices and embeddings, one scale each. The inputs of a product are
    rounded as it runs.
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with TemporaryDirectory() as folder, quiet():
        path = Path(folder) / "model.onnx"
        quantize_dynamic(model, path, weight_type=QuantType.QInt8)
        return onnx.load(path)


class _WeightsFile:
    """Collects the weights of models in one file, `content`. Equal weights are stored once."""

    def __init__(self) -> None:
        self.content = bytearray()
        self._places: dict[bytes, int] = {}

    def move(self, model: "ModelProto") -> None:
        """Move the weights out of a model: it refers to the file from then on."""
        from onnx.external_data_helper import set_external_data
        from onnx.numpy_helper import to_array

        for tensor in model.graph.initializer:
            data = tensor.raw_data or to_array(tensor).tobytes()
            if len(data) < _SMALLEST:
                continue
            for field in ("float_data", "int32_data", "int64_data", "double_data"):
                tensor.ClearField(field)
            tensor.raw_data = data
            set_external_data(tensor, WEIGHTS, offset=self._place(data), length=len(data))
            tensor.ClearField("raw_data")

    def _place(self, data: bytes) -> int:
        key = hashlib.sha256(data).digest()
        if key not in self._places:
            self.content += bytes(-len(self.content) % _ALIGNED)
            self._places[key] = len(self.content)
            self.content += data
        return self._places[key]


def _description(loaded: LoadedModel, found: list[Graph], precision: str, tokenizers: list[str]) -> dict[str, Any]:
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
        task = cast(Any, loaded.task)
        if config.data.label_kind == "targets":  # a softmax of the logits of each target
            values["targets"] = {it.name: list(it.labels) for it in task.targets}
        elif config.data.label_kind == "number":
            values |= {"mean": task.scale[0], "deviation": task.scale[1]}  # the number is mean + logit * deviation
        elif config.data.label_kind:  # a sigmoid of each logit is the probability of a label
            values |= {"several_labels": True, "thresholds": list(task.thresholds)}
    front = {"patches": ("image_size", "image_channels"), "frames": ("sample_rate",)}.get(model.front, ())
    return values | {name: getattr(model, name) for name in front}


def _port(port: Port) -> dict[str, Any]:
    return {"name": port.name, "type": str(port.dtype).removeprefix("torch."), "shape": list(port.shape)}


def _expect_programs(precision: str) -> None:
    """Raise ConfigError unless what exporting needs is installed."""
    needed = ("onnx", "onnxscript", *(["onnxruntime"] if precision == "int8" else []))
    for name in needed:
        try:
            __import__(name)
        except ImportError as error:
            what = f"exporting to ONNX needs {name}"
            raise ConfigError(what, fix="install it: pip install onnx onnxscript onnxruntime", name=name) from error
