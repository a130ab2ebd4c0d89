"""The weights that a model has by its settings: their names and shapes, as `model.transformer.build` makes them.

The table needs no torch, so that every reader of a folder can compare its weights before any engine opens.
"""

import json
import math
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..config import ModelConfig
from ..config.custom_code import is_custom
from ..errors import ModelError
from .manifest import RESTORE

Shape = tuple[int, ...]

_SAME_MODEL = "restore config.json and model.safetensors from the same model"
_CUSTOM = {  # the weights of a custom part, or tied to it, which only its class knows
    "front": r"(^|\.)(embedding|projection)\.",
    "attention": r"\.attend\.",
    "positions": r"(^|\.)positions\.",
    "feed_forward": r"\.feed_forward\.",
    "norm": r"(^|\.)(embedding_)?norm\.",
}


def check_shapes(config: ModelConfig, shapes: Mapping[str, Shape]) -> None:
    """Raise ModelError if weights of these names and shapes don't belong to a model. Custom parts aren't compared."""
    shapes = {name: shape for name, shape in shapes.items() if not _is_of_custom_part(name, config)}
    table = weight_table(config)
    for stack, without in (("encoder", "decoder-only"), ("decoder", "encoder-only")):
        setting, found = f"n_{stack}_layers", _count_blocks(shapes, stack)
        expected = getattr(config, setting)
        if config.topology != without and expected != found:
            what = f"model.{setting}={expected}, but the weights have {found} block{'s' * (found != 1)}"
            raise ModelError(what, fix=_SAME_MODEL, name=f"model.{setting}", value=expected)
    for name, shape in shapes.items():
        if shape != table.get(name, shape):
            what = f"{name} has shape {shape}, but config.json needs {table[name]}"
            raise ModelError(what, fix=_SAME_MODEL, name=name, value=shape)
    unknown = [name for name in shapes if name not in table]
    missing = missing_weights(config, shapes)
    if missing or unknown:
        problems = [f"{name} is missing" for name in missing] + [f"{name} is unknown to the model" for name in unknown]
        more = [f"and {len(problems) - 5} more"] if len(problems) > 5 else []
        what = "the weights don't fit the model: " + "\n  ".join([*problems[:5], *more])
        expected = f"a tensor of shape {table[missing[0]]}" if missing else "only the weights of this model"
        raise ModelError(what, expected=expected, fix=_SAME_MODEL, name=(missing or unknown)[0])


def missing_weights(config: ModelConfig, names: Collection[str]) -> list[str]:
    """Return the weights that a model needs beyond these, except custom parts. Of tied weights, one is enough."""
    tied = tied_names(config)
    groups = [tied if name in tied[:1] else (name,) for name in weight_table(config) if name not in tied[1:]]
    groups = [group for group in groups if not _is_of_custom_part(group[0], config)]
    return [group[0] for group in groups if not any(name in names for name in group)]


def tied_names(config: ModelConfig) -> tuple[str, ...]:
    """Return the names of an embedding and of what is tied to it, or (). A file needs only one of them."""
    projects, tokens = config.tie in ("all", "target"), config.front == "tokens"
    match config.topology:
        case "decoder-only":
            names = ["embedding", *["projection"] * projects]
        case "encoder-only":
            tied = projects and tokens and config.head == "token"
            names = ["encoder.embedding", "head.projection"] if tied else []
        case "encoder-decoder":
            shared = tokens and config.tie in ("all", "embeddings")
            names = [*["encoder.embedding"] * shared, "decoder.embedding", *["decoder.projection"] * projects]
    return tuple(f"{name}.weight" for name in names)


def weight_table(config: ModelConfig) -> dict[str, Shape]:
    """Return the shape of every weight by its name in `state_dict`. Tied weights have all their names."""
    table = _Table(config)
    head = "encoder." if config.topology == "encoder-decoder" or config.head != "none" else ""
    if config.topology != "decoder-only":
        table.encoder(head)
    if config.topology == "encoder-only":
        table.head()
    else:
        table.decoder("decoder." if head else "", cross=bool(head))
    return table.shapes


