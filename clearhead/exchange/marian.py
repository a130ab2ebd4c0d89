"""Downloads of OPUS-MT (Tiedemann and Thottingal 2020): Marian's weights, vocabularies and SentencePiece models.

Options and weights get the names and the form that they have in Transformers, whose reader does the rest.
"""

import io
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import ModelError, shortened
from ..folder.manifest import read_bytes
from ..readers.columns import is_number
from .hf_tokenizers import checked_ids
from .huggingface import CONFIG, FAMILIES, read_parts
from .imported import Imported
from .sentencepiece_models import convert_sides
from .weight_names import AGAIN, TensorsInMemory

_DECODER, _EOS, _UNK, _PAD = "decoder.yml", "</s>", "<unk>", "<pad>"
_OPTIONS = "special:model.yml"  # the array with the model's own options
_LONGEST_ANSWER = 512  # tokens, as in OPUS-MT's folders for Transformers
_LONGEST = 1024  # tokens; nothing in a model limits them
_MOST = 16  # times the size of a file that its arrays can have in all
_COMMENT = re.compile(r"""("(?:\\.|[^"\\])*"|'[^']*')|(?:^|\s)#.*""")  # or a quoted scalar, which can have a #
# The values of options that are supported. Any other one would change what the model computes.
_SUPPORTED: Mapping[str, tuple[str | list[str], ...]] = {
    "type": ("transformer",),
    "right-left": ("false",),
    "transformer-decoder-autoreg": ("self-attention",),
    "transformer-decoder-ffn-depth": ("0", "2"),
    "transformer-ffn-activation": ("swish", "relu"),
    "transformer-ffn-depth": ("2",),
    "transformer-no-projection": ("false",),
    "transformer-postprocess": ("dan",),
    "transformer-postprocess-emb": ("d", ""),
    "transformer-postprocess-top": ("",),
    "transformer-preprocess": ("",),
    "transformer-tied-layers": ([],),
    "transformer-train-position-embeddings": ("false",),
}
_COUNTS = {
    "d_model": "dim-emb",
    "encoder_layers": "enc-depth",
    "decoder_layers": "dec-depth",
    "encoder_attention_heads": "transformer-heads",
    "decoder_attention_heads": "transformer-heads",
    "encoder_ffn_dim": "transformer-dim-ffn",
    "decoder_ffn_dim": "transformer-dim-ffn",
}
_ATTENTIONS = {"encoder": {"self": "self_attn"}, "decoder": {"self": "self_attn", "context": "encoder_attn"}}

Options: TypeAlias = Mapping[str, str | list[str]]


def is_opus_folder(folder: Path) -> bool:
    """Return whether a folder has weights in Marian's form, and no model of Transformers."""
    return any(folder.glob("*.npz")) and not (folder / CONFIG).is_file()


def read_opus_folder(folder: Path, task: str | None = None) -> Imported:
    """Read the model of a folder.

    Args:
        folder: a folder such as OPUS-MT's zip files contain.
        task: the task to use the model for (default: translate).

    Raises:
        ConfigError: the SentencePiece library isn't installed.
        ModelError: a file is missing or damaged, or the model has something that isn't supported.
    """
    options = folder / _DECODER
    decoder = parse_options(options, read_bytes(options))
    (path, *others), vocabularies = (_files(folder, decoder, name) for name in ("models", "vocabs"))
    arrays = _read_npz(path)
    settings = _layer_settings(path, parse_options(path, arrays.pop(_OPTIONS).tobytes().rstrip(b"\0")))
    weights = _weights(path, arrays, {stack: settings[f"{stack}_layers"] for stack in _ATTENTIONS})
    own = [f"{stack}.embed_tokens.weight" for stack in _ATTENTIONS]
    tables = own if own[0] in weights.tensors else ["shared.weight"] * 2
    source, target = (_ids(vocabularies[i], len(weights.read(table)), path) for i, table in zip((0, -1), tables))
    if any(source[name] != target[name] for name in (_EOS, _UNK, _PAD)):
        what = f"{vocabularies[0]} and {vocabularies[-1].name} differ in their special tokens or in size"
        raise ModelError(what, expected=f"the same ids of {_EOS} and {_UNK}, and as many tokens", name="vocabs")
    settings |= {"vocab_size": len(source), "decoder_vocab_size": len(target)}
    settings["share_encoder_decoder_embeddings"] = tables[0] == tables[1]
    settings["tie_word_embeddings"] = "lm_head.weight" not in weights.tensors
    settings |= {"eos_token_id": target[_EOS], "pad_token_id": target[_PAD], "decoder_start_token_id": target[_PAD]}
    settings |= {"num_beams": _count(options, decoder, "beam-size"), "max_length": _LONGEST_ANSWER}
    settings["length_penalty"] = _factor(options, decoder, "normalize")
    settings["bad_words_ids"] = [[target[_PAD]]]
    tokenizer = convert_sides(folder, source, target)
    imported = read_parts(FAMILIES["marian"], path, settings, weights, tokenizer, task)
    if penalty := _factor(options, decoder, "word-penalty"):
        imported.notes.append(f"word-penalty={penalty:g} in {_DECODER} has no counterpart, so answers can differ")
    imported.notes.extend(f"{it.name}, which {_DECODER} lists too, isn't read" for it in others)
    return imported


