"""The YAML of Marian's files, and the matching options in a config.json of Transformers.

In a file, each key has a scalar or a list of scalars. YAML libraries don't read all of its vocabularies, since they
take some characters of tokens for line breaks.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from ...errors import ModelError
from ...folder.manifest import read_bytes
from ...readers.columns import is_number

_COMMENT = re.compile(r"""("(?:\\.|[^"\\])*"|'[^']*')|(?:^|\s)#.*""")  # or a quoted scalar, which can have a #

Options: TypeAlias = Mapping[str, str | list[str]]

_FIX = "download the folder again"
_LONGEST = 1024  # tokens; nothing in a model limits them
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


def read_options(path: Path) -> dict[str, str | list[str]]:
    """Read a file of options, such as decoder.yml. See `parse_options`."""
    return parse_options(path, read_bytes(path))


def parse_options(path: Path, data: bytes) -> dict[str, str | list[str]]:
    """Return the value of each option.

    Args:
        path: the file, for messages.
        data: a mapping in YAML.

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
        raise ModelError(f"{path} isn't UTF-8: {error}", expected="text", fix=_FIX, name=path.name) from error


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
    return ModelError(what, expected=expected, fix=_FIX, name=path.name, line=number)


def layer_settings(path: Path, options: Options) -> dict[str, Any]:
    """Return the settings of the layers.

    Args:
        path: the file of the options, for messages.
        options: those of a model. Absent ones have the first supported value.

    Raises:
        ModelError: an option isn't supported.
    """
    for name, values in _SUPPORTED.items():
        if (value := options.get(name, values[0])) not in values:
            what = f"{path} has {name}={value!r}, which isn't supported"
            raise ModelError(what, expected=" or ".join(map(repr, values)), name=name, value=value)
    counts: dict[str, Any] = {ours: count(path, options, name) for ours, name in _COUNTS.items()}
    activation = options.get("transformer-ffn-activation", "swish")
    return counts | {"activation_function": activation, "scale_embedding": True, "max_position_embeddings": _LONGEST}


def count(path: Path, options: Options, name: str) -> int:
    """Return an option that is a positive integer. Raise ModelError if it's absent or anything else."""
    value = options.get(name)
    if not isinstance(value, str) or not value.isdecimal() or not int(value):
        raise ModelError(f"{path} has {name}={value!r}", expected="a positive integer", name=name, value=value)
    return int(value)


def factor(path: Path, options: Options, name: str) -> float:
    """Return an option that is a number, or 0 if it's absent. Raise ModelError if it's anything else."""
    value = options.get(name, "0")
    if not isinstance(value, str) or not is_number(value):
        raise ModelError(f"{path} has {name}={value!r}", expected="a number", name=name, value=value)
    return float(value)
