"""Read models in CTranslate2's form: model.bin, vocabularies and, from newer versions, config.json.

A package of Argos Translate holds such a model, and the SentencePiece model that splits its texts.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...config import ModelConfig
from ...config.notations import RotaryWavelengths
from ...decode.position_tables import position_table
from ...errors import ModelError
from ...folder.manifest import read_bytes, read_json_object
from ...tokenization.source_and_target import two_sides
from ..imported import Imported, complete
from ..sentencepiece_models import convert
from .binary import Variables, read_binary
from .weights import linear_layers, norms, stacks

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
    kind, variables = read_binary(folder / BINARY)
    if kind not in _STACKS:
        what = f"{folder / BINARY} has a model of the kind {kind}, which isn't supported"
        raise ModelError(what, expected=" or ".join(_STACKS), name="specification", value=kind)
    path, tokens = folder / CONFIG, _read_vocabularies(folder)
    theirs = read_json_object(path) if path.is_file() else {}
    found = Variables(folder / BINARY, variables)
    settings = _settings(found, kind, theirs)
    sizes = [settings[name] for name in ("model.src_vocab_size", "model.tgt_vocab_size") if settings[name]]
    settings |= (special := _special_tokens(folder, theirs, tokens, sizes))
    settings["train.task"] = task or ("translate" if len(_STACKS[kind]) > 1 else "generate")
    positions, tables = _positions(found, settings)
    config = complete(settings | positions, folder)
    weights = _weights(found, config.model) | tables
    found.expect_all_read()
    note = "texts are split at spaces only, so separate their tokens by spaces as in the model's training data"
    return Imported("CTranslate2", config, _tokenizer_text(tokens, special), weights, [note])


def _settings(found: Variables, kind: str, theirs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the model, without positions and special tokens."""
    sides, n_heads = _STACKS[kind], _N_HEADS.get(kind)
    first, *others = (_stack(found, stack, n_heads) for stack in sides)
    for other in others:
        for name, value in first.items():
            if other[name] != value:
                what = f"{found.path} has {name}={value} in the encoder and {other[name]} in the decoder"
                raise ModelError(what, expected="the same in both", name=name, value=value)
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


def _positions(found: Variables, settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Tensor]]:
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


def _weights(found: Variables, model: ModelConfig) -> dict[str, Tensor]:
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


def _tensor(value: NDArray[np.float32]) -> Tensor:
    return torch.from_numpy(np.array(value))


def _embedding(found: Variables, stack: str) -> str:
    """Return the name of a stack's embedding. Newer encoders number theirs."""
    numbered = f"{stack}/embeddings_0/weight"
    return numbered if numbered in found else f"{stack}/embeddings/weight"


# --- packages of Argos Translate

_METADATA, _MODEL, _SENTENCEPIECE, _BPE = "metadata.json", "model", "sentencepiece.model", "bpe.model"
# Argos Translate searches like this, and with CTranslate2's default that no answer is empty.
_SEARCH = {"decode.beam": 4, "decode.alpha": 0.2, "decode.min_len": 1}


def is_argos_package(folder: Path) -> bool:
    """Return whether a folder is a package of Argos Translate. Folders of Transformers can have such metadata, too."""
    return (folder / _METADATA).is_file() and not (folder / CONFIG).is_file()


def read_argos_package(folder: Path, task: str | None = None) -> Imported:
    """Read the model of a package.

    Args:
        folder: the unpacked package.
        task: the task to use the model for (default: translate).

    Raises:
        ConfigError: the SentencePiece library isn't installed.
        ModelError: a file is missing or damaged, or the model has something that isn't supported.
    """
    _check_package(folder)
    model = folder / _MODEL
    imported = read_ct2_folder(model, task)
    sides = [
        convert(folder / _SENTENCEPIECE, {token: i for i, token in reversed([*enumerate(tokens)])})
        for tokens in _read_vocabularies(model)
    ]
    return replace(
        imported,
        title="Argos Translate",
        config=imported.config.assign(_SEARCH, "model"),
        tokenizer=sides[0] if len(sides) == 1 else two_sides(*sides),
        notes=[],
    )


def _check_package(folder: Path) -> None:
    """Raise ModelError if a package has no model, or one that splits or begins texts in an unsupported way."""
    path, metadata = folder / _METADATA, read_json_object(folder / _METADATA)
    for name, supported in (("type", "translate"), ("target_prefix", "")):
        if (value := metadata.get(name) or supported) != supported:
            what = f"{path} has {name}={value!r}, which isn't supported"
            raise ModelError(what, expected=supported or "no prefix", name=name, value=value)
    if not is_ct2_folder(folder / _MODEL):
        expected = f"a CTranslate2 model in the folder {_MODEL}"
        raise ModelError(f"{folder} has no {_MODEL}/{BINARY}", expected=expected, name=_MODEL)
    if not (folder / _SENTENCEPIECE).is_file():
        has = f"has {_BPE}, which isn't supported" if (folder / _BPE).is_file() else f"has no {_SENTENCEPIECE}"
        fix = "use a package whose tokenizer is a SentencePiece model"
        raise ModelError(f"{folder} {has}", expected=_SENTENCEPIECE, fix=fix, name=_SENTENCEPIECE)