def _files(folder: Path, decoder: Options, name: str) -> list[Path]:
    """Return the files that decoder.yml lists under a name."""
    listed = decoder.get(name, [])
    names = [listed] if isinstance(listed, str) else listed
    if not names or any(Path(it).name != it for it in names):
        what = f"{folder / _DECODER} has {name}={names}"
        raise ModelError(what, expected="the names of files in this folder", name=name, value=names)
    return [folder / it for it in names]


def _ids(path: Path, rows: int, model: Path) -> dict[str, int]:
    """Return the ids of a vocabulary's tokens, and after them that of padding, the decoder's first input."""
    found = read_vocabulary(path)
    if missing := [name for name in (_EOS, _UNK) if name not in found]:
        raise ModelError(f"{path} has no {missing[0]}", expected="a vocabulary of Marian", name=path.name)
    ids = checked_ids(path, found | {_PAD: len(found)})
    if len(ids) != rows:
        what = f"{path} has {len(found):,} tokens, but {model.name} has embeddings for {rows - 1:,}"
        raise ModelError(what, expected="the vocabulary of this model", name=path.name, value=len(found))
    return ids


# --- options and vocabularies in YAML


def parse_options(path: Path, data: bytes) -> dict[str, str | list[str]]:
    """Return the value of each option in a mapping in YAML. `path` is the file, for messages.

    Each key has a scalar or a list of scalars. YAML libraries don't read all of Marian's vocabularies, since they take
    some characters of tokens for line breaks.

    Raises:
        ModelError: a line is something else.
    """
    found: dict[str, str | list[str]] = {}
    values: list[str] | None = None  # the list in progress
    for number, line in enumerate(_lines(path, data), 1):
        text = _COMMENT.sub(r"\1", line).strip()
        if not text or text == "---":
            continue
        if values is not None and (text.startswith("- ") or text == "[]"):
            values += [_scalar(text[2:].strip())] if text != "[]" else []
            continue
        key, colon, value = text.partition(":")
        if not colon or line[0] == " ":
            raise _unreadable(path, number, line, "KEY: VALUE, or an item of a list")
        values = None if value else []
        found[key] = _value(value.strip()) if values is None else values
    return found


def read_vocabulary(path: Path) -> dict[str, int]:
    """Return the id of each token: as a YAML file says, or the number of its line in any other file.

    Raises:
        ModelError: the file is missing or damaged.
    """
    lines = _lines(path, read_bytes(path))
    if path.suffix not in (".yml", ".yaml"):
        return {token: i for i, token in enumerate(lines)}
    found: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line or line.startswith("#"):
            continue
        token, _, i = line.rpartition(":")
        if not (token and i.strip().isdecimal()):
            raise _unreadable(path, number, line, "TOKEN: ID")
        found[_scalar(token.strip(" "))] = int(i)
    return found


def _lines(path: Path, data: bytes) -> list[str]:
    """Return the lines of a file, which end with a line feed only."""
    try:
        return [line.removesuffix("\r") for line in data.decode().removesuffix("\n").split("\n")]
    except UnicodeDecodeError as error:
        raise ModelError(f"{path} isn't UTF-8: {error}", expected="text", fix=AGAIN, name=path.name) from error


def _value(text: str) -> str | list[str]:
    if text.startswith("[") and text.endswith("]"):
        return [_scalar(it.strip()) for it in text[1:-1].split(",") if it.strip()]
    return _scalar(text)


def _scalar(text: str) -> str:
    """Return a scalar without its quotes and escapes."""
    if len(text) > 1 and text[0] == text[-1] == '"':
        return text[1:-1].encode("ascii", "backslashreplace").decode("unicode_escape", "replace")
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    return text


def _unreadable(path: Path, number: int, line: str, expected: str) -> ModelError:
    what = f"{path} is damaged in line {number:,}: {line!r}"
    return ModelError(what, expected=expected, fix=AGAIN, name=path.name, line=number)


def _layer_settings(path: Path, options: Options) -> dict[str, Any]:
    """Return the settings of the layers. Absent options have the first supported value."""
    for name, values in _SUPPORTED.items():
        if (value := options.get(name, values[0])) not in values:
            what = f"{path} has {name}={value!r}, which isn't supported"
            raise ModelError(what, expected=" or ".join(map(repr, values)), name=name, value=value)
    counts: dict[str, Any] = {ours: _count(path, options, name) for ours, name in _COUNTS.items()}
    activation = options.get("transformer-ffn-activation", "swish")
    return counts | {"activation_function": activation, "scale_embedding": True, "max_position_embeddings": _LONGEST}


