"""Weights in CTranslate2's models: their names next to ours, and the types that store them.

One table of names serves import and export. Numbers are stored in float32, or in smaller types for smaller files.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...config import ModelConfig
from .binary import Arrays

Matrix: TypeAlias = NDArray[np.float32]


def stacks(config: ModelConfig) -> list[tuple[str, str, int]]:
    """Return the stacks: their name, the prefix of our names, and the number of blocks."""
    if config.topology == "decoder-only":
        return [("decoder", "", config.n_decoder_layers)]
    return [
        ("encoder", "encoder.", config.n_encoder_layers),
        ("decoder", "decoder.", config.n_decoder_layers),
    ]


def linear_layers(config: ModelConfig) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield our name of each linear layer in a block, and theirs. Several of theirs are stacked in ours."""
    inner = ("linear_0", "linear_0_noact") if config.gated else ("linear_0",)
    for theirs, ours, _, cross in _blocks(config):
        attention = (("linear_0", "attention.qkv"), ("linear_1", "attention.out"))
        for name, own in attention:
            yield f"{ours}.{own}", (f"{theirs}/self_attention/{name}",)
        for i, own in enumerate(("q", "kv", "out") if cross else ()):
            yield f"{ours}.cross_attention.{own}", (f"{theirs}/attention/linear_{i}",)
        yield f"{ours}.feed_forward.inner", tuple(f"{theirs}/ffn/{name}" for name in inner)
        yield f"{ours}.feed_forward.outer", (f"{theirs}/ffn/linear_1",)


def norms(config: ModelConfig) -> Iterator[tuple[str, str]]:
    """Yield our name of each norm that a model can have, and theirs."""
    for stack, ours, _ in stacks(config):
        yield f"{ours}embedding_norm", f"{stack}/layernorm_embedding"
        yield f"{ours}norm", f"{stack}/layer_norm"
    for theirs, ours, decodes, cross in _blocks(config):
        yield f"{ours}.add_norm_1.norm", f"{theirs}/self_attention/layer_norm"
        if cross:
            yield f"{ours}.add_norm_2.norm", f"{theirs}/attention/layer_norm"
        yield f"{ours}.add_norm_{3 if decodes else 2}.norm", f"{theirs}/ffn/layer_norm"


def _blocks(config: ModelConfig) -> Iterator[tuple[str, str, bool, bool]]:
    """Yield their name and ours of each block, whether it's the decoder's, and whether it attends to an encoder."""
    for stack, ours, count in stacks(config):
        decodes = stack == "decoder"
        for i in range(count):
            cross = decodes and config.topology == "encoder-decoder"
            yield f"{stack}/layer_{i}", f"{ours}blocks.{i}", decodes, cross


def stored(variables: Arrays, precision: str) -> dict[str, NDArray[Any]]:
    """Return variables in a smaller type. Integers store matrices only, next to their scales.

    Args:
        variables: those of a model in float32.
        precision: a key of `PRECISIONS`.
    """
    convert = PRECISIONS[precision]
    found: dict[str, NDArray[Any]] = {}
    for name, value in variables.items():
        is_matrix = name.endswith("/weight") and value.ndim == 2
        if value.dtype != np.float32 or value.ndim == 0 or (convert in (_int8, _int16) and not is_matrix):
            found[name] = value
        else:
            found |= {name + suffix: it for suffix, it in convert(value).items()}
    return found


def _float32(value: Matrix) -> dict[str, NDArray[Any]]:
    return {"": value}


def _float16(value: Matrix) -> dict[str, NDArray[Any]]:
    largest = np.finfo(np.float16).max
    return {"": np.clip(value, -largest, largest).astype(np.float16)}


def _bfloat16(value: Matrix) -> dict[str, NDArray[Any]]:
    """Round to the upper half of the bits, ties to even. numpy has no such type, so it's returned as uint16."""
    bits = np.ascontiguousarray(value).view(np.uint32)
    return {"": ((bits + (0x7FFF + (bits >> 16 & 1))) >> 16).astype(np.uint16)}


def _int8(value: Matrix) -> dict[str, NDArray[Any]]:
    """Scale each row of a matrix so that its largest number is 127. A row is an output, or a token."""
    largest = np.abs(value).max(1)
    scale = 127 / np.where(largest == 0, np.float32(127), largest)
    return {"": np.rint(value * scale[:, None]).astype(np.int8), "_scale": scale.astype(np.float32)}


def _int16(value: Matrix) -> dict[str, NDArray[Any]]:
    """Scale a matrix so that its largest number is 1024, which leaves CTranslate2 12 bits for sums of products."""
    scale = np.float32(2**10 / (np.abs(value).max() or 1))
    return {"": np.rint(value * scale).astype(np.int16), "_scale": np.array(scale)}


Convert: TypeAlias = Callable[[Matrix], Mapping[str, NDArray[Any]]]
PRECISIONS: Mapping[str, Convert] = MappingProxyType(
    {"fp32": _float32, "fp16": _float16, "bf16": _bfloat16, "int16": _int16, "int8": _int8}
)
