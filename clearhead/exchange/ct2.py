"""Write models in the binary form of CTranslate2, an inference engine for CPUs and GPUs."""

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..config import ModelConfig
from ..config.custom_code import is_custom
from ..decode.model_handle import Weights
from ..decode.position_tables import position_table
from ..errors import ConfigError

Variables: TypeAlias = dict[str, NDArray[Any]]

_VERSION = 6  # of the binary form
_KINDS = {"encoder-decoder": ("TransformerSpec", 7), "decoder-only": ("TransformerDecoderSpec", 8)}  # name, revision
_TYPES = (np.float32, np.int8, np.int16, np.int32)  # in the order of their numbers
_ACTIVATIONS = {"relu": 0, "gelu_tanh": 1, "silu": 2, "gelu": 3, "swiglu": 2, "geglu": 1}
_TIED = ("embedding", "projection")  # matrices that can be one
_GATED = ("swiglu", "geglu")
_POSITIONS = ("sinusoidal", "sinusoidal_halves", "learned", "rotary")


def ct2_obstacle(config: ModelConfig) -> str:
    """Return the reason why CTranslate2 can't run a model with this config, or "" if it can."""
    feed_forward = config.feed_forward or config.activation
    if config.topology not in _KINDS:
        return f"it doesn't support model.topology={config.topology!r}"
    for setting, supported in (
        ("front", config.front == "tokens"),
        ("copy", not config.copy),
        ("attention", config.attention == "softmax"),
        ("positions", config.positions in _POSITIONS),
        ("feed_forward", feed_forward in _ACTIVATIONS),
        ("norm", not is_custom(config.norm)),
        ("window", config.window is None),
        ("rotary_scaling", config.rotary_scaling == "none"),
    ):
        if not supported:
            return f"it doesn't support model.{setting}={getattr(config, setting)!r}"
    return ""


def ct2_files(config: ModelConfig, weights: Weights, vocabularies: Sequence[Sequence[str]]) -> dict[str, bytes]:
    """Return the files of a CTranslate2 model folder, by name.

    Args:
        config: the model's configuration.
        weights: all weights, by their names in `state_dict`. Of tied weights, one name is enough.
        vocabularies: the tokens of each side in the order of their ids, source first, or of the only side.

    Raises:
        ConfigError: CTranslate2 can't express the model.
    """
    if obstacle := ct2_obstacle(config):
        raise ConfigError(f"the model can't be converted to CTranslate2's form: {obstacle}", name="format", value="ct2")
    name, revision = _KINDS[config.topology]
    variables = _Variables(config, weights)
    files = {"model.bin": _binary(name, revision, variables.collect(), variables.aliases)}
    files["config.json"] = _json(_settings(config, vocabularies))
    same = all(list(tokens) == list(vocabularies[0]) for tokens in vocabularies)
    if config.topology == "decoder-only":
        return files | {"vocabulary.json": _json(list(vocabularies[0]))}
    if same:
        return files | {"shared_vocabulary.json": _json(list(vocabularies[0]))}
    source, target = (_json(list(tokens)) for tokens in vocabularies)
    return files | {"source_vocabulary.json": source, "target_vocabulary.json": target}


