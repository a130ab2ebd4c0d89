"""SentencePiece models (Kudo and Richardson 2018), such as source.spm, as the text of a `tokenizers` file."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers

from ..errors import ConfigError, ModelError
from ..folder.manifest import read_bytes
from ..tokenization.backend import as_exceptions
from ..tokenization.source_and_target import two_sides

UNSEEN = "\ufdd0"
"""A noncharacter, which no text contains. It begins the names of tokens that no text is split into."""

SIDES = ("source.spm", "target.spm")
_SPACE, _MANY = "▁", 2**16
_SPECIAL = ("<s>", "</s>", "<unk>", "<pad>")
_NORMAL, _USER_DEFINED, _BYTE = 1, 4, 6  # types of pieces
_UNIGRAM, _BPE = 1, 2  # types of models
_UNKNOWN = 10.0  # by which an unknown character is less likely than the rarest piece


def convert(path: Path, ids: Mapping[str, int] | None = None) -> str:
    """Return the text of a `tokenizers` file that gives the ids of a SentencePiece model.

    The two differ where a text has combining marks in another order than Unicode's, where two ways to split it are
    equally probable, and where voicing marks follow half-width katakana.

    Args:
        path: the model file.
        ids: the id of each token, if another file numbers the tokens. Tokens that aren't in the model have a name that
            begins with UNSEEN, which decoding removes. Single characters keep their name, as in Marian's own
            tokenizer, and take the place of unknown ones. Codes of languages, such as >>fra<<, are read at the start
            of a text only.

    Raises:
        ConfigError: the SentencePiece library isn't installed.
        ModelError: the file is damaged, or has a part that isn't supported.
    """
    proto, processor = _read(path)
    _check(proto, path)
    names = {it.piece: it for it in proto.pieces if it.type in (_NORMAL, _USER_DEFINED, _BYTE)}
    numbered = {it.piece: i for i, it in enumerate(proto.pieces)} if ids is None else dict(ids)
    codes = [] if ids is None else [name for name in numbered if name.startswith(">>") and name.endswith("<<")]
    special = [name for name in numbered if name not in names and (ids is None or name in _SPECIAL)]
    seen = {*names, *special, *(name for name in numbered if len(name) == 1)}
    vocab = {name if name in seen else UNSEEN + name: i for name, i in numbered.items()}
    try:
        with as_exceptions():
            found = tokenizers.Tokenizer(_model(proto, vocab))
            found.normalizer = normalizers.Sequence(_normalizers(proto, processor, codes))
    except Exception as error:  # the libraries raise several classes
        raise _damaged(path, error) from error
    user_defined = sorted((it.piece for it in proto.pieces if it.type == _USER_DEFINED), key=len, reverse=True)
    if user_defined:
        found.pre_tokenizer = pre_tokenizers.Split(Regex("|".join(map(re.escape, user_defined))), "isolated")
    found.decoder = decoders.Sequence(_decoders(proto))
    found.add_special_tokens(special)
    found.add_tokens([tokenizers.AddedToken(UNSEEN + name) for name in codes])
    return str(found.to_str())


def convert_sides(folder: Path, source_ids: Mapping[str, int], target_ids: Mapping[str, int]) -> str:
    """Return the text of the tokenizers source.spm and target.spm of a folder. See `convert`.

    Args:
        folder: the folder of both models.
        source_ids: the id of each token of the source.
        target_ids: the id of each token of the target.
    """
    for name in SIDES:
        if not (folder / name).is_file():
            expected = f"SentencePiece models {' and '.join(SIDES)}; no other subword model is supported"
            raise ModelError(f"{folder} has no {name}", expected=expected, name=name)
    source, target = (convert(folder / name, ids) for name, ids in zip(SIDES, (source_ids, target_ids)))
    return source if source == target else two_sides(source, target)


def _read(path: Path) -> tuple[Any, Any]:
    """Return the content of a model file, and the library's model."""
    try:
        from sentencepiece import SentencePieceProcessor

        protos: Any = import_module("sentencepiece.sentencepiece_model_pb2")
    except ImportError as error:
        what, fix = f"reading {path.name} needs SentencePiece", "install it: pip install sentencepiece protobuf"
        raise ConfigError(what, fix=fix, name="sentencepiece") from error
    data = read_bytes(path)
    try:
        return protos.ModelProto.FromString(data), SentencePieceProcessor(model_proto=data)
    except Exception as error:  # the libraries raise several classes
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> ModelError:
    """Return the error for a file that the libraries can't use."""
    return ModelError(f"{path} isn't a SentencePiece model: {error}", fix="download the folder again", name=path.name)


def _check(proto: Any, path: Path) -> None:
    """Raise ModelError if a model has a part that a `tokenizers` file can't express."""
    trainer, normalizer = proto.trainer_spec, proto.normalizer_spec
    for name, value, fits in (
        ("model_type", trainer.model_type, trainer.model_type in (_UNIGRAM, _BPE)),
        ("treat_whitespace_as_suffix", trainer.treat_whitespace_as_suffix, not trainer.treat_whitespace_as_suffix),
        ("escape_whitespaces", normalizer.escape_whitespaces, normalizer.escape_whitespaces),
    ):
        if not fits:
            what = f"{path} has {name}={value}, which isn't supported"
            expected = "a unigram or BPE model in which a space begins a piece"
            raise ModelError(what, expected=expected, name=name, value=value)


