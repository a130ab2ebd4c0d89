"""Map tokens to offsets in the original text (in code points), and offsets to tokens.

The tokens are those of the normalised text, which is composed, lower-cased and has its whitespace folded. The library's
offsets have two flaws: if several characters were composed into one, only the first is covered, and the prepended space
covers a character. Here every character except whitespace belongs to a token, and whitespace belongs to none.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from .tokenizer import Tokenizer


@dataclass(frozen=True)
class TokensWithOffsets:
    """The tokens of a text. Token i covers text[starts[i] : ends[i]], without surrounding whitespace.

    Starts and ends never decrease. If a character is split into several tokens, each covers the whole character. A
    token that's only whitespace covers an empty span.
    """

    text: str
    ids: list[int]
    starts: list[int]
    ends: list[int]

    def span_of(self, first: int, last: int) -> tuple[int, int]:
        """Return the span of the tokens `first` to `last` (inclusive), without surrounding whitespace."""
        return _stripped(self.text, self.starts[first], self.ends[last])

    def tokens_of(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the indices of the first and last token in text[start:end], or None if that's only whitespace."""
        start, end = _stripped(self.text, start, end)
        first, last = bisect_right(self.ends, start), bisect_left(self.starts, end) - 1
        while first <= last and self.starts[first] == self.ends[first]:  # an empty span: whitespace
            first += 1
        while first <= last and self.starts[last] == self.ends[last]:
            last -= 1
        return (first, last) if start < end and first <= last else None


def encode_with_offsets(tokenizer: Tokenizer, text: str) -> TokensWithOffsets:
    """Return the tokens of a text, the same as `encode` returns, with their offsets.

    Raises:
        DataError: the text contains a lone surrogate.
    """
    encoding = tokenizer.encoding(text)
    last = len(text)  # the library's offsets of a suffix exceed it
    ids, starts, ends = encoding.ids, *([min(place[side], last) for place in encoding.offsets] for side in (0, 1))
    if ids and ids[0] != tokenizer.special.unk and not tokenizer.decode(ids[:1]) and text[starts[0] : ends[0]].strip():
        ends[0] = starts[0]  # the prepended space, if it's a token by itself
    ends = [_next(starts, end, last) for end in ends]
    placed = [_stripped(text, start, end) for start, end in zip(starts, ends)]
    return TokensWithOffsets(text, ids, [start for start, _ in placed], [end for _, end in placed])


def unknown_texts(tokenizer: Tokenizer, text: str) -> list[str]:
    """Return the original text of each unknown token of a text, in order."""
    unk = tokenizer.special.unk
    if unk is None or unk not in tokenizer.encode(text):
        return []
    found, offsets = encode_with_offsets(tokenizer, text), tokenizer.encoding(text).offsets
    spans = zip(found.ids, found.starts, found.ends, offsets)
    return [text[start:end] or text[slice(*whole)] for i, start, end, whole in spans if i == unk]  # whitespace is empty


def _next(starts: Sequence[int], end: int, whole: int) -> int:
    """Return the start of the next token. Characters before it were composed into this one, or are whitespace."""
    following = bisect_left(starts, end)
    return starts[following] if following < len(starts) else whole


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span without surrounding whitespace. If it's only whitespace, return an empty span at its end."""
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, end


def word_indices(tokenizer: Tokenizer, text: str) -> list[int]:
    """Return the index of the word that each token of a text belongs to. Whitespace separates words.

    Unknown tokens are included. Whitespace belongs to the word before it, or to the first word.
    """
    return [max(len(text[:end].split()) - 1, 0) for _, end in tokenizer.encoding(text).offsets]
