"""The engine `torch` with weights of fewer bits, which are laid out once for the processor.

It runs the modules of `clearhead.model`. Only the products of their `Linear` layers are replaced, in a copy that shares
all weights:

    bf16    weights and products in bfloat16, by oneDNN
    int8    one scale for each output of a layer, and one for each row of its input: q_w = round(w / s_w), with s_w the
            largest |w| / 127, the same for x, and x W^T = s_x s_w (q_x q_w^T), summed in 32 bits

A row's scale depends on that row alone, so other rows of the batch never change an answer. Everything between the
layers stays in float32: norms, softmax, residual connections, caches and embeddings.
"""

import copy
from collections.abc import Container
from typing import Any, ClassVar, Self, cast

import torch
from torch import Tensor, nn

from ...config import ModelConfig
from ...errors import ConfigError
from ...model.fronts.tokens import Projection
from ...model.linear import Linear
from ...model.transformer import Decoder, EncoderDecoder
from ..engine import cpu_obstacle
from ..model_handle import ModelHandle
from .text_engine import TextEngine
from .torch_engine import TorchEngine

PRECISIONS = ("fp32", "bf16", "int8")
_SMALLEST = 16  # outputs of a layer; fewer aren't worth it
_ROWS = 32  # the layouts suit so many rows best, and are right for any number
_TINY = 1e-30  # stands for the largest number of a row of zeros; its inverse is finite


class Bf16Product:
    """x W^T + b, in bfloat16. The result is float32."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.bias = bias
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight.bfloat16(), _ROWS)

    def __call__(self, x: Tensor) -> Tensor:  # (..., D) -> (..., F)
        y = torch.ops.mkldnn._linear_pointwise(x.bfloat16(), self.packed, None, "none", [], "").float()
        return y if self.bias is None else y + self.bias


class Int8Product:
    """x W^T + b, with 8-bit weights and inputs. The result is float32."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.bias = bias
        self.scales = weight.abs().amax(1).clamp(min=_TINY) / 127
        quantized = (weight / self.scales[:, None]).round().to(torch.int8)
        self.packed = torch.ops.onednn.qlinear_prepack(quantized, [_ROWS, weight.size(1)])
        # Unsigned inputs suit the processors. Older ones add products in pairs of 16 bits, so inputs get 7 bits there.
        self.zero = 128 if torch.cpu.get_capabilities().get("avx512_vnni") else 64
        self.offset = torch.tensor(self.zero + 0.5)  # `to` rounds down
        self.zeros = torch.zeros(len(weight), dtype=torch.int64)

    def __call__(self, x: Tensor) -> Tensor:  # (..., D) -> (..., F)
        steps = self.zero - 1
        largest = x.abs().amax(-1, keepdim=True).clamp_(min=_TINY)
        quantized = torch.addcmul(self.offset, x, steps / largest).to(torch.uint8)
        y: Tensor = torch.ops.onednn.qlinear_pointwise(
            quantized,
            1 / steps,
            self.zero,
            self.packed,
            self.scales,
            self.zeros,
            None,
            1.0,
            0,
            torch.float32,
            "none",
            [],
            "",
        )
        return y * largest if self.bias is None else torch.addcmul(self.bias, y, largest)


PRODUCTS: dict[str, type[Bf16Product | Int8Product]] = {"bf16": Bf16Product, "int8": Int8Product}


@torch.inference_mode()
def packed(model: nn.Module, precision: str) -> nn.Module:
    """Return a copy of the model with packed layers. It shares all parameters with the model.

    Raises:
        ConfigError: this build of torch, or this processor, doesn't compute in the precision.
    """
    shared = {id(it): it for it in (*model.parameters(), *model.buffers())}
    found = copy.deepcopy(model, shared)
    if precision == "fp32":
        return found
    try:
        for layer in found.modules():
            if isinstance(layer, Linear) and layer.out_features >= _SMALLEST:
                setattr(layer, "forward", _product(layer, precision))  # noqa: B010 - of this layer, not of its class
    except (RuntimeError, AttributeError) as error:
        raise ConfigError(
            f"decode.engine='packed' can't compute in decode.precision={precision!r} on this machine: {error}",
            fix="choose another precision or engine",
            name="decode.precision",
            value=precision,
        ) from error
    return found


def _product(layer: Linear, precision: str) -> Bf16Product | Int8Product:
    scale = layer.scale if isinstance(layer, Projection) else 1.0
    bias = None if layer.bias is None else layer.bias.detach().float()
    return PRODUCTS[precision](layer.weight.detach().float() * scale, bias)


class _Packed:
    """What both engines of packed weights can run."""

    precisions: ClassVar[tuple[str, ...]] = PRECISIONS

    @classmethod
    def obstacle(cls, config: ModelConfig, device: str, formats: Container[str]) -> str:
        """Return why this engine can't run, or ""."""
        return cpu_obstacle(device)


class PackedEngine(_Packed, TorchEngine):
    """The step engine of encoder-decoder models with packed weights."""

    @classmethod
    def open(cls, model: ModelHandle, precision: str = "fp32") -> Self:
        """Return an engine that computes in this precision. The packed weights are a copy."""
        module = cast(EncoderDecoder, packed(model.module(), precision))
        return cls(module, pad=module.encoder.embedding.pad)


class PackedTextEngine(_Packed, TextEngine):
    """The step engine of decoder-only models with packed weights."""

    @classmethod
    def open(cls, model: ModelHandle, precision: str = "fp32") -> Self:
        """Return an engine that computes in this precision. The packed weights are a copy."""
        module: Any = packed(model.module(), precision)
        return cls(cast(Decoder, module), pad=model.config.pad_id, max_len=model.config.max_len)
