"""Vocabularies of a CTranslate2 model, as a tokenizer that splits texts at spaces, and their special tokens."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers

from ...errors import ModelError
from ...folder.manifest import read_bytes
from ...tokenization.source_and_target import two_sides

FILES = (("source_vocabulary", "target_vocabulary"), ("shared_vocabulary",), ("vocabulary",))
_DEFAULTS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
_PADDING = ("<blank>", "<pad>")


def read_vocabularies(folder: Path) -> list[list[str]]:
    """Return the tokens of each side, source first, or of both.

    Raises:
        ModelError: a file is missing or damaged.
    """
    for names in FILES:
        paths = [it for name in names for it in (folder / f"{name}.json", folder / f"{name}.txt") if it.is_file()]
        if len(paths) >= len(names):
            return [_read(path) for path in paths]
    raise ModelError(
        f"{folder} has no vocabulary",
        expected="source_vocabulary and target_vocabulary, as .json or .txt",
        name="folder",
    )


def special_tokens(
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
    bos, eos, unk = (_id(folder, token, vocabularies) for token in names.values())
    pads = [i for i in (_id(folder, name, vocabularies) for name in _PADDING) if i is not None]
    start = _id(folder, settings.get("decoder_start_token") or names["bos_token"], vocabularies[-1:])
    if not pads and len(set(sizes)) > 1:
        raise ModelError(
            f"{folder} has no token for padding", expected=" or ".join(_PADDING), name=f"{FILES[0][0]}.txt"
        )
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


def tokenizer_text(vocabularies: Sequence[Sequence[str]], special: Mapping[str, int | None]) -> str:
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


def _read(path: Path) -> list[str]:
    try:
        text = read_bytes(path).decode()
        found = json.loads(text) if path.suffix == ".json" else text.removesuffix("\n").split("\n")
    except ValueError as error:
        raise ModelError(f"{path} is damaged: {error}", fix="copy the file again", name=path.name) from error
    if not isinstance(found, list) or not all(isinstance(it, str) for it in found):
        raise ModelError(f"{path} is damaged", expected="a list of tokens", fix="copy the file again", name=path.name)
    return found


def _id(folder: Path, token: str, vocabularies: Sequence[Sequence[str]]) -> int | None:
    """Return the id of a special token, or None if no vocabulary has it."""
    ids = {tokens.index(token) if token in tokens else None for tokens in vocabularies}
    if len(ids) > 1:
        raise ModelError(
            f"{folder} has the special token {token!r} at different places in its two vocabularies",
            expected="the same id on both sides",
            name="special token",
            value=token,
        )
    return ids.pop()
