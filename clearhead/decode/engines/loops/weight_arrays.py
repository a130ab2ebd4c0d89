"""A model's weights as arrays for the loops, with constant factors multiplied in."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....config import ModelConfig
from ....config.notations import read_rotary
from ....folder.weight_table import check_shapes
from ...model_handle import Weights
from ...position_tables import alibi_slopes, position_table, relative_table, rotary_frequencies
from . import stack_parts as parts
from .equations import GELU, GELU_TANH, RELU, SILU, Floats, Stack
from .linear_layers import panels_size, quantized, write_panels

_LINEAR = {getattr(parts, name.removesuffix("_BIAS")) for name in vars(parts) if name.endswith("_BIAS")}
_ACTIVATIONS = {"relu": RELU, "gelu": GELU, "gelu_tanh": GELU_TANH, "silu": SILU, "swiglu": SILU, "geglu": GELU_TANH}

SHAPE = np.dtype(
    [
        ("layers", "i8"),
        ("d_model", "i8"),
        ("heads", "i8"),
        ("kv_heads", "i8"),
        ("d_head", "i8"),
        ("d_ff", "i8"),
        ("activation", "i8"),
        ("window", "i8"),  # newest tokens that a token attends to; a huge number for all
        ("max_len", "i8"),
        ("eps", "f4"),
        ("embedding_scale", "f4"),
        ("logit_scale", "f4"),
        ("gated", "?"),
        ("pre_norm", "?"),
        ("rms", "?"),
        ("final_norm", "?"),
        ("embedding_norm", "?"),
        ("ring", "?"),  # any position is valid, so the cache can overwrite its oldest token
        ("cross", "?"),
        ("int8", "?"),
    ],
    align=True,
)


class Model(NamedTuple):
    """Both stacks. The encoder of a language model has no blocks."""

    encoder: Stack
    decoder: Stack


def load_model(config: ModelConfig, weights: Weights, positions: int, *, int8: bool = False) -> Model:
    """Return a model's arrays.

    Args:
        config: settings of the model.
        weights: may lack all but one name of a tied matrix.
        positions: number of rows of a table of positions, at most `max_len`.
        int8: quantise the linear layers.

    Raises:
        ModelError: names or shapes don't fit the configuration, by which the loops compute where they read and write.
    """
    check_shapes(config, {name: it.shape for name, it in weights.items()})
    sides = _Sides(config, weights, min(positions, config.max_len), int8)
    if config.topology == "decoder-only":
        return Model(sides.stack("", 0, [], cross=False), sides.decoder("", ["embedding", "projection"]))
    shared = ["encoder.embedding", "decoder.embedding"] if config.tie in ("all", "embeddings") else []
    tied = ["decoder.projection"]
    source = [*(shared or ["encoder.embedding"]), *(tied if config.tie == "all" else [])]
    target = [*(shared or ["decoder.embedding"]), *(tied if config.tie in ("all", "target") else [])]
    encoder = sides.stack("encoder.", config.n_encoder_layers, source, cross=False)
    return Model(encoder, sides.decoder("decoder.", target))


class _Sides:
    """Collects the weights of each side. Parts that the model lacks are empty."""

    def __init__(self, config: ModelConfig, weights: Weights, positions: int, int8: bool) -> None:
        self.config, self.weights, self.n_positions, self.int8 = config, weights, positions, int8

    def decoder(self, prefix: str, embeddings: Sequence[str]) -> Stack:
        """Return the decoder, whose weights begin with this prefix."""
        layers, cross = self.config.n_decoder_layers, prefix != ""
        return self.stack(prefix, layers, embeddings, cross=cross, projects=True)

    def stack(
        self, prefix: str, layers: int, embeddings: Sequence[str], *, cross: bool, projects: bool = False
    ) -> Stack:
        """Return a stack. `embeddings` names its embedding and matrices tied to it."""
        blocks = [self.block(f"{prefix}blocks.{layer}.", projects, cross) for layer in range(max(layers, 1))]
        if not layers:
            blocks = [{}]
        else:
            blocks[0] |= self.ends(prefix, embeddings, projects=projects)
        places = np.zeros((len(blocks), parts.SLOPES + 1, 3), np.int64)
        floats, codes = _Joined(np.float32), _Joined(np.int8)
        for layer, block in enumerate(blocks):
            for part, array in block.items():
                if part not in _LINEAR:
                    places[layer, part] = floats.add(array), *array.shape
                elif self.int8:
                    found, block[part + 1] = quantized(array, block[part + 1])
                    places[layer, part] = codes.add(found), *array.shape
                else:
                    places[layer, part] = floats.add(array, in_panels=True), *array.shape
        shape = _shape(self.config, layers, cross, self.int8)
        return Stack(shape, floats.joined(), places, self.frequencies(), codes.joined())

    def block(self, prefix: str, decodes: bool, cross: bool) -> dict[int, Floats]:
        """Return the parts of one block."""
        config, width = self.config, self.config.head_width
        scale = width**-0.5 if config.attention_scale is None else config.attention_scale
        query = (config.n_heads * width, scale)  # the scale of the scores becomes part of the queries
        found = self.linear(parts.QKV, f"{prefix}attention.qkv", query)
        found |= self.linear(parts.OUT, f"{prefix}attention.out")
        found |= self.linear(parts.INNER, f"{prefix}feed_forward.inner")
        found |= self.linear(parts.OUTER, f"{prefix}feed_forward.outer")
        found[parts.NORM_1] = self.norm(f"{prefix}add_norm_1.norm")
        found[parts.NORM_2] = self.norm(f"{prefix}add_norm_2.norm")
        found[parts.NORM_3] = self.norm(f"{prefix}add_norm_3.norm") if decodes else found[parts.NORM_2]
        if cross:
            found |= self.linear(parts.CROSS_Q, f"{prefix}cross_attention.q", query)
            found |= self.linear(parts.CROSS_KV, f"{prefix}cross_attention.kv")
            found |= self.linear(parts.CROSS_OUT, f"{prefix}cross_attention.out")
        return found

    def ends(self, prefix: str, embeddings: Sequence[str], *, projects: bool) -> dict[int, Floats]:
        """Return the parts before and after the blocks."""
        config = self.config
        embedding = self.first(embeddings)
        found = {parts.EMBEDDING: embedding, parts.EMBEDDING_NORM: self.norm(f"{prefix}embedding_norm")}
        found[parts.FINAL_NORM] = self.norm(f"{prefix}norm")
        rows = None if config.positions == "learned" else self.n_positions
        if (table := position_table(config, self.weights, prefix, rows)) is not None:
            found[parts.POSITIONS] = table
        if config.positions == "relative":
            table = self.array(f"{prefix}positions.table")
            found[parts.NEAR] = relative_table(table, two_sided=not projects, farthest=config.relative_buckets[1])
        if config.positions == "alibi":
            found[parts.SLOPES] = alibi_slopes(config.n_heads)[:, None]
        if projects:
            tied = config.tie in ("all", "target")
            found[parts.PROJECTION] = embedding if tied else self.array(f"{prefix}projection.weight")
            found[parts.PROJECTION_BIAS] = self.bias(f"{prefix}projection", len(found[parts.PROJECTION]))
        return found

    def linear(self, part: int, name: str, scaled: tuple[int, float] = (0, 1.0)) -> dict[int, Floats]:
        """Return a linear layer's matrix and bias. Its first rows are multiplied by a factor: (rows, factor)."""
        rows, factor = scaled
        weight = self.array(f"{name}.weight")
        bias = self.bias(name, len(weight))
        if rows:
            weight, bias = weight.copy(), bias.copy()
            weight[:rows] *= np.float32(factor)
            bias[:, :rows] *= np.float32(factor)
        return {part: weight, part + 1: bias}

    def first(self, names: Sequence[str]) -> Floats:
        """Return the first of these matrices that exists. (F, D)"""
        return next(self.array(f"{name}.weight") for name in names if f"{name}.weight" in self.weights)

    def array(self, name: str) -> Floats:
        """Return a weight as float32."""
        return np.ascontiguousarray(self.weights[name], np.float32)

    def bias(self, name: str, outputs: int) -> Floats:
        """Return a bias, or zeros. (1, F)"""
        found = self.array(f"{name}.bias") if f"{name}.bias" in self.weights else np.zeros(outputs, np.float32)
        return found[None]

    def norm(self, name: str) -> Floats:
        """Return a norm's gain and bias, or zeros if the model lacks this norm. (2, D)"""
        found = np.zeros((2, self.config.d_model), np.float32)
        for row, part in zip(found, ("weight", "bias")):
            if f"{name}.{part}" in self.weights:
                row[:] = self.weights[f"{name}.{part}"]
        return found

    def frequencies(self) -> NDArray[np.float64]:
        """Return the frequencies of rotary positions, or none. (K/2,)"""
        if self.config.positions != "rotary":
            return np.empty(0)
        rotary = read_rotary(self.config.rotary)
        return rotary_frequencies(self.config.head_width, rotary.base, rotary.scaling)


