"""Tokenizers in Hugging Face folders: read from whichever files as the text of one `tokenizers` file, and written."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, pre_tokenizers

from ..config import DataConfig, ModelConfig
from ..errors import ModelError
from ..folder.manifest import read_bytes, read_json_object
from ..tokenization.backend import as_exceptions, open_backend
from ..tokenization.source_and_target import Tokenizers, two_sides
from ..tokenization.tokenizer import Tokenizer
from . import sentencepiece_models
from .sentencepiece_models import UNSEEN

_FILES = "tokenizer.json, vocab.json and merges.txt, vocab.txt, or a SentencePiece model"
TOKENIZER, TARGET_TOKENIZER = "tokenizer.json", "target_tokenizer.json"
_SENTENCEPIECE = ("spiece.model", "tokenizer.model", "sentencepiece.bpe.model")
SETTINGS, _ADDED = "tokenizer_config.json", "added_tokens.json"
_ROLES = ("bos", "eos", "cls", "sep", "pad", "unk", "mask")
# Names that a family's own class gives to special tokens, if no file does.
_BYTE_LEVEL = {"bos": "<s>", "eos": "</s>", "cls": "<s>", "sep": "</s>"}
_BYTE_LEVEL |= {"pad": "<pad>", "unk": "<unk>", "mask": "<mask>"}
_FLAGS = ("content", "single_word", "lstrip", "rstrip", "normalized", "special")
# Classes and families whose merges are those of GPT-2, with the same pattern.
_GPT2_CLASSES = ("GPT2Tokenizer", "RobertaTokenizer", "BartTokenizer")
_GPT2_FAMILIES = ("gpt2", "roberta", "bart")
_QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_WORD_PIECE = {"cls": "[CLS]", "sep": "[SEP]", "pad": "[PAD]", "unk": "[UNK]", "mask": "[MASK]"}


def read_tokenizer(folder: Path, model_type: str = "") -> str:
    """Return the content of tokenizer.json, or make it from older files.

    If sources and targets are split differently, it's {"source": ..., "target": ...}.

    Args:
        model_type: the family of the model. It decides how texts are split if there's only vocab.json and merges.txt.

    Raises:
        ConfigError: a library that reads the files isn't installed.
        ModelError: there is no tokenizer, or it's damaged.
    """
    whole, target = folder / TOKENIZER, folder / TARGET_TOKENIZER
    if whole.is_file():
        sides = [_text(path, folder) for path in (whole, target) if path.is_file()]
        return sides[0] if len({*sides}) == 1 else two_sides(*sides)
    if (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        return str(_listed(_byte_level(folder, model_type), folder).to_str())
    if (folder / "vocab.txt").is_file():
        return str(_listed(_word_piece(folder), folder).to_str())
    if all((folder / name).is_file() for name in sentencepiece_models.SIDES):
        ids, own = _ids(folder / "vocab.json"), folder / "target_vocab.json"
        return sentencepiece_models.convert_sides(folder, ids, _ids(own) if own.is_file() else ids)
    for name in _SENTENCEPIECE:
        if (folder / name).is_file():
            found = tokenizers.Tokenizer.from_str(sentencepiece_models.convert(folder / name))
            return str(_listed(found, folder).to_str())
    raise ModelError(f"{folder} has no tokenizer", expected=_FILES, name="folder", value=folder)


def _text(path: Path, folder: Path) -> str:
    """Return the content of a tokenizer file, with the tokens that other files of the folder list."""
    parsed, text = read_json_object(path), _utf8(path)
    try:
        found = open_backend(text, parsed)
        before = found.to_str()
        after = str(_listed(found, folder).to_str())
    except ModelError:
        raise
    except Exception as error:  # the library raises no other class
        what = f"{path} can't be used by the tokenizers library: {error}"
        raise ModelError(what, fix="download the folder again", name=path.name) from error
    return text if after == before else after


def _utf8(path: Path) -> str:
    """Return the text of a file. Raise ModelError if it isn't UTF-8."""
    try:
        return read_bytes(path).decode()
    except UnicodeDecodeError as error:
        what = f"{path} isn't UTF-8: {error.reason} at byte {error.start:,}"
        raise ModelError(what, expected="UTF-8", fix="download the folder again", name=path.name) from error


