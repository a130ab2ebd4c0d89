"""Faults in the characters of texts: wrong decoding, HTML, rare characters, personal data and boilerplate."""

import html.entities
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain

from ..readers.lines import shown

_CODECS = ("cp1252", "mac_roman", "cp437", "cp850", "cp1250", "cp1251", "cp1254")  # that UTF-8 is decoded as by mistake
_FEW = 0.05  # maximum share of lines with a fault; if more have it, it's how the data is written
_MARKS = 0.01  # the same, for question marks within words
_ACCENTED = 0.05  # minimum share of lines with letters beyond ASCII, of which some may be lost
_ENOUGH = 1000  # minimum number of texts for a character to be rare
_RARE, _RARELY = 0.0001, 0.02  # maximum share of texts with a rare character, and with any of them
_PHRASE, _SHARED, _COMMON = 3, 5, 0.0005  # minimum words of a phrase, and number and share of different texts around it
_WIDTH = 40  # characters of a phrase shown
# Code points that wrongly decoded texts are likely to have: Latin, Greek, Cyrillic, Hebrew, Arabic, Indic, Thai,
# punctuation, Chinese, Japanese, Korean, emoji.
_LIKELY = (
    (0xA0, 0x17F), (0x384, 0x3CE), (0x400, 0x45F), (0x5D0, 0x5EA), (0x621, 0x6FF), (0x900, 0xE4E), (0x1E00, 0x1EFF),
    (0x2010, 0x203A), (0x20A0, 0x20BF), (0x2100, 0x22FF), (0x3000, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3),
    (0xFE0F, 0xFE0F), (0x1F300, 0x1FAFF),
)  # fmt: skip
_CONTROLS = re.compile("[\x80-\x9f\ufffd]")
_LOST = re.compile(r"(?:[^\W\d_]\?{1,2}|(?<!\S)\?)[^\W\d_]")  # a letter that an encoding lacked
_MIXED = re.compile("[A-Za-z\xc0-\u017f][\u0370-\u03ff\u0400-\u04ff]|[\u0370-\u03ff\u0400-\u04ff][A-Za-z\xc0-\u017f]")
_ENTITY = re.compile(r"&(#\d{2,6}|#x[0-9a-fA-F]{2,5}|[A-Za-z]{2,8}\d?);")
_TAG = re.compile(r"</?[a-z][a-z0-9]{0,9}(?:\s[^<>]*)?/?>", re.IGNORECASE)
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]*\w")
_PHONE = re.compile(r"(?<![\w.,])(?:\+\d{1,3}[ .-]?)?(?:\(\d{1,4}\) ?)?\d{2,4}(?:[ .-]\d{2,4}){2,4}(?![\w,])")
_SENTENCES = re.compile(r"(?:[.!?|»\"”)\]]|\.\.\.|\s[-–—•])\s+|(?<=[。！？])|\n+")
_DIGITS = range(9, 16)  # of a phone number


@dataclass(frozen=True)
class _Codec:
    """The characters of a single-byte encoding, as patterns of wrongly decoded UTF-8."""

    name: str
    bytes: dict[str, int]
    pattern: re.Pattern[str]

    def decoded(self, sequence: str) -> str:
        """Return the character that a wrongly decoded sequence stands for, or ""."""
        try:
            found = bytes(self.bytes[letter] for letter in sequence).decode()
        except UnicodeDecodeError:
            return ""
        return found if any(first <= ord(found) <= last for first, last in _LIKELY) else ""

    def decoded_again(self, text: str) -> str:
        """Return a text whose UTF-8 was decoded with this encoding, or "" if that isn't possible."""
        try:
            return bytes(ord(it) if it.isascii() else self.bytes[it] for it in text).decode()
        except (KeyError, UnicodeDecodeError):
            return ""


@cache
def _codecs() -> list[_Codec]:
    return [_codec(name) for name in _CODECS]


def _codec(name: str) -> _Codec:
    table: dict[str, int] = {chr(byte): byte for byte in range(0x80, 0xC0)}  # as in Latin-1
    for byte in range(0x80, 0x100):
        if letter := bytes([byte]).decode(name, "ignore"):
            table[letter] = byte

    def letters(first: int, last: int) -> str:
        return "[" + "".join(re.escape(it) for it, byte in table.items() if first <= byte <= last) + "]"

    more = letters(0x80, 0xBF)
    two, three, four = letters(0xC2, 0xDF) + more, letters(0xE0, 0xEF) + more * 2, letters(0xF0, 0xF4) + more * 3
    return _Codec(name, table, re.compile(f"{four}|{three}|{two}"))


