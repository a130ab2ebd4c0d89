"""Tokenizers in Hugging Face folders, in whichever files they are, as the text of one `tokenizers` file."""

import json
from collections.abc import Iterable, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

import tokenizers

from ..config import DataConfig
from ..errors import ModelError
from ..folder.manifest import parse_json_object, read_bytes
from ..tokenization.tokenizer import Tokenizer
from . import sentencepiece_models

_FILES = "tokenizer.json, vocab.json and merges.txt, vocab.txt, or a SentencePiece model"
TOKENIZER, TARGET_TOKENIZER = "tokenizer.json", "target_tokenizer.json"
_SOURCE, _TARGET = "source.spm", "target.spm"
_SENTENCEPIECE = ("spiece.model", "tokenizer.model", "sentencepiece.bpe.model")
SETTINGS = "tokenizer_config.json"
_ROLES = ("bos", "eos", "cls", "sep", "pad", "unk", "mask")
# Names that a family's own class gives to special tokens, if no file does.
_BYTE_LEVEL = {"bos": "<s>", "eos": "</s>", "cls": "<s>", "sep": "</s>"}
_BYTE_LEVEL |= {"pad": "<pad>", "unk": "<unk>", "mask": "<mask>"}
_WORD_PIECE = {"cls": "[CLS]", "sep": "[SEP]", "pad": "[PAD]", "unk": "[UNK]", "mask": "[MASK]"}


def read_tokenizer(folder: Path) -> str:
    """Return the content of tokenizer.json, or make it from older files.

    If sources and targets are split differently, it's {"source": ..., "target": ...}.

    Raises:
        ConfigError: a library that reads the files isn't installed.
        ModelError: there is no tokenizer, or it's damaged.
    """
    whole, target = folder / TOKENIZER, folder / TARGET_TOKENIZER
    if whole.is_file():
        sides = [_text(path) for path in (whole, target) if path.is_file()]
        return sides[0] if len(sides) == 1 else _two(*sides)
    if (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        return _finished(_byte_level(folder), folder)
    if (folder / "vocab.txt").is_file():
        return _finished(_word_piece(folder), folder)
    if (folder / _SOURCE).is_file() and (folder / _TARGET).is_file():
        path = folder / "vocab.json"
        ids = parse_json_object(path, read_bytes(path))
        return _two(*(sentencepiece_models.convert(folder / name, ids) for name in (_SOURCE, _TARGET)))
    for name in _SENTENCEPIECE:
        if (folder / name).is_file():
            return sentencepiece_models.convert(folder / name)
    raise ModelError(f"{folder} has no tokenizer", expected=_FILES, name="folder", value=folder)


def _text(path: Path) -> str:
    parse_json_object(path, content := read_bytes(path))
    try:
        tokenizers.Tokenizer.from_buffer(content)
    except Exception as error:  # the library raises no other class
        what = f"{path} isn't a file of the tokenizers library: {error}"
        raise ModelError(what, fix="download the folder again", name=path.name) from error
    return content.decode()


def _two(source: str, target: str) -> str:
    """Return one text for the tokenizers of both sides."""
    return source if source == target else f'{{"source": {source},\n"target": {target}}}'


def no_tokenizer() -> str:
    """Return the tokenizer of a model that doesn't read text: one that learned from nothing."""
    return Tokenizer.train((), DataConfig()).to_json()


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


def token_roles(folder: Path, ids: Mapping[str, int]) -> dict[str, int]:
    """Return the ids of the special tokens that a folder's files name, by role, such as "cls"."""
    return {role: ids[name] for role, name in _role_names(folder).items() if name in ids}


def _role_names(folder: Path) -> dict[str, str]:
    given = _object(folder / "special_tokens_map.json") | _object(folder / SETTINGS)
    found = {role: given.get(f"{role}_token") for role in _ROLES}
    names = {role: it.get("content") if isinstance(it, dict) else it for role, it in found.items()}
    return {role: name for role, name in names.items() if isinstance(name, str)}


def _object(path: Path) -> dict[str, Any]:
    """Return the content of a JSON file that may be missing."""
    return parse_json_object(path, read_bytes(path)) if path.is_file() else {}


def _byte_level(folder: Path) -> tokenizers.Tokenizer:
    """Return GPT-2's or RoBERTa's tokenizer, whose tokens are spelled in an alphabet of bytes."""
    vocab, merges = folder / "vocab.json", folder / "merges.txt"
    ids = parse_json_object(vocab, read_bytes(vocab))
    rows = read_bytes(merges).decode().split("\n")
    pairs = [tuple(row.split(" ")) for row in rows if row and not row.startswith("#version")]
    try:
        model = tokenizers.models.BPE(vocab=ids, merges=pairs)  # type: ignore[arg-type]
    except Exception as error:  # the library raises no other class
        raise ModelError(f"{merges} doesn't fit {vocab.name}: {error}", name=merges.name) from error
    found = tokenizers.Tokenizer(model)
    space = bool(_object(folder / SETTINGS).get("add_prefix_space", False))
    found.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=space)
    found.decoder = tokenizers.decoders.ByteLevel()
    named = {role: name for role, name in _BYTE_LEVEL.items() if name in ids} | _role_names(folder)
    _add_special(found, ids, ["<|endoftext|>", *(name for role, name in named.items() if role != "mask")])
    if named.get("mask") in ids:
        found.add_special_tokens([tokenizers.AddedToken(named["mask"], lstrip=True)])  # a mask includes its space
    if "cls" in named and "sep" in named:
        cls, sep = ((named[role], ids[named[role]]) for role in ("cls", "sep"))
        found.post_processor = tokenizers.processors.RobertaProcessing(sep, cls, add_prefix_space=space)
    return found


