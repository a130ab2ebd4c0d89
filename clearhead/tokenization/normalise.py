"""Normalisation, splitting and decoding: everything but the vocabulary, as stages of the `tokenizers` library.

    text -> Unicode form, case, whitespace -> prepend a space -> split into pieces -> byte alphabet

The prepended space gives a word at the start of a text the same token as elsewhere; decoding removes it. Each piece
includes the space before it, so joining the pieces gives the text. The byte alphabet writes each byte as one printable
character (as in GPT-2). Its 256 characters can spell every text, and one decoder works for all kinds of vocabulary.
"""

from typing import Literal

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers

from ..config import DataConfig

Kind = Literal["bpe", "unigram", "word", "character", "wordpiece"]  # the last only in tokenizers of other programs

_LETTERS, _OTHERS = r"\p{L}\p{M}", r"\s\p{L}\p{M}\p{N}"
# French elisions are split off: l' homme, qu' il. Words such as aujourd'hui, don't and I'm stay whole.
_ELISION = r" ?(?i:[cdjlmnst]|(?:jus|lors|puis|quoi)?qu)['’](?=\p{L})"
# Digits are single pieces: translations copy numbers, and most numbers are too rare to learn as a whole.
_SUBWORD = rf"{_ELISION}| ?[{_LETTERS}]++(?:['’][{_LETTERS}]++)*+| ?\p{{N}}| ?[^{_OTHERS}]++|\s+(?!\S)|\s+"
_WORD = rf"{_ELISION}| ?[{_LETTERS}\p{{N}}]++(?:['’][{_LETTERS}\p{{N}}]++)*+| ?[^{_OTHERS}]\p{{M}}*+|\s"
_PATTERN: dict[Kind, str] = {"bpe": _SUBWORD, "unigram": _SUBWORD, "word": _WORD, "character": r"[\s\S]"}
PATTERNS = frozenset(_PATTERN.values())
"""The patterns that split texts into pieces."""


def text_pipeline(data: DataConfig) -> tokenizers.Tokenizer:
    """Return the stages for these settings, with an untrained model."""
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


def piece_bytes(piece: str) -> bytes:
    """Return the bytes of text that a piece represents."""
    if not BYTES.keys() >= set(piece):
        return piece.encode()  # from another program's vocabulary
    return bytes(BYTES[letter] for letter in piece)


def display_form(piece: str) -> str:
    """Return a piece in printable form: "▁" for a space, escapes for unprintable and incomplete characters."""
    if not BYTES.keys() >= set(piece):
        return piece  # from another program's vocabulary
    return printable(piece_bytes(piece).decode("utf-8", "backslashreplace").replace(" ", "▁"))


def printable(text: str) -> str:
    """Return a text with escapes for unprintable characters."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
