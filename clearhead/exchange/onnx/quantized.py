"""Store the matrices of an ONNX model in 8 bits, with ONNX Runtime's dynamic quantisation."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from .tracing import quiet

if TYPE_CHECKING:
    from onnx import ModelProto


def quantized(model: "ModelProto") -> "ModelProto":
    """Return a model with 8-bit integers for its matrices and embeddings, one scale each. The inputs of a product are
    rounded as it runs.
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with TemporaryDirectory() as folder, quiet():
        path = Path(folder) / "model.onnx"
        quantize_dynamic(model, path, weight_type=QuantType.QInt8)
        return onnx.load(path)
