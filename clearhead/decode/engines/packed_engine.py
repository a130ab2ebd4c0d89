"""The engine `torch` with lower-precision weights, which are laid out once for the processor.

It runs the modules of `clearhead.model`. Only their `Linear` layers are replaced, in a copy that shares all weights:

    bf16    weights and products in bfloat16, by oneDNN
    int8    one scale for each output of a layer, and one for each row of its input: q_w = round(w / s_w), with s_w the
            largest |w| / 127, the same for x, and x W^T = s_x s_w (q_x q_w^T), summed in 32 bits

A row's scale depends on that row alone, so other rows of the batch never change an answer. Everything between the
layers stays in float32: norms, softmax, residual connections, caches and embeddings.
"""

from collections.abc import Container
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ...config import ModelConfig
from ...errors import ConfigError
from ...model.fronts.tokens import Projection
from ...model.linear import Linear
from ..engine import cpu_obstacle
from ..model_handle import sharing_weights
from .torch_engine import FLOAT32, Autocast, TextEngine, TorchEngine

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


class PackedLinear(Linear):
    """Stands for a linear layer, with the same weights, hooks and other attributes. It computes with packed weights."""

    def __init__(self, layer: Linear, precision: str) -> None:
        nn.Module.__init__(self)
        vars(self).update(vars(layer))
        scale = layer.scale if isinstance(layer, Projection) else 1.0
        bias = None if layer.bias is None else layer.bias.detach().float()
        self.product = PRODUCTS[precision](layer.weight.detach().float() * scale, bias)

    def forward(self, x: Tensor) -> Tensor:  # (..., D) -> (..., F)
        return self.product(x)


@torch.inference_mode()
def packed(model: nn.Module, precision: str) -> nn.Module:
    """Return a copy of the model with packed layers. It shares all parameters with the model.

    Raises:
        ConfigError: this build of torch, or this processor, doesn't compute in the precision.
    """
    found = sharing_weights(model)
    if precision == "fp32":
        return found
    try:
        layers = [it for it in found.modules() if isinstance(it, Linear) and it.out_features >= _SMALLEST]
        packs: dict[nn.Module, nn.Module] = {layer: PackedLinear(layer, precision) for layer in layers}
        for name, part in list(found.named_modules(remove_duplicate=False)):  # a layer may be in several places
            if part in packs:
                found.set_submodule(name, packs[part])
    except (RuntimeError, AttributeError) as error:
        what = f"decode.engine='packed' can't compute in decode.precision={precision!r} on this machine: {error}"
        fix = "choose another precision or engine"
        raise ConfigError(what, fix=fix, name="decode.precision", value=precision) from error
    return found


class _Packed:
    """Base of both engines with packed weights: their requirements, and how they open a model."""

    precisions: ClassVar[tuple[str, ...]] = ("fp32", "bf16", "int8")

    @classmethod
    def obstacle(cls, config: ModelConfig, device: str, formats: Container[str]) -> str:
        return cpu_obstacle(device)

    @staticmethod
    def in_precision(model: nn.Module, precision: str) -> tuple[Any, Autocast]:
        """Return a copy with packed weights."""
        return packed(model, precision), FLOAT32


class PackedEngine(_Packed, TorchEngine):
    """The step engine of encoder-decoder models with packed weights."""


class PackedTextEngine(_Packed, TextEngine):
    """The step engine of decoder-only models with packed weights."""