class _Table:
    """Collects the shapes of the weights, part by part. The methods are named after the modules."""

    def __init__(self, config: ModelConfig) -> None:
        self.config, self.shapes = config, dict[str, Shape]()
        self.has_final_norm = config.pre_norm if config.final_norm is None else config.final_norm

    def encoder(self, prefix: str) -> None:
        config = self.config
        self.front(f"{prefix}embedding")
        if config.n_token_types:
            self.shapes[f"{prefix}types.weight"] = (config.n_token_types, config.d_model)
        for layer in range(config.n_encoder_layers):
            self.block(f"{prefix}blocks.{layer}", ["attention"], norms=[1, 2])
        self.ends(prefix)

    def decoder(self, prefix: str, *, cross: bool) -> None:
        config = self.config
        self.shapes[f"{prefix}embedding.weight"] = (config.tgt_vocab_size, config.d_model)
        for layer in range(config.n_decoder_layers):
            parts, norms = ["attention", "cross_attention"][: 1 + cross], [1, 2, 3] if cross else [1, 3]
            self.block(f"{prefix}blocks.{layer}", parts, norms=norms)
        self.ends(prefix)
        self.projection(f"{prefix}projection", config.tgt_vocab_size, tied=config.tie in ("all", "target"))
        if config.copy:
            self.linear(f"{prefix}pointer.gate", config.d_model, 1)

    def head(self) -> None:
        config = self.config
        width = config.d_model
        if config.head == "class":
            self.linear("head.linear", width, config.n_classes, bias=config.bias)
            if config.head_layer != "none":
                self.linear("head.hidden", width, width, bias=config.bias)
        elif config.head == "span":
            self.linear("head.linear", width, 2)
        elif config.head == "token":
            tied = config.tie in ("all", "target") and config.front == "tokens"
            self.projection("head.projection", config.src_vocab_size, tied=tied)
            if config.head_layer == "norm":
                self.linear("head.transform.linear", width, width)
                self.norm("head.transform.norm")

    def front(self, name: str) -> None:
        config = self.config
        width = config.d_model
        if config.front == "tokens":
            self.shapes[f"{name}.weight"] = (config.src_vocab_size, width)
        elif config.front == "patches":
            self.linear(f"{name}.project", (config.image_channels or 0) * (config.patch_size or 0) ** 2, width)
            if config.head == "class" and config.pooling == "first":
                self.shapes[f"{name}.class_token"] = (width,)
        elif config.front == "frames":
            for number, channels in enumerate((config.n_mels, width)):
                self.shapes[f"{name}.convolutions.{number}.weight"] = (width, channels, 3)
                self.shapes[f"{name}.convolutions.{number}.bias"] = (width,)

    def ends(self, prefix: str) -> None:
        config = self.config
        if config.positions == "learned":
            self.shapes[f"{prefix}positions.table"] = (config.max_len, config.d_model)
        elif config.positions == "relative":
            self.shapes[f"{prefix}positions.table"] = (config.relative_buckets[0], config.n_heads)
        if config.embedding_norm:
            self.norm(f"{prefix}embedding_norm")
        if self.has_final_norm:
            self.norm(f"{prefix}norm")

    def block(self, name: str, attentions: Iterable[str], norms: Iterable[int]) -> None:
        config = self.config
        width, bias = config.d_model, config.bias
        own, shared = config.n_heads * config.head_width, (config.n_kv_heads or config.n_heads) * config.head_width
        qkv_bias = bias if config.qkv_bias is None else config.qkv_bias
        for attention in attentions:
            layers = {"q": own, "kv": 2 * shared} if attention == "cross_attention" else {"qkv": own + 2 * shared}
            for layer, outputs in layers.items():
                self.linear(f"{name}.{attention}.{layer}", width, outputs, bias=qkv_bias)
            self.linear(f"{name}.{attention}.out", own, width, bias=bias)
        inner = config.d_ff * (1 + config.gated)
        self.linear(f"{name}.feed_forward.inner", width, inner, bias=bias)
        self.linear(f"{name}.feed_forward.outer", config.d_ff, width, bias=bias)
        for number in norms:
            self.norm(f"{name}.add_norm_{number}.norm")

    def projection(self, name: str, size: int, *, tied: bool) -> None:
        bias = self.config.projection_bias
        self.linear(name, self.config.d_model, size, bias=not tied if bias is None else bias)

    def linear(self, name: str, inputs: int, outputs: int, *, bias: bool = True) -> None:
        self.shapes[f"{name}.weight"] = (outputs, inputs)
        if bias:
            self.shapes[f"{name}.bias"] = (outputs,)

    def norm(self, name: str) -> None:
        for part in ("weight", "bias") if self.config.norm == "layer" else ("weight",):
            self.shapes[f"{name}.{part}"] = (self.config.d_model,)


def _is_of_custom_part(name: str, config: ModelConfig) -> bool:
    """Return whether only a custom class knows this weight."""
    unused = "front" if config.topology == "decoder-only" else ""
    return any(
        re.search(pattern, name)
        for part, pattern in _CUSTOM.items()
        if part != unused and is_custom(getattr(config, part))
    )


