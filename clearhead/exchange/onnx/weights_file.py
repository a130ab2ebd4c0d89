"""One file for the weights of several ONNX models, in which equal weights are stored once."""

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx import ModelProto

WEIGHTS = "weights.bin"
_SMALLEST = 1024  # bytes; smaller tensors, such as shapes, stay in the model
_ALIGNED = 64  # bytes


class WeightsFile:
    """Collects the weights of models. `content` is the file."""

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