def _count(path: Path, options: Options, name: str) -> int:
    """Return an option that is a positive integer. Raise ModelError if it's absent or anything else."""
    value = options.get(name)
    if not isinstance(value, str) or not value.isdecimal() or not int(value):
        raise ModelError(f"{path} has {name}={value!r}", expected="a positive integer", name=name, value=value)
    return int(value)


def _factor(path: Path, options: Options, name: str) -> float:
    """Return an option that is a number, or 0 if it's absent. Raise ModelError if it's anything else."""
    value = options.get(name, "0")
    if not isinstance(value, str) or not is_number(value):
        raise ModelError(f"{path} has {name}={value!r}", expected="a number", name=name, value=value)
    return float(value)


# --- weights


def _read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file. The one named _OPTIONS has the bytes of a text, and the others are in float32."""
    data = read_bytes(path)
    try:
        with np.load(io.BytesIO(data)) as file:
            size = sum(it.file_size for it in file.zip.infolist())
            if size > _MOST * len(data):
                raise ValueError(f"its {len(data):,} bytes unpack to {size:,}")
            options, arrays = file[_OPTIONS], {name: file[name] for name in file.files if name != _OPTIONS}
        for name, array in arrays.items():
            if array.dtype.kind != "f" or array.ndim not in (1, 2):
                raise ValueError(f"{name} has the type {array.dtype} and the shape {array.shape}")
    except Exception as error:  # numpy and zipfile raise several classes
        what = f"{path} isn't a model of Marian: {error}"
        raise ModelError(what, expected=f"an .npz file with {_OPTIONS}", fix=AGAIN, name=path.name) from error
    return {_OPTIONS: options} | {name: it.astype(np.float32, copy=False) for name, it in arrays.items()}


def _weights(path: Path, arrays: Mapping[str, NDArray[Any]], depths: Mapping[str, int]) -> TensorsInMemory:
    """Return the weights of a model with these numbers of layers in its stacks.

    Raises:
        ModelError: weights are missing, or there are some that aren't supported.
    """
    names = dict(_tables(arrays))
    for stack, depth in depths.items():
        for i in range(min(depth, len(arrays))):  # with more layers, some are missing anyway
            names |= _layer(f"{stack}_l{i + 1}", f"{stack}.layers.{i}", _ATTENTIONS[stack])
    missing, unknown = sorted(names.keys() - arrays), sorted(arrays.keys() - names)
    if missing or unknown:
        has = f"no {shortened(missing)}" if missing else f"{shortened(unknown)}, which isn't supported"
        expected = " and ".join(f"{depth} layers in the {stack}" for stack, depth in depths.items())
        raise ModelError(f"{path} has {has}", expected=f"the weights of {expected}", name=(missing + unknown)[0])
    return TensorsInMemory({name: _converted(theirs, name, arrays[theirs]) for theirs, name in names.items()})


def _tables(known: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield Marian's name and that of Transformers for each weight outside the layers."""
    if "Wemb" in known:
        yield "Wemb", "shared.weight"
    else:
        yield from ((f"{stack}_Wemb", f"{stack}.embed_tokens.weight") for stack in _ATTENTIONS)
        if "decoder_ff_logit_out_W" in known:
            yield "decoder_ff_logit_out_W", "lm_head.weight"
    yield "decoder_ff_logit_out_b", "final_logits_bias"


def _layer(theirs: str, name: str, attentions: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield Marian's name and that of Transformers for each weight of a layer."""
    layers = [(f"ffn_W{i}", f"ffn_b{i}", f"fc{i}") for i in (1, 2)]
    layers += [("ffn_ffn_ln_scale", "ffn_ffn_ln_bias", "final_layer_norm")]
    for part, attention in attentions.items():
        layers += [(f"{part}_W{it}", f"{part}_b{it}", f"{attention}.{it}_proj") for it in "qkv"]
        layers += [(f"{part}_Wo", f"{part}_bo", f"{attention}.out_proj")]
        layers += [(f"{part}_Wo_ln_scale", f"{part}_Wo_ln_bias", f"{attention}_layer_norm")]
    for weight, bias, own in layers:
        yield f"{theirs}_{weight}", f"{name}.{own}.weight"
        yield f"{theirs}_{bias}", f"{name}.{own}.bias"


def _converted(theirs: str, name: str, array: NDArray[Any]) -> Tensor:
    """Return an array as Transformers has it.

    A matrix has a row for each output, and a vector has one dimension. The vocabularies get one more token, the
    decoder's first input. Its embedding is zero.
    """
    if name.endswith("bias") or "norm." in name:
        array = array.reshape(-1)
    elif "Wemb" not in theirs:
        array = array.T
    if "Wemb" in theirs or "logit_out" in theirs:
        array = np.concatenate((array, np.zeros((1, *array.shape[1:]), array.dtype)))
    return torch.from_numpy(np.ascontiguousarray(array))