def misdecoded(text: str) -> str:
    """Return the reason why a text seems to be decoded wrongly, such as "Ã© in place of é", or ""."""
    if text.isascii():
        return ""
    if found := _CONTROLS.search(text):
        return f"has the character U+{ord(found[0]):04X}"
    for codec in _codecs():
        wrong = [(it, char) for it in codec.pattern.finditer(text) if (char := codec.decoded(it[0]))]
        n_strange = sum(not letter.isascii() for letter in text)
        is_most = len(wrong) > 1 and 2 * sum(len(it[0]) for it, _ in wrong) > n_strange
        if sure := wrong if is_most else [it for it in wrong if _is_sure(text, it[0])]:
            return f"{sure[0][0][0]} in place of {sure[0][1]}"
    if "Ã " in text and re.search(r"(?<![A-Z\xc0-\xde])Ã (?![A-Z\xc0-\xde])", text):
        return "Ã in place of à"
    return "letters of two scripts in a word" if _MIXED.search(text) else ""


def restored(text: str) -> str:
    """Return a text that was decoded wrongly, also several times, as it should be, if that's certain."""
    if misdecoded(text):
        again = (restored(it) for codec in _codecs() if (it := codec.decoded_again(text)) not in ("", text))
        return next((it for it in again if not misdecoded(it)), text)
    return text


def _is_sure(text: str, found: "re.Match[str]") -> bool:
    """Return whether one sequence is enough: a first byte of many letters or of quotes, or a symbol within a word."""
    within = text[found.end() : found.end() + 1].islower()
    return found[0][0] in "ÃÂ√├┬" or found[0][:2] == "â€" or (within and not found[0].isalpha() and "’" not in found[0])


def decoding_faults(texts: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the index of each text that's decoded wrongly or has HTML, with the reason.

    HTML, and question marks within words, are only faults if few texts have them.
    """
    found = {place: reason for place, text in enumerate(texts) if (reason := misdecoded(text))}
    accented = sum(not text.isascii() for text in texts) > _ACCENTED * len(texts)
    rare = {
        "has an HTML entity": (_FEW, [i for i, text in enumerate(texts) if "&" in text and _has_entity(text)]),
        "has HTML": (_FEW, [i for i, text in enumerate(texts) if "<" in text and _TAG.search(text)]),
        "? in place of a letter": (
            _MARKS if accented else 0,
            [i for i, text in enumerate(texts) if "?" in text and _LOST.search(text) and "://" not in text],
        ),
    }
    for reason, (most, places) in rare.items():
        if len(places) <= most * len(texts):
            found = dict.fromkeys(places, reason) | found
    yield from sorted(found.items())


def _has_entity(text: str) -> bool:
    return any(it[0] == "#" or f"{it};" in html.entities.html5 for it in _ENTITY.findall(text))


def personal_data(text: str) -> str:
    """Return "e-mail address" or "phone number" if a text seems to have one, or ""."""
    if "@" in text and _EMAIL.search(text):
        return "e-mail address"
    phones = _PHONE.finditer(text) if sum(map(str.isdigit, text)) in range(_DIGITS.start, 1000) else ()
    is_phone = any(sum(map(str.isdigit, it[0])) in _DIGITS for it in phones)
    return "phone number" if is_phone else ""


def rare_characters(texts: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the index of each text with a character that hardly any other text has, with its name.

    If many texts have such characters, as in Chinese, that's how the data is written.
    """
    counts = Counter(letter for text in texts for letter in {*text.lower()})
    most = max(1, _RARE * len(texts)) if len(texts) >= _ENOUGH else 0
    rare = {letter for letter, count in counts.items() if count <= most}
    found = [(place, min(some)) for place, text in enumerate(texts) if (some := rare.intersection(text.lower()))]
    if len(found) <= _RARELY * len(texts):
        yield from ((i, f"U+{ord(it):04X} {unicodedata.name(it, 'a character without a name')}") for i, it in found)


def boilerplate(texts: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the index of each text that begins or ends with a sentence which many different texts share."""
    around: defaultdict[str, dict[str, list[int]]] = defaultdict(dict)
    for place, text in enumerate(texts):
        cuts = [*_SENTENCES.finditer(text.rstrip())]
        if not cuts:
            continue
        first, last = cuts[0].end(), cuts[-1].end()
        for phrase, rest in ((text[:first], text[first:]), (text[last:], text[:last])):
            if len(phrase.split()) >= _PHRASE:
                around[" ".join(phrase.casefold().split())].setdefault(rest, []).append(place)
    least, found = max(_SHARED, _COMMON * len(texts)), dict[int, str]()
    for phrase, rests in around.items():
        if len(rests) >= least:
            quoted = "personal data" if personal_data(phrase) else shown(phrase, _WIDTH)
            why = f"{quoted}, as in {len(rests):,} texts"
            found |= dict.fromkeys(chain.from_iterable(rests.values()), why)
    yield from sorted(found.items())