def _listed(tokenizer: tokenizers.Tokenizer, folder: Path) -> tokenizers.Tokenizer:
    """Add the tokens that other files of a folder list, with their flags, and mark those as special that a role names.

    Raises:
        ModelError: a token has another id in the vocabulary than it's listed with.
    """
    settings, known = _object(folder / SETTINGS), tokenizer.get_added_tokens_decoder()
    path, decoder = folder / (SETTINGS if "added_tokens_decoder" in settings else _ADDED), {}
    more = settings.get("extra_special_tokens") or settings.get("additional_special_tokens") or ()
    try:
        if path.name == _ADDED:
            decoder = {i: {"content": name} for name, i in _object(path).items() if i not in known}
        listed = {int(i): AddedToken(**_flags(it)) for i, it in settings.get("added_tokens_decoder", decoder).items()}
        more = [_flags(it)["content"] for it in (more.values() if isinstance(more, dict) else more)]
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        what = f"{path} lists tokens in another way than Transformers: {error}"
        raise ModelError(what, fix="download the folder again", name=path.name) from error
    tokenizer.add_tokens([it for i, it in sorted(listed.items()) if repr(it) != repr(known.get(i))])
    for i, it in listed.items():
        if tokenizer.token_to_id(it.content) != i:
            what = f"{path} gives {it.content!r} the id {i}, but the vocabulary has {tokenizer.token_to_id(it.content)}"
            raise ModelError(what, expected="the files of one tokenizer", name=path.name, value=i)
    flags = {it.content: it for it in tokenizer.get_added_tokens_decoder().values()}
    names = [it for it in (*_role_names(folder).values(), *more) if tokenizer.token_to_id(it) is not None]
    tokenizer.add_special_tokens([flags.get(it, it) for it in dict.fromkeys(names)])
    return tokenizer


def _flags(token: Any) -> dict[str, Any]:
    """Return a token in a file as arguments of AddedToken."""
    given = token if isinstance(token, dict) else {"content": token}
    return {name: it for name, it in given.items() if name in _FLAGS}


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


def tokens_around(text: str) -> tuple[list[int], list[int]]:
    """Return the special tokens that a `tokenizers` file puts before a text, and those after it."""
    post = json.loads(text).get("post_processor") or {}
    for step in post.get("processors", [post]):
        if step.get("type") == "TemplateProcessing":
            names = list(map(_special, step["single"]))
            sides = names[: names.index(None)], names[names.index(None) + 1 :]
            ids = {name: it["ids"] for name, it in step["special_tokens"].items()}
            before, after = ([i for name in side if name is not None for i in ids[name]] for side in sides)
            return before, after
        if "cls" in step:  # of BERT and RoBERTa
            return [step["cls"][1]], [step["sep"][1]]
    return [], []


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
    return read_json_object(path) if path.is_file() else {}


def _byte_level(folder: Path, model_type: str) -> tokenizers.Tokenizer:
    """Return the tokenizer of GPT-2, RoBERTa or Qwen2, whose tokens are spelled in an alphabet of bytes."""
    vocab, merges = folder / "vocab.json", folder / "merges.txt"
    ids, settings = _ids(vocab), _object(folder / SETTINGS)
    pairs = [tuple(row.split()) for row in _utf8(merges).split("\n") if row.strip() and not row.startswith("#version")]
    try:
        with as_exceptions():
            model = tokenizers.models.BPE(vocab=ids, merges=pairs)  # type: ignore[arg-type]
    except Exception as error:  # the library raises no other class
        raise ModelError(f"{merges} doesn't fit {vocab.name}: {error}", name=merges.name) from error
    found, space = tokenizers.Tokenizer(model), bool(settings.get("add_prefix_space", False))
    kind = str(settings.get("tokenizer_class", "")).removesuffix("Fast")
    qwen2 = kind == "Qwen2Tokenizer" or (kind not in _GPT2_CLASSES and model_type == "qwen2")
    if not qwen2 and kind not in _GPT2_CLASSES and model_type not in _GPT2_FAMILIES:
        what = f"{folder} has no {TOKENIZER}, and {kind or model_type} may split texts in its own way"
        fix = f"write it with AutoTokenizer.from_pretrained({str(folder)!r}).save_pretrained(NEW_DIR)"
        raise ModelError(what, expected=TOKENIZER, fix=fix, name=TOKENIZER)
    found.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=space, use_regex=not qwen2)
    found.decoder = tokenizers.decoders.ByteLevel()
    if qwen2:
        found.normalizer = tokenizers.normalizers.NFC()
        split = pre_tokenizers.Split(tokenizers.Regex(_QWEN2), "isolated")
        found.pre_tokenizer = pre_tokenizers.Sequence([split, found.pre_tokenizer])
    named = {role: name for role, name in _BYTE_LEVEL.items() if name in ids} | _role_names(folder)
    _add_special(found, ids, ["<|endoftext|>", *(name for role, name in named.items() if role != "mask")])
    if named.get("mask") in ids:
        found.add_special_tokens([AddedToken(named["mask"], lstrip=True)])  # a mask includes its space
    if "cls" in named and "sep" in named and not qwen2:
        cls, sep = ((named[role], ids[named[role]]) for role in ("cls", "sep"))
        found.post_processor = tokenizers.processors.RobertaProcessing(sep, cls, add_prefix_space=space)
    return found