def _count_blocks(names: Iterable[str], stack: str) -> int:
    """Return the number of blocks in a stack. A model of one stack has no prefix."""
    numbers = (re.match(rf"(?:{stack}\.)?blocks\.(\d+)\.", name) for name in names)
    return len({found[1] for found in numbers if found})


_FLOATS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
_WHOLE = {f"{kind.upper()}{8 * size}": f"<{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)}
_TYPES = _FLOATS | _WHOLE | {"BOOL": "?", "C64": "<c8"}
_SIZES = {name: np.dtype(kind).itemsize for name, kind in _TYPES.items()}
_EXPONENT = 0x7F80  # of a BF16: all bits are set in NaN and infinity


class Stored(NamedTuple):
    """A tensor in a file."""

    dtype: str  # in the spelling of safetensors
    shape: Shape
    data: memoryview

    def array(self) -> NDArray[Any]:
        """Return a view of the numbers, or a copy in float32 of a BF16, which numpy lacks."""
        numbers = np.frombuffer(self.data, _TYPES[self.dtype]).reshape(self.shape)
        return (numbers.astype(np.uint32) << 16).view(np.float32) if self.dtype == "BF16" else numbers

    def is_finite(self) -> bool:
        """Return whether all floating-point numbers are finite in float32, in which models compute."""
        numbers = np.frombuffer(self.data, _FLOATS[self.dtype])
        if self.dtype == "BF16":
            return not ((numbers & _EXPONENT) == _EXPONENT).any()
        with np.errstate(over="ignore"):
            return bool(np.isfinite(numbers.astype(np.float32, copy=False)).all())


def stored_tensors(path: Path, data: bytes) -> dict[str, Stored]:
    """Return the tensors of a safetensors file. Raise ModelError if it's in another format, or cut off."""
    try:
        begin = 8 + int.from_bytes(data[:8], "little")
        if len(data) < begin:
            raise ValueError(f"it has only {len(data):,} bytes, and its header needs {begin:,}")
        header = json.loads(data[8:begin], object_pairs_hook=_unique)
        header.pop("__metadata__", None)
        found = {name: _stored(memoryview(data)[begin:], **entry) for name, entry in header.items()}
        at = 0
        for first, last in sorted(entry["data_offsets"] for entry in header.values()):
            if first != at:
                raise ValueError("its tensors overlap, or leave a gap")
            at = last
        if begin + at != len(data):
            raise ValueError("its tensors don't take up the whole file")
        return found
    except (ValueError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        why = f": {error}" if isinstance(error, ValueError) else ""
        raise ModelError(f"{path} isn't in the safetensors format{why}", fix=RESTORE, name=path.name) from error


def check_weights(config: ModelConfig, tensors: Mapping[str, Stored]) -> None:
    """Check the weights of a model before anything computes with them.

    Raises:
        ModelError: names, shapes or types don't fit the settings, tied weights differ, or a number isn't finite.
    """
    check_shapes(config, {name: it.shape for name, it in tensors.items()})
    check_numbers(config, tensors)
    first, *more = [name for name in tied_names(config) if name in tensors] or [""]
    for name in more:
        if not np.array_equal(tensors[first].array(), tensors[name].array()):
            what = f"model.tie={config.tie!r}, but {first} and {name} have different numbers"
            raise ModelError(what, expected="one matrix with both names", fix=_SAME_MODEL, name=name)


def check_numbers(config: ModelConfig, tensors: Mapping[str, Stored]) -> None:
    """Raise ModelError unless all weights, except those of custom parts, are finite floating-point numbers."""
    for name, it in tensors.items():
        if _is_of_custom_part(name, config):
            continue
        if it.dtype not in _FLOATS or not it.is_finite():
            has = "numbers that aren't finite in float32" if it.dtype in _FLOATS else f"the type {it.dtype}"
            what, expected = f"the weight {name} has {has}", f"finite floating-point numbers ({', '.join(_FLOATS)})"
            raise ModelError(what, expected=expected, fix=RESTORE, name=name, value=it.dtype)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object with these pairs. Raise ValueError if a name is repeated."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is repeated in its header")
    return found


def _stored(numbers: memoryview, dtype: str, shape: list[int], data_offsets: list[int]) -> Stored:
    """Return the tensor of a header's entry. Raise ValueError or TypeError if its place can't have these numbers."""
    begin, end = data_offsets
    size = _SIZES.get(dtype)
    if not 0 <= begin <= end <= len(numbers) or any(type(it) is not int or it < 0 for it in shape):
        raise ValueError(f"a tensor of shape {shape} is at {data_offsets}")
    if size is not None and end - begin != size * math.prod(shape):
        raise ValueError(f"a tensor of shape {shape} and type {dtype} has {end - begin:,} bytes")
    return Stored(dtype, tuple(shape), numbers[begin:end])