def _model(proto: Any, vocab: Mapping[str, int]) -> models.Model:
    """Return the library's model. Its unknown token stands for a run of characters that aren't in the vocabulary."""
    unknown, fallback = proto.trainer_spec.unk_piece, proto.trainer_spec.byte_fallback
    scores = {it.piece: it.score for it in proto.pieces}
    if proto.trainer_spec.model_type == _UNIGRAM:
        unlikely = min(it.score for it in proto.pieces if it.type == _NORMAL) - _UNKNOWN
        rows = [(f"{UNSEEN}{i}", 0.0) for i in range(max(vocab.values()) + 1)]
        for name, i in vocab.items():
            rows[i] = (name, scores.get(name, unlikely if len(name) == 1 else 0.0))
        return models.Unigram(rows, vocab.get(unknown), fallback)
    normal = {it.piece: (-it.score, i) for i, it in enumerate(proto.pieces) if it.type == _NORMAL and it.piece in vocab}
    merges = [
        (order, (name[:at], name[at:]))
        for name, order in normal.items()
        for at in range(1, len(name))
        if name[:at] in normal and name[at:] in normal
    ]
    pairs = [pair for _, pair in sorted(merges)]
    return models.BPE(dict(vocab), pairs, unk_token=unknown, fuse_unk=True, byte_fallback=fallback, ignore_merges=True)


def _normalizers(proto: Any, processor: Any, codes: Sequence[str] = ()) -> list[normalizers.Normalizer]:
    """Return the steps that turn a text into one with a ▁ for each space.

    The code of a language at the start of a text becomes UNSEEN and the code, which is a token. An unknown code becomes
    UNSEEN, which is an unknown character. What follows is read as a text by itself.
    """
    spec = proto.normalizer_spec
    steps = _charsmap(spec.precompiled_charsmap, processor) if spec.precompiled_charsmap else []
    prefix: normalizers.Normalizer = normalizers.Prepend(_SPACE)
    if codes:
        known = "|".join(re.escape(processor.normalize(code).strip(_SPACE)) for code in codes)
        steps.append(normalizers.Replace(Regex(rf"\A(?!{known})>>[\s\S]*?<<"), UNSEEN))
        steps.append(normalizers.Replace(Regex(rf"\A(?={known})"), UNSEEN))
        if spec.add_dummy_prefix:
            steps.append(normalizers.Replace(Regex(rf"\A{UNSEEN}(?:{known})?+\K(?=[\s\S])"), " "))
        prefix = normalizers.Replace(Regex(rf"\A(?!{UNSEEN})(?=[\s\S])"), _SPACE)
    if spec.remove_extra_whitespaces:
        steps += [normalizers.Replace(Regex(" {2,}"), " "), normalizers.Replace(Regex(r"\A +"), "")]
    steps.append(normalizers.Replace(" ", _SPACE))
    if spec.add_dummy_prefix:
        steps.append(prefix)
    if spec.remove_extra_whitespaces:
        steps.append(normalizers.Replace(Regex(f"{_SPACE}+\\z"), ""))
    return steps


def _charsmap(charsmap: bytes, processor: Any) -> list[normalizers.Normalizer]:
    """Return the steps that replace characters.

    The library looks up a letter together with its marks. If the map has the letter alone, the marks are lost. So marks
    are composed with their letter before, or kept apart from one that they don't belong to.
    """
    candidates, start = _candidates(), processor.normalize("aa")[:-1]
    found = processor.normalize([f"a{c}a" for c in candidates])
    changed = [c for c, text in zip(candidates, found) if text != f"{start}{c}a"]
    steps = [_apart(changed), normalizers.Precompiled(charsmap), normalizers.Replace(UNSEEN, "")]
    if "é" not in processor.normalize("e\u0301"):
        return steps
    return [_apart([c for c in candidates if _is_composed(c)]), normalizers.NFC(), *steps]


def _apart(letters: list[str]) -> normalizers.Normalizer:
    """Return a step that separates these letters from the marks after them."""
    spelled = "".join(f"\\x{{{ord(letter):x}}}" for letter in letters)
    return normalizers.Replace(Regex(f"(?<=[{UNSEEN}{spelled}])(?=[\\p{{M}}\\x{{200d}}])"), UNSEEN)


@cache
def _candidates() -> list[str]:
    """Return the characters that a map may change: controls, spaces, and all that have another form."""
    letters = (chr(code) for code in (*range(1, 0xD800), *range(0xE000, 0x30000)))
    kinds = ((c, unicodedata.category(c)) for c in letters)
    return [
        c
        for c, kind in kinds
        if kind not in ("Cn", "Co") and (kind[0] in "CZ" or unicodedata.normalize("NFKD", c) != c or c.casefold() != c)
    ]


def _is_composed(letter: str) -> bool:
    """Return whether a letter has a mark."""
    return unicodedata.category(unicodedata.normalize("NFD", letter)[-1])[0] == "M"


def _decoders(proto: Any) -> list[decoders.Decoder]:
    """Return the steps that turn pieces into a text."""
    steps: list[decoders.Decoder] = [decoders.Replace(UNSEEN, ""), decoders.Replace(_SPACE, " ")]
    steps += [decoders.ByteFallback()] if proto.trainer_spec.byte_fallback else []
    steps.append(decoders.Fuse())
    spec = proto.normalizer_spec
    removed = _MANY if spec.remove_extra_whitespaces else int(spec.add_dummy_prefix)
    return [*steps, decoders.Strip(" ", removed, 0)] if removed else steps
