"""Everything about tokenization but the vocabulary: the stages of the `tokenizers` library, and how tokens are spelled.

    text -> Unicode form, case, whitespace -> prepend a space -> split into pieces -> byte alphabet

The prepended space gives a word at the start of a text the same token as elsewhere; decoding removes it. Vocabularies
of characters don't need it. A piece includes the space before it, so joining the pieces gives the text. The byte
alphabet writes each byte as one printable character (as in GPT-2), so its 256 characters can spell every text.
"""

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Literal

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers

from ..config import DataConfig

Kind = Literal["bpe", "unigram", "word", "character", "wordpiece"]  # the last only in tokenizers of other programs

_LETTERS, _OTHERS = r"\p{L}\p{M}", r"\s\p{L}\p{M}\p{N}"
# French elisions are split off: l' homme, qu' il. Words such as aujourd'hui, don't and I'm stay whole.
_ELISION = r" ?(?i:[cdjlmnst]|(?:jus|lors|puis|quoi)?qu)['’](?=\p{L})"
# Subwords never join digits: translations copy numbers, and most numbers are too rare to learn as a whole.
_SUBWORD = rf"{_ELISION}| ?[{_LETTERS}]++(?:['’][{_LETTERS}]++)*+| ?\p{{N}}| ?[^{_OTHERS}]++|\s+(?!\S)|\s+"
_WORD = rf"{_ELISION}| ?[{_LETTERS}\p{{N}}]++(?:['’][{_LETTERS}\p{{N}}]++)*+| ?[^{_OTHERS}]\p{{M}}*+|\s"
_PATTERN: dict[Kind, str] = {"bpe": _SUBWORD, "unigram": _SUBWORD, "word": _WORD, "character": r"[\s\S]"}
PATTERNS = frozenset(_PATTERN.values())
"""The patterns that split texts into pieces."""
NEVER = "\ufdd0"
"""A noncharacter, which no text should contain."""
_CHUNK = 8192  # tokens decoded at once


def text_pipeline(data: DataConfig) -> tokenizers.Tokenizer:
    """Return the stages for these settings, with an empty vocabulary."""
    split = pre_tokenizers.Split(Regex(_PATTERN[data.tokenizer]), "isolated")
    as_letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    before = _normalizers(data)
    after: list[decoders.Decoder] = [decoders.ByteLevel()]
    if data.tokenizer != "character":
        before.append(normalizers.Prepend(" "))  # also before a space, so that decoding can always remove one
        after.append(decoders.Strip(" ", 1, 0))
    pipeline = tokenizers.Tokenizer(models.BPE())
    pipeline.normalizer = normalizers.Sequence(before)
    pipeline.pre_tokenizer = pre_tokenizers.Sequence([split, as_letters])
    pipeline.decoder = decoders.Sequence(after)
    return pipeline


_FORMS = {"NFC": normalizers.NFC, "NFKC": normalizers.NFKC}


def _normalizers(data: DataConfig) -> list[normalizers.Normalizer]:
    steps: list[normalizers.Normalizer] = []
    form = next((it for name, it in _FORMS.items() if name in data.normalise), None)
    if form is not None:
        steps.append(form())
    if "lowercase" in data.normalise:
        steps.append(normalizers.Lowercase())
        if form is not None:  # lower-case letters may compose where capitals don't: J with a caron
            steps.append(form())
    if "whitespace" in data.normalise:
        steps += [normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    return steps


def _byte_letters() -> dict[str, int]:
    """Map each character of the byte alphabet to its byte. Unprintable bytes are written as U+0100 and up."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = sorted(set(range(256)) - set(printable))
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


BYTES = _byte_letters()
SPACE = next(letter for letter, byte in BYTES.items() if byte == ord(" "))


def printable(text: str) -> str:
    """Return a text with escapes for unprintable characters."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class Spelling:
    """Spell the tokens of a vocabulary, as printable text or as bytes.

    Args:
        names: the name of each id's token.
        size: the number of ids. An id without a token is shown as <id>, and has no text.
        special: the ids of special tokens, which have no text.
        steps: the types of the steps of its decoder.
    """

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        names: Mapping[int, str],
        size: int,
        special: Collection[int],
        steps: Collection[str] = ("ByteLevel",),
    ) -> None:
        self._backend, self._names, self._special, self._steps = backend, names, special, steps
        self._ids = range(size)

    def shown(self, i: int) -> str:
        """Return a token in printable form: "▁" for a space, escapes for unprintable and incomplete characters."""
        name = self._names.get(i, f"<{i}>").removeprefix(NEVER)
        if "ByteLevel" not in self._steps or i in self._special or i not in self._names:
            return printable(name)
        return printable(_piece_bytes(name).decode("utf-8", "backslashreplace").replace(" ", "▁") or name)

    @cached_property
    def all_shown(self) -> list[str]:
        """All tokens in printable form. This takes a while for a large vocabulary."""
        return [self.shown(i) for i in self._ids]

    @cached_property
    def token_bytes(self) -> list[bytes]:
        """The bytes that each token adds inside a text, in the order of the ids; none for special tokens."""
        ids = [i for i in sorted(self._names) if i not in self._special]
        in_letters = "ByteLevel" in self._steps
        spelled = [_piece_bytes(self._names[i]) for i in ids] if in_letters else self._decoded(ids)
        found = dict(zip(ids, spelled))
        return [found.get(i, b"") for i in self._ids]

    def _decoded(self, ids: list[int]) -> list[bytes]:
        """Return the bytes that each token adds if it's decoded after an ordinary token."""
        anchor = next((i for i in ids if self._backend.decode([i]).strip().isalnum()), None)
        before = [] if anchor is None else [anchor]
        start, found = self._backend.decode(before), list[bytes]()
        for begin in range(0, len(ids), _CHUNK):
            chunk = ids[begin : begin + _CHUNK]
            texts = self._backend.decode_batch([[*before, i] for i in chunk])
            found += [self._byte(i) or text.removeprefix(start).encode() for i, text in zip(chunk, texts)]
        return found

    def _byte(self, i: int) -> bytes:
        """Return the byte that a token such as <0x0A> stands for; b"" for other tokens."""
        name = self._names[i]
        is_byte = "ByteFallback" in self._steps and len(name) == len("<0x00>") and name.startswith("<0x")
        return bytes([int(name[3:5], 16)]) if is_byte else b""


def _piece_bytes(piece: str) -> bytes:
    """Return the bytes that a token stands for in the byte alphabet, or those of its name if it isn't written in it."""
    try:
        return bytes(map(BYTES.__getitem__, piece))
    except KeyError:
        return piece.encode()
