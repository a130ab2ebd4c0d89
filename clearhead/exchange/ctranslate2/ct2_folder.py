"""Read models in CTranslate2's form: model.bin, vocabularies and, from newer versions, config.json."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...config import ModelConfig
from ...config.notations import RotaryWavelengths
from ...decode.position_tables import position_table
from ...errors import ModelError
from ...folder.manifest import read_json_object
from ..imported import Imported, complete
from .binary import read_binary
from .variables import Variables
from .vocabularies import read_vocabularies, special_tokens, tokenizer_text
from .weights import linear_layers, norms, stacks

if TYPE_CHECKING:
    from torch import Tensor

BINARY, CONFIG = "model.bin", "config.json"
_N_HEADS = {"TransformerBase": 8, "TransformerBig": 16}  # of old kinds, which don't store it
_STACKS = dict.fromkeys((*_N_HEADS, "TransformerSpec"), ("encoder", "decoder")) | {
    "TransformerDecoderSpec": ("decoder",)
}
_ACTIVATIONS = {0: "relu", 1: "gelu_tanh", 2: "silu", 3: "gelu"}
_GATED = {1: "geglu", 2: "swiglu"}
_LONGEST = 1024  # tokens, where nothing says how many
_FLAGS = ("embeddings_merge", "alibi", "alibi_use_positive_positions", "scale_alibi", "start_from_zero_embedding")


def is_ct2_folder(folder: Path) -> bool:
    """Return whether a folder has the weights of a CTranslate2 model."""
    return (folder / BINARY).is_file()


def read_ct2_folder(folder: Path, task: str | None = None) -> Imported:
    """Read the model of a folder.

    Args:
        folder: a folder such as the converters of CTranslate2 write.
        task: the task to use the model for (default: translate, or generate without an encoder).

    Raises:
        ModelError: a file is missing or damaged, or the model has something that isn't supported.
    """
    binary = read_binary(folder / BINARY)
    if binary.name not in _STACKS:
        raise ModelError(
            f"{folder / BINARY} has a model of the kind {binary.name}, which isn't supported",
            expected=" or ".join(_STACKS),
            name="specification",
            value=binary.name,
        )
    path, tokens = folder / CONFIG, read_vocabularies(folder)
    theirs = read_json_object(path) if path.is_file() else {}
    found = Variables(folder / BINARY, binary.variables)
    settings = _settings(found, binary.name, theirs)
    sizes = [settings[name] for name in ("model.src_vocab_size", "model.tgt_vocab_size") if settings[name]]
    settings |= (special := special_tokens(folder, theirs, tokens, sizes))
    settings["train.task"] = task or ("translate" if len(_STACKS[binary.name]) > 1 else "generate")
    positions, tables = _positions(found, settings)
    config = complete(settings | positions, folder)
    weights = _weights(found, config.model) | tables
    found.expect_all_read()
    note = "texts are split at spaces only, so separate their tokens by spaces as in the model's training data"
    return Imported("CTranslate2", config, tokenizer_text(tokens, special), weights, [note])


def _settings(found: Variables, kind: str, theirs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the model, without positions and special tokens."""
    sides, n_heads = _STACKS[kind], _N_HEADS.get(kind)
    first, *others = (_stack(found, stack, n_heads) for stack in sides)
    for other in others:
        for name, value in first.items():
            if other[name] != value:
                raise ModelError(
                    f"{found.path} has {name}={value} in the encoder and {other[name]} in the decoder",
                    expected="the same in both",
                    name=name,
                    value=value,
                )
    embeddings, coded = [found.matrix(_embedding(found, stack)) for stack in sides], len(sides) > 1
    shared = coded and np.array_equal(embeddings[0], embeddings[1])
    tied = np.array_equal(embeddings[-1], found.matrix("decoder/projection/weight"))
    ends = {
        f"model.{ours}": bool(theirs.get(f"add_source_{name}", found.number(f"with_source_{name}")))
        for ours, name in (("begin", "bos"), ("end", "eos"))
    }
    return {
        **first,
        **_attention(found),
        **(ends if coded else {}),
        "model.topology": "encoder-decoder" if coded else "decoder-only",
        "model.src_vocab_size": len(embeddings[0]) if coded else 0,
        "model.tgt_vocab_size": len(embeddings[-1]),
        "model.d_model": embeddings[-1].shape[1],
        "model.n_encoder_layers": found.count("encoder/layer_"),
        "model.n_decoder_layers": found.count("decoder/layer_"),
        "model.tie": ("all" if shared else "target") if tied else ("embeddings" if shared else "none"),
        "model.projection_bias": "decoder/projection/bias" in found,
        "model.logit_scale": found.number("decoder/scale_outputs") or 1.0,
        "model.norm_eps": theirs.get("layer_norm_epsilon") or (1e-6 if first["model.norm"] == "rms" else 1e-5),
    }


