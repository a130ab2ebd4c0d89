"""Split text in any language into sentences and words, for scores and baselines."""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache

# A full stop and closing quotes before whitespace, or the full stop of a script without spaces.
_END = re.compile(r"[.!?…]+[\"'”’»)\]]*\s+|[。！？]+[」』”’）]*\s*")
_ABBREVIATED = re.compile(r"(?:\b[^\W\d_]|\b(?:Mr|Mrs|Ms|Dr|Prof|St|vs))\.\s+\Z")  # J. Smith, U.S. Army, Dr. No
_ALONE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"  # kana and Han
# A word starts with a letter or a digit. The lookahead excludes marks, some of which are in the range of kana.
_WORD = re.compile(rf"(?=\w)(?:[{_ALONE}][^\w\s]*|[^\s{_ALONE}]+)")
_SIGNS = "\ufe0e\ufe0f"  # variation selectors: text or emoji style


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, without the whitespace between them. A line break also ends a sentence.

    A full stop doesn't end a sentence before a lower-case letter, or after an initial or a title ("Dr. No"). This
    heuristic is good enough for baselines.
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
    """Yield the start and end of each word, a sequence of letters, digits and combining marks.

    Emoji modifiers aren't part of a word. Each kana or Han character is a separate word. In other scripts without
    spaces, such as Thai, Lao, Khmer and Burmese, a phrase counts as one word.
    """
    return (match.span() for match in _WORD.finditer("".join(map(_kept, text))))


def words(text: str) -> list[str]:
    """Return the words of a text in lower case. For ASCII text, the package `rouge-score` finds the same words."""
    return [unicodedata.normalize("NFC", text[start:end].lower()) for start, end in word_places(text)]


@cache
def _kept(character: str) -> str:
    category = unicodedata.category(character)
    return character if category[0] in "LMN" and category != "Me" and character not in _SIGNS else " "
