"""Tokenizers in Hugging Face folders, in whichever files they are, as the text of one `tokenizers` file."""

import json
from itertools import takewhile
from pathlib import Path
from typing import Any

import tokenizers

from ..errors import ModelError
from ..folder.manifest import parse_json_object, read_bytes

_FILES = "tokenizer.json, or vocab.json and merges.txt"


def read_tokenizer(folder: Path) -> str:
    """Return the content of tokenizer.json, or make it from older files.

    Raises:
        ModelError: there is no tokenizer, or it's damaged.
    """
    whole = folder / "tokenizer.json"
    if whole.is_file():
        parse_json_object(whole, content := read_bytes(whole))
        return content.decode()
    if (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        return _byte_level(folder / "vocab.json", folder / "merges.txt")
    raise ModelError(f"{folder} has no tokenizer", expected=_FILES, name="folder", value=folder)


def token_ids(text: str) -> dict[str, int]:
    """Return the id of each token in the text of a `tokenizers` file."""
    content = json.loads(text)
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