def _ids(path: Path) -> dict[str, int]:
    """Return the ids of a vocabulary in JSON."""
    return checked_ids(path, read_json_object(path))


def checked_ids(path: Path, found: dict[str, Any]) -> dict[str, int]:
    """Return the ids of a vocabulary. Raise ModelError if they aren't the numbers from 0, each once."""
    numbers = [it for it in found.values() if isinstance(it, int) and not isinstance(it, bool)]
    if sorted(numbers) != list(range(len(found))):
        what = f"{path} doesn't number its {len(found):,} tokens from 0 to {len(found) - 1:,}"
        raise ModelError(what, expected="an id for each token, and each id once", name=path.name)
    return found


def _word_piece(folder: Path) -> tokenizers.Tokenizer:
    """Return BERT's tokenizer (Wu et al. 2016, section 4.1), whose vocabulary has a token on each line."""
    settings = _object(folder / SETTINGS)
    if settings.get("do_basic_tokenize", True) is not True:
        what = f"{folder / SETTINGS} has do_basic_tokenize=false, which isn't supported without tokenizer.json"
        raise ModelError(what, expected="true", name="do_basic_tokenize", value=False)
    path = folder / "vocab.txt"
    rows = _utf8(path).replace("\r\n", "\n").removesuffix("\n").split("\n")
    ids, named = {row: i for i, row in enumerate(rows)}, _WORD_PIECE | _role_names(folder)
    if named["unk"] not in ids:
        what = f"{path} has no {named['unk']}, the token for unknown words"
        raise ModelError(what, expected="a token on each line", name=path.name, value=named["unk"])
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


# --- export


def tokenizer_files(tokenizers: Tokenizers, model: ModelConfig, chat_template: str = "") -> dict[str, bytes]:
    """Return the tokenizer files of a folder, by name, with the special tokens that the model reads.

    One tokenizer reads sources and writes answers. If targets have their own vocabulary, or are split in another way,
    theirs is in a file of its own, which `AutoTokenizer` doesn't read, but `PreTrainedTokenizerFast` does.

    Args:
        tokenizers: the model's tokenizers.
        model: its settings.
        chat_template: its chat template in Jinja, if it has one.
    """
    sides = [tokenizers.source] if tokenizers.joint else [tokenizers.source, tokenizers.target]
    texts = [it.to_json() for it in sides]
    names = _names(texts[0])
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": model.max_len}
    settings |= {"clean_up_tokenization_spaces": False, **_roles(model, names)}
    if chat_template:
        settings["chat_template"] = chat_template
    elif not tokenizers.source.is_foreign:
        settings["split_special_tokens"] = True  # a text can't forge special tokens
    files = {
        name: _framed(text, model, _names(text)).encode() for name, text in zip((TOKENIZER, TARGET_TOKENIZER), texts)
    }
    return files | {SETTINGS: (json.dumps(settings, indent=2, ensure_ascii=False) + "\n").encode()}


def _names(text: str) -> dict[int, str]:
    """Return the token of each id."""
    return {i: name.removeprefix(UNSEEN) for name, i in token_ids(text).items()}


def _roles(model: ModelConfig, names: dict[int, str]) -> dict[str, Any]:
    """Return the special tokens by their roles, such as eos_token."""
    special = model.special
    ids = {"bos": special.bos, "eos": special.eos, "pad": special.pad, "unk": special.unk}
    ids |= {} if special.mask == special.unk else {"mask": special.mask}
    if model.topology == "encoder-only":
        ids |= {"cls": special.bos, "sep": special.eos}
    return {f"{role}_token": names[i] for role, i in ids.items() if i in names}


def _framed(text: str, model: ModelConfig, names: dict[int, str]) -> str:
    """Return the text of a tokenizer file, with a template that adds BOS and EOS if there's no template yet."""
    content: dict[str, Any] = json.loads(text)
    before = [names[i] for i in (model.bos_id,) if model.begins and i in names]
    after = [names[i] for i in (model.eos_id,) if model.topology != "decoder-only" and model.end and i in names]
    if content.get("post_processor") or not (before or after):
        return text
    ids = {names[i]: i for i in (model.bos_id, model.eos_id) if i in names}

    def framed(*texts: str) -> list[dict[str, Any]]:
        parts = [*before, *texts, *after]
        return [{"Sequence" if it in texts else "SpecialToken": {"id": it, "type_id": 0}} for it in parts]

    special = {name: {"id": name, "ids": [ids[name]], "tokens": [name]} for name in (*before, *after)}
    template = {"single": framed("A"), "pair": framed("A", "B"), "special_tokens": special}
    return json.dumps({**content, "post_processor": {"type": "TemplateProcessing", **template}}, ensure_ascii=False)
