"""How text becomes pieces, and pieces text again: all but the vocabulary, as stages of the `tokenizers` library.

    text -> Unicode form, case, white space -> a space in front -> split -> bytes as letters

The space in front lets a word at the start of a text share its token with the same word in the middle; decoding takes
exactly one away. A piece carries the space before it, so that nothing is lost between pieces. Writing each byte as one
printable letter (as GPT-2 does) makes every text sayable with 256 letters, and one decoder right for all kinds.
"""

from typing import Literal

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers

from ..config import DataConfig

Kind = Literal["bpe", "unigram", "word", "character"]

_LETTERS, _OTHERS = r"\p{L}\p{M}", r"\s\p{L}\p{M}\p{N}"
# A French elision stands apart from the noun that follows it: l' homme, qu' il; aujourd'hui, don't and I'm stay whole.
_ELISION = r" ?(?i:[cdjlmnst]|(?:jus|lors|puis|quoi)?qu)['’](?=\p{L})"
# Digits one by one: numbers are copied from language to language, and most are too rare to be learnt whole.
_SUBWORD = rf"{_ELISION}| ?[{_LETTERS}]++(?:['’][{_LETTERS}]++)*+| ?\p{{N}}| ?[^{_OTHERS}]++|\s+(?!\S)|\s+"
_WORD = rf"{_ELISION}| ?[{_LETTERS}\p{{N}}]++(?:['’][{_LETTERS}\p{{N}}]++)*+| ?[^{_OTHERS}]\p{{M}}*+|\s"
_PATTERN: dict[Kind, str] = {"bpe": _SUBWORD, "unigram": _SUBWORD, "word": _WORD, "character": r"[\s\S]"}


def text_pipeline(data: DataConfig) -> tokenizers.Tokenizer:
    """Normalisation, splitting and decoding as `data` wants them; the model in it has learnt nothing yet."""
    split = pre_tokenizers.Split(Regex(_PATTERN[data.tokenizer]), "isolated")
    as_letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    before = _normalizers(data)
    after: list[decoders.Decoder] = [decoders.ByteLevel()]
    if data.tokenizer != "character":
        before.append(normalizers.Prepend(" "))  # always, even before a space: then decoding knows that there is one
        after.append(decoders.Strip(" ", 1, 0))
    pipeline = tokenizers.Tokenizer(models.BPE())
    pipeline.normalizer = normalizers.Sequence(before)
    pipeline.pre_tokenizer = pre_tokenizers.Sequence([split, as_letters])
    pipeline.decoder = decoders.Sequence(after)
    return pipeline


def _normalizers(data: DataConfig) -> list[normalizers.Normalizer]:
    steps: list[normalizers.Normalizer] = []
    form = {"NFC": normalizers.NFC, "NFKC": normalizers.NFKC, "none": None}[data.unicode]
    if form is not None:
        steps.append(form())
    if data.lowercase:
        steps.append(normalizers.Lowercase())
        if form is not None:  # a small letter can compose where the capital could not: J and a caron
            steps.append(form())
    if data.whitespace:
        steps += [normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    return steps


def _byte_letters() -> dict[str, int]:
    """The letter that the library writes for each byte: itself where it prints, else one from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = sorted(set(range(256)) - set(printable))
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


BYTES = _byte_letters()


def spelled(piece: str) -> bytes:
    """The bytes that a piece stands for in a text."""
    if not BYTES.keys() >= set(piece):
        return piece.encode()  # of another program's vocabulary
    return bytes(BYTES[letter] for letter in piece)


def readable(piece: str) -> str:
    """A piece as a table shows it: "▁" for a space, escapes for part of a character and for what does not print."""
    if not BYTES.keys() >= set(piece):
        return piece  # of another program's vocabulary
    text = spelled(piece).decode("utf-8", "backslashreplace").replace(" ", "▁")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