# --- vocabularies: a tokenizer that splits texts at spaces, and special tokens

_FILES = (("source_vocabulary", "target_vocabulary"), ("shared_vocabulary",), ("vocabulary",))
_DEFAULTS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
_PADDING = ("<blank>", "<pad>")


def _read_vocabularies(folder: Path) -> list[list[str]]:
    """Return the tokens of each side, source first, or of both.

    Raises:
        ModelError: a file is missing or damaged.
    """
    for names in _FILES:
        paths = [it for name in names for it in (folder / f"{name}.json", folder / f"{name}.txt") if it.is_file()]
        if len(paths) >= len(names):
            return [_read_vocabulary(path) for path in paths]
    expected = "source_vocabulary and target_vocabulary, as .json or .txt"
    raise ModelError(f"{folder} has no vocabulary", expected=expected, name="folder")


def _special_tokens(
    folder: Path, settings: Mapping[str, Any], vocabularies: Sequence[Sequence[str]], sizes: Sequence[int]
) -> dict[str, int | None]:
    """Return our settings for special tokens.

    Args:
        folder: the folder, for messages.
        settings: the content of config.json.
        vocabularies: the tokens of each side.
        sizes: the numbers of tokens that the model has on each side.

    Raises:
        ModelError: BOS or EOS is missing, or a special token has another id on the other side.
    """
    names = {name: settings.get(name) or default for name, default in _DEFAULTS.items()}
    bos, eos, unk = (_token_id(folder, token, vocabularies) for token in names.values())
    pads = [i for i in (_token_id(folder, name, vocabularies) for name in _PADDING) if i is not None]
    start = _token_id(folder, settings.get("decoder_start_token") or names["bos_token"], vocabularies[-1:])
    if not pads and len(set(sizes)) > 1:
        what, expected = f"{folder} has no token for padding", " or ".join(_PADDING)
        raise ModelError(what, expected=expected, name=f"{_FILES[0][0]}.txt")
    for name, i in (("bos_token", bos), ("eos_token", eos)):
        if i is None:
            raise ModelError(f"{folder} has no token {names[name]!r} in its vocabulary", name=name, value=names[name])
    return {
        "model.bos_id": bos,
        "model.eos_id": eos,
        "model.unk_id": None if unk in (bos, eos, start) else unk,
        "model.mask_id": None,
        "model.start_id": None if start == bos else start,
        "model.pad_id": pads[0] if pads else sizes[0],
    }


def _tokenizer_text(vocabularies: Sequence[Sequence[str]], special: Mapping[str, int | None]) -> str:
    """Return the content of a tokenizer file. A text is split at spaces, and each part is a token."""
    names = [_tokenizer(tokens, special) for tokens in vocabularies]
    return names[0] if len(names) == 1 else two_sides(*names)


def _tokenizer(tokens: Sequence[str], special: Mapping[str, int | None]) -> str:
    vocab = {token: i for i, token in reversed([*enumerate(tokens)])}  # the first of equal tokens counts
    unk = special["model.unk_id"]
    unknown = "" if unk is None else tokens[unk]
    found = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocab, unk_token=unknown))
    found.pre_tokenizer = tokenizers.pre_tokenizers.Split(" ", "removed")
    found.add_special_tokens([tokens[i] for i in {*special.values()} if i is not None and i < len(tokens)])
    return str(found.to_str())


def _read_vocabulary(path: Path) -> list[str]:
    try:
        text = read_bytes(path).decode()
        found = json.loads(text) if path.suffix == ".json" else text.removesuffix("\n").split("\n")
    except ValueError as error:
        raise ModelError(f"{path} is damaged: {error}", fix="copy the file again", name=path.name) from error
    if not isinstance(found, list) or not all(isinstance(it, str) for it in found):
        raise ModelError(f"{path} is damaged", expected="a list of tokens", fix="copy the file again", name=path.name)
    return found


def _token_id(folder: Path, token: str, vocabularies: Sequence[Sequence[str]]) -> int | None:
    """Return the id of a special token, or None if no vocabulary has it."""
    ids = {tokens.index(token) if token in tokens else None for tokens in vocabularies}
    if len(ids) > 1:
        what = f"{folder} has the special token {token!r} at different places in its two vocabularies"
        raise ModelError(what, expected="the same id on both sides", name="special token", value=token)
    return ids.pop()