def _stack(found: Variables, stack: str, n_heads: int | None) -> dict[str, Any]:
    """Return the settings of a stack, which have to be the same in both."""
    network = f"{stack}/layer_0/ffn"
    known = _GATED if f"{network}/linear_0_noact/weight" in found else _ACTIVATIONS
    activation = found.setting(stack, "activation", 0)
    if activation not in known:
        raise found.unsupported(f"{stack}/activation", " or ".join(map(str, known)))
    found.expect_off(*(f"{stack}/{it}" for it in _FLAGS))
    return {
        "model.n_heads": int(n_heads or found.setting(stack, "num_heads", 8)),
        "model.d_ff": len(found.matrix(f"{network}/linear_0/weight")),
        "model.feed_forward": known[int(activation)],
        "model.pre_norm": bool(found.setting(stack, "pre_norm", 1)),
        "model.final_norm": f"{stack}/layer_norm/gamma" in found,
        "model.embedding_norm": f"{stack}/layernorm_embedding/gamma" in found,
        "model.embedding_scale": found.embedding_scale(stack),
        "model.norm": "layer" if f"{network}/layer_norm/beta" in found else "rms",
        "model.bias": f"{network}/linear_1/bias" in found,
        "model.qkv_bias": f"{stack}/layer_0/self_attention/linear_0/bias" in found,
    }


def _attention(found: Variables) -> dict[str, Any]:
    """Return the settings of the attention layers."""
    kv, d_head, rotary = (found.shared(f"attention/{it}") for it in ("num_heads_kv", "head_dim", "rotary_dim"))
    if found.shared("attention/rotary_interleave"):
        raise found.unsupported("decoder/layer_0/self_attention/rotary_interleave", "0")
    return {
        "model.n_kv_heads": None if kv is None else int(kv),
        "model.d_head": None if d_head is None else int(d_head),
        "model.attention_scale": found.shared("attention/queries_scale"),
        "model.positions": "learned" if rotary is None else "rotary",
        "model.rotary": str(RotaryWavelengths(float(found.shared("attention/rotary_base") or 10_000.0))),
    }


def _positions(found: Variables, settings: Mapping[str, Any]) -> "tuple[dict[str, Any], dict[str, Tensor]]":
    """Return the settings of the position scheme, and its weights. A table that our schemes compute isn't one."""
    width, heads = settings["model.d_model"], settings["model.n_heads"]
    if settings["model.positions"] == "rotary":
        rotary, whole = found.shared("attention/rotary_dim"), settings["model.d_head"] or width // heads
        if rotary not in (0, whole):
            raise found.unsupported("decoder/layer_0/self_attention/rotary_dim", f"{whole}, the width of a head")
        return {"model.max_len": _LONGEST}, {}
    sides = [("encoder", "encoder."), ("decoder", "decoder.")]
    sides = sides if settings["model.topology"] == "encoder-decoder" else [("decoder", "")]
    tables = {ours: found.table(f"{stack}/position_encodings/encodings", _LONGEST, width) for stack, ours in sides}
    rows = min(map(len, tables.values()))
    for scheme in ("sinusoidal", "sinusoidal_halves"):
        ours = position_table(ModelConfig(positions=scheme, d_model=width, n_heads=1, max_len=rows), {}, "")
        if ours is not None and all(np.array_equal(table, ours) for table in tables.values()):
            return {"model.positions": scheme, "model.max_len": rows}, {}
    return {"model.max_len": rows}, {f"{ours}positions.table": _tensor(it[:rows]) for ours, it in tables.items()}


def _weights(found: Variables, model: ModelConfig) -> "dict[str, Tensor]":
    """Return our weights, without positions. Tied ones are the same tensor."""
    weights = {f"{ours}embedding.weight": found.matrix(_embedding(found, stack)) for stack, ours, _ in stacks(model)}
    decoder = "decoder." if model.topology == "encoder-decoder" else ""
    weights[f"{decoder}projection.weight"] = found.matrix("decoder/projection/weight")
    if model.projection_bias:
        weights[f"{decoder}projection.bias"] = found.matrix("decoder/projection/bias")
    for ours, theirs in linear_layers(model):
        for part in ("weight", "bias"):
            if f"{theirs[0]}/{part}" in found:
                weights[f"{ours}.{part}"] = np.concatenate([found.matrix(f"{name}/{part}") for name in theirs])
    for ours, their in norms(model):
        for part, name in (("weight", "gamma"), ("bias", "beta")):
            if f"{their}/{name}" in found:
                weights[f"{ours}.{part}"] = found.matrix(f"{their}/{name}")
    tensors = {name: _tensor(value) for name, value in weights.items()}
    if model.tie in ("all", "embeddings"):
        tensors["decoder.embedding.weight"] = tensors["encoder.embedding.weight"]
    if model.tie in ("all", "target"):
        tensors[f"{decoder}projection.weight"] = tensors[f"{decoder}embedding.weight"]
    return tensors


def _tensor(value: NDArray[np.float32]) -> "Tensor":
    import torch

    return torch.from_numpy(np.array(value))


def _embedding(found: Variables, stack: str) -> str:
    """Return the name of a stack's embedding. Newer encoders number theirs."""
    numbered = f"{stack}/embeddings_0/weight"
    return numbered if numbered in found else f"{stack}/embeddings/weight"
