"""The sentences and the words of a text in any language, for scores and for simple baselines."""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache

# A full stop and closing quotes before white space, or the stop of a script that is written without spaces.
_END = re.compile(r"[.!?…]+[\"'”’»)\]]*\s+|[。！？]+[」』”’）]*\s*")
_ABBREVIATED = re.compile(r"(?:\b[^\W\d_]|\b(?:Mr|Mrs|Ms|Dr|Prof|St|vs))\.\s+\Z")  # J. Smith, U.S. Army, Dr. No
_ALONE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"  # kana and Han
# Of what is kept, marks alone are no \w: a word begins with a letter or a digit. Some marks are in kana's own range.
_WORD = re.compile(rf"(?=\w)(?:[{_ALONE}][^\w\s]*|[^\s{_ALONE}]+)")
_SIGNS = "\ufe0e\ufe0f"  # whether a character is drawn as a letter or as a picture


def sentences(text: str) -> list[str]:
    """The sentences of a text, without the white space between them; a line break ends one, too.

    A sentence goes on after a stop where the next letter is small, and after an initial or a title ("Dr. No"). It is a
    rule of thumb: baselines need no better one.
    """
    found = []
    for line in map(str.strip, text.splitlines()):
        start = 0
        for match in _END.finditer(line):
            end = match.end()
            if not line[end : end + 1].islower() and not _ABBREVIATED.search(line, start, end):
                found.append(line[start:end].rstrip())
                start = end
        found.append(line[start:])
    return [sentence for sentence in found if sentence]


def word_places(text: str) -> Iterator[tuple[int, int]]:
    """Where each word begins and ends: a run of letters, digits and the marks that letters bear.

    What makes a picture of a character, the red of a heart or the key around a digit, is none of them. A character of
    kana and Han is a word by itself. Thai, Lao, Khmer and Burmese, which are written without spaces, too, are left as
    they are: a phrase counts as a word.
    """
    return (match.span() for match in _WORD.finditer("".join(map(_kept, text))))


def words(text: str) -> list[str]:
    """The words in lower case; of a text without letters outside ASCII, those of the package `rouge-score`."""
    return [unicodedata.normalize("NFC", text[start:end].lower()) for start, end in word_places(text)]


@cache
def _kept(character: str) -> str:
    category = unicodedata.category(character)
    return character if category[0] in "LMN" and category != "Me" and character not in _SIGNS else " "