class _Joined:
    """Arrays one after the other, each at a multiple of 64 bytes.

    They're copied once, to where they stay, since new memory takes longer than copying.
    """

    def __init__(self, kind: type[np.number[Any]]) -> None:
        self.kind, self.arrays, self.end = kind, list[tuple[int, NDArray[Any], bool]](), 0

    def add(self, array: NDArray[Any], *, in_panels: bool = False) -> int:
        """Append an array, or a matrix in panels, and return its place."""
        place, size = self.end, panels_size(*array.shape) if in_panels else array.size
        self.arrays.append((place, array, in_panels))
        self.end += size + -size % (64 // array.itemsize)
        return place

    def joined(self) -> NDArray[Any]:
        """Return all arrays as one."""
        found = np.zeros(self.end, self.kind)
        for place, array, in_panels in self.arrays:
            if in_panels:
                write_panels(array, found[place : place + panels_size(*array.shape)])
            else:
                found[place : place + array.size] = array.ravel()
        return found


def _shape(config: ModelConfig, layers: int, cross: bool, int8: bool) -> np.record:
    values = {
        "layers": layers,
        "d_model": config.d_model,
        "heads": config.n_heads,
        "kv_heads": config.n_kv_heads or config.n_heads,
        "d_head": config.head_width,
        "d_ff": config.d_ff,
        "activation": _ACTIVATIONS[config.feed_forward],
        "window": config.window or 2**60,
        "max_len": config.max_len,
        "eps": config.norm_eps,
        "embedding_scale": math.sqrt(config.d_model) if config.embedding_scale is None else config.embedding_scale,
        "logit_scale": config.logit_scale,
        "gated": config.gated,
        "pre_norm": config.pre_norm,
        "rms": config.norm == "rms",
        "final_norm": config.pre_norm if config.final_norm is None else config.final_norm,
        "embedding_norm": config.embedding_norm,
        "ring": config.positions in ("rotary", "relative", "alibi"),
        "cross": cross,
        "int8": int8,
    }
    assert SHAPE.names is not None
    return np.rec.array([tuple(values[name] for name in SHAPE.names)], dtype=SHAPE)[0]