class _Variables:
    """The variables of a model under CTranslate2's names."""

    def __init__(self, config: ModelConfig, weights: Weights) -> None:
        self.config, self.weights, self.found = config, weights, Variables()
        self.aliases: dict[str, str] = {}

    def collect(self) -> Variables:
        """Return all variables except aliases."""
        if self.config.topology == "encoder-decoder":
            shared = self.config.tie in ("all", "embeddings")
            self._stack("encoder", "encoder.", self.config.n_encoder_layers, "encoder/embeddings_0/weight", shared)
            self._stack("decoder", "decoder.", self.config.n_decoder_layers, "decoder/embeddings/weight", shared)
            self._number("encoder/embeddings_merge", 0, np.int8)
        else:
            self._stack("decoder", "", self.config.n_decoder_layers, "decoder/embeddings/weight", False)
        self._projection("decoder." if self.config.topology == "encoder-decoder" else "")
        return self.found

    def _stack(self, stack: str, ours: str, layers: int, embedding: str, shared: bool) -> None:
        config = self.config
        scale = config.d_model**0.5 if config.embedding_scale is None else config.embedding_scale
        self._number(f"{stack}/num_heads", config.n_heads, np.int16)
        self._number(f"{stack}/pre_norm", config.pre_norm, np.int8)
        self._number(f"{stack}/activation", _ACTIVATIONS[config.feed_forward or config.activation], np.int8)
        self._number(f"{stack}/scale_embeddings", scale, np.float32)
        if shared and stack == "decoder":
            self.aliases[embedding] = "encoder/embeddings_0/weight"
        else:
            sides = ("encoder.", "decoder.") if shared else (ours,)
            self.found[embedding] = self._first(f"{it}{part}.weight" for it in sides for part in _TIED)
        table = position_table(config, self.weights, ours)
        if table is not None:
            self.found[f"{stack}/position_encodings/encodings"] = table
        self._norm(f"{stack}/layernorm_embedding", f"{ours}embedding_norm")
        self._norm(f"{stack}/layer_norm", f"{ours}norm")
        for layer in range(layers):
            self._block(f"{stack}/layer_{layer}", f"{ours}blocks.{layer}")

    def _block(self, theirs: str, ours: str) -> None:
        attention = f"{theirs}/self_attention"
        self._attention(attention, {"linear_0": f"{ours}.attention.qkv", "linear_1": f"{ours}.attention.out"})
        if self.config.positions == "rotary":
            self._number(f"{attention}/rotary_dim", self.config.head_width, np.int32)
            self._number(f"{attention}/rotary_interleave", False, np.int8)
            self._number(f"{attention}/rotary_base", self.config.rotary_base, np.float32)
        self._norm(f"{attention}/layer_norm", f"{ours}.add_norm_1.norm")
        if f"{ours}.cross_attention.q.weight" in self.weights:
            linears = {f"linear_{i}": f"{ours}.cross_attention.{name}" for i, name in enumerate(("q", "kv", "out"))}
            self._attention(f"{theirs}/attention", linears)
            self._norm(f"{theirs}/attention/layer_norm", f"{ours}.add_norm_2.norm")
        last = "add_norm_3" if f"{ours}.add_norm_3.norm.weight" in self.weights else "add_norm_2"
        self._norm(f"{theirs}/ffn/layer_norm", f"{ours}.{last}.norm")
        self._feed_forward(f"{theirs}/ffn", f"{ours}.feed_forward")

    def _attention(self, theirs: str, linears: Mapping[str, str]) -> None:
        for name, ours in linears.items():
            self._linear(f"{theirs}/{name}", ours)
        if self.config.attention_scale is not None:
            self._number(f"{theirs}/queries_scale", self.config.attention_scale, np.float32)
        if self.config.n_kv_heads is not None:
            self._number(f"{theirs}/num_heads_kv", self.config.n_kv_heads, np.int32)
        if self.config.d_head is not None:
            self._number(f"{theirs}/head_dim", self.config.d_head, np.int32)

    def _feed_forward(self, theirs: str, ours: str) -> None:
        width = self.config.d_ff
        gated = (self.config.feed_forward or self.config.activation) in _GATED
        self._linear(f"{theirs}/linear_0", f"{ours}.inner", slice(0, width))
        if gated:
            self._linear(f"{theirs}/linear_0_noact", f"{ours}.inner", slice(width, 2 * width))
        self._linear(f"{theirs}/linear_1", f"{ours}.outer")

    def _projection(self, ours: str) -> None:
        if self.config.tie in ("all", "target"):
            self.aliases["decoder/projection/weight"] = self.aliases.get(
                "decoder/embeddings/weight", "decoder/embeddings/weight"
            )
        else:
            self.found["decoder/projection/weight"] = self._float(f"{ours}projection.weight")
        if f"{ours}projection.bias" in self.weights:
            self.found["decoder/projection/bias"] = self._float(f"{ours}projection.bias")
        if self.config.logit_scale != 1:
            self._number("decoder/scale_outputs", self.config.logit_scale, np.float32)

    def _linear(self, theirs: str, ours: str, rows: slice = slice(None)) -> None:
        self.found[f"{theirs}/weight"] = self._float(f"{ours}.weight")[rows]
        if f"{ours}.bias" in self.weights:
            self.found[f"{theirs}/bias"] = self._float(f"{ours}.bias")[rows]

    def _norm(self, theirs: str, ours: str) -> None:
        """Add a norm, if the model has it."""
        for name, own in (("gamma", "weight"), ("beta", "bias")):
            if f"{ours}.{own}" in self.weights:
                self.found[f"{theirs}/{name}"] = self._float(f"{ours}.{own}")

    def _number(self, name: str, value: float, kind: type[np.number[Any]]) -> None:
        self.found[name] = np.array(value, kind)

    def _first(self, names: Iterator[str]) -> NDArray[np.float32]:
        return next(self._float(name) for name in names if name in self.weights)

    def _float(self, name: str) -> NDArray[np.float32]:
        return np.ascontiguousarray(self.weights[name], np.float32)


def _settings(config: ModelConfig, vocabularies: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Return the content of config.json. Without an UNK token, the decoder's first input takes its place."""
    special, target = config.special, vocabularies[-1]
    unknown = target[special.start if special.unk is None else special.unk]
    settings: dict[str, Any] = {
        "bos_token": target[special.bos],
        "eos_token": target[special.eos],
        "unk_token": unknown,
    }
    settings |= {"layer_norm_epsilon": config.norm_eps, "multi_query_attention": config.n_kv_heads is not None}
    if config.topology == "decoder-only":
        return settings
    return settings | {
        "decoder_start_token": target[special.start],
        "add_source_bos": config.begins,
        "add_source_eos": True,
    }


def _binary(name: str, revision: int, variables: Variables, aliases: Mapping[str, str]) -> bytes:
    parts = [struct.pack("<I", _VERSION), _string(name), struct.pack("<II", revision, len(variables))]
    for each, value in sorted(variables.items()):
        kind, data = _TYPES.index(value.dtype.type), value.astype(value.dtype.newbyteorder("<")).tobytes()
        shape = struct.pack(f"<B{value.ndim}I", value.ndim, *value.shape)
        parts += [_string(each), shape, struct.pack("<BI", kind, len(data)), data]
    parts.append(struct.pack("<I", len(aliases)))
    parts += [_string(text) for pair in sorted(aliases.items()) for text in pair]
    return b"".join(parts)


def _string(text: str) -> bytes:
    data = text.encode() + b"\0"
    return struct.pack("<H", len(data)) + data


def _json(content: Any) -> bytes:
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()