def _word_piece(folder: Path) -> tokenizers.Tokenizer:
    """Return BERT's tokenizer (Wu et al. 2016, section 4.1), whose vocabulary has a token on each line."""
    settings = _object(folder / SETTINGS)
    if settings.get("do_basic_tokenize", True) is not True:
        what = f"{folder / SETTINGS} has do_basic_tokenize=false, which isn't supported without tokenizer.json"
        raise ModelError(what, expected="true", name="do_basic_tokenize", value=False)
    rows = read_bytes(folder / "vocab.txt").decode().replace("\r\n", "\n").removesuffix("\n").split("\n")
    ids, named = {row: i for i, row in enumerate(rows)}, _WORD_PIECE | _role_names(folder)
    found = tokenizers.Tokenizer(tokenizers.models.WordPiece(ids, unk_token=named["unk"]))
    found.normalizer = tokenizers.normalizers.BertNormalizer(
        handle_chinese_chars=settings.get("tokenize_chinese_chars", True),
        strip_accents=settings.get("strip_accents"),
        lowercase=settings.get("do_lower_case", True),
    )
    found.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    found.decoder = tokenizers.decoders.WordPiece()
    _add_special(found, ids, named.values())
    if (cls := named["cls"]) in ids and (sep := named["sep"]) in ids:
        found.post_processor = tokenizers.processors.BertProcessing((sep, ids[sep]), (cls, ids[cls]))
    return found


def _add_special(tokenizer: tokenizers.Tokenizer, ids: Mapping[str, int], names: Iterable[str]) -> None:
    """Mark tokens of the vocabulary as special."""
    tokenizer.add_special_tokens([name for name in dict.fromkeys(names) if name in ids])


def _finished(tokenizer: tokenizers.Tokenizer, folder: Path) -> str:
    """Return the text of a tokenizer made from older files, with the tokens that were added to it later.

    Raises:
        ModelError: the added tokens don't continue the vocabulary.
    """
    path = folder / "added_tokens.json"
    for name, i in sorted(_object(path).items(), key=lambda it: it[1]):
        tokenizer.add_tokens([name])
        if tokenizer.token_to_id(name) != i:
            what = f"{path} gives {name!r} the id {i}, but the vocabulary continues with {tokenizer.token_to_id(name)}"
            raise ModelError(what, expected="the files of one tokenizer", name=path.name, value=i)
    return str(tokenizer.to_str())
