"""Tokenizers in Hugging Face folders, in whichever files they are, as the text of one `tokenizers` file."""

import json
from itertools import takewhile
from pathlib import Path
from typing import Any

import tokenizers

from ..errors import ModelError
from ..folder.manifest import parse_json_object, read_bytes
from . import sentencepiece_models

_FILES = "tokenizer.json, vocab.json and merges.txt, or a SentencePiece model"
_SOURCE, _TARGET = "source.spm", "target.spm"
_SENTENCEPIECE = ("spiece.model", "tokenizer.model", "sentencepiece.bpe.model")


def read_tokenizer(folder: Path) -> str:
    """Return the content of tokenizer.json, or make it from older files.

    If sources and targets are split differently, it's {"source": ..., "target": ...}.

    Raises:
        ConfigError: a library that reads the files isn't installed.
        ModelError: there is no tokenizer, or it's damaged.
    """
    whole = folder / "tokenizer.json"
    if whole.is_file():
        parse_json_object(whole, content := read_bytes(whole))
        return content.decode()
    if (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        return _byte_level(folder / "vocab.json", folder / "merges.txt")
    if (folder / _SOURCE).is_file() and (folder / _TARGET).is_file():
        return _two_sides(folder)
    for name in _SENTENCEPIECE:
        if (folder / name).is_file():
            return sentencepiece_models.convert(folder / name)
    raise ModelError(f"{folder} has no tokenizer", expected=_FILES, name="folder", value=folder)


def _two_sides(folder: Path) -> str:
    """Return Marian's tokenizers: one vocabulary, and a SentencePiece model for each side."""
    ids = parse_json_object(folder / "vocab.json", read_bytes(folder / "vocab.json"))
    source, target = (sentencepiece_models.convert(folder / name, ids) for name in (_SOURCE, _TARGET))
    return source if source == target else f'{{"source": {source},\n"target": {target}}}'


def token_ids(text: str) -> dict[str, int]:
    """Return the id of each token in the text of a `tokenizers` file. Those of two sides are the same."""
    content = json.loads(text)
    content = content.get("target", content)
    vocab: Any = content["model"]["vocab"]
    found = {it[0]: i for i, it in enumerate(vocab)} if isinstance(vocab, list) else dict(vocab)
    return found | {it["content"]: it["id"] for it in content.get("added_tokens", ())}


def tokens_before(text: str) -> list[int]:
    """Return the special tokens that a `tokenizers` file puts before a text."""
    post = json.loads(text).get("post_processor") or {}
    for step in post.get("processors", [post]):
        if step.get("type") == "TemplateProcessing":
            names = list(takewhile(lambda name: name is not None, map(_special, step["single"])))
            return [i for name in names for i in step["special_tokens"][name]["ids"]]
        if "cls" in step:  # of BERT and RoBERTa
            return [step["cls"][1]]
    return []


def _special(part: dict[str, Any]) -> str | None:
    """Return the name of a special token in a template, or None for a text."""
    return part.get("SpecialToken", {}).get("id")


def _byte_level(vocab: Path, merges: Path) -> str:
    """Return GPT-2's tokenizer, whose tokens are spelled in an alphabet of bytes."""
    ids = parse_json_object(vocab, read_bytes(vocab))
    rows = read_bytes(merges).decode().split("\n")
    pairs = [tuple(row.split(" ")) for row in rows if row and not row.startswith("#version")]
    try:
        model = tokenizers.models.BPE(vocab=ids, merges=pairs)  # type: ignore[arg-type]
    except Exception as error:  # the library raises no other class
        raise ModelError(f"{merges} doesn't fit {vocab.name}: {error}", name=merges.name) from error
    found = tokenizers.Tokenizer(model)
    found.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    found.decoder = tokenizers.decoders.ByteLevel()
    special = [name for name in ("<|endoftext|>",) if name in ids]
    found.add_special_tokens(special)
    return str(found.to_str())
