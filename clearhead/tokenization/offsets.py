"""Offsets of tokens in the original text, in code points, and the tokens at given offsets.

Tokens come from the normalised text: composed, lower-cased, with folded white space. The library tracks this, but of
characters that were composed into one it reports only the first, and it assigns a letter to the space put in front.
Here every character except white space belongs to a token, and white space belongs to none.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from .tokenizer import UNK, Tokenizer


@dataclass(frozen=True)
class TokensWithOffsets:
    """The tokens of a text. Token i covers text[starts[i] : ends[i]], without white space around it.

    Starts and ends never decrease. Tokens that are bytes of one character each cover the whole character. A token of
    white space alone covers an empty span.
    """

    text: str
    ids: list[int]
    starts: list[int]
    ends: list[int]

    def span_of(self, first: int, last: int) -> tuple[int, int]:
        """Return the span of the tokens `first` to `last`, both included, without white space around it."""
        return _stripped(self.text, self.starts[first], self.ends[last])

    def tokens_of(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the first and last token that cover a character of text[start:end]; None if it's only white space."""
        start, end = _stripped(self.text, start, end)
        first, last = bisect_right(self.ends, start), bisect_left(self.starts, end) - 1
        while first <= last and self.starts[first] == self.ends[first]:  # white space covers nothing
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
    ids, starts, ends = encoding.ids, *([place[side] for place in encoding.offsets] for side in (0, 1))
    if ids and ids[0] != UNK and not tokenizer.decode(ids[:1]) and text[starts[0] : ends[0]].strip():
        ends[0] = starts[0]  # the space put in front, if it's a token by itself
    ends = [_next(starts, end, len(text)) for end in ends]
    placed = [_stripped(text, start, end) for start, end in zip(starts, ends)]
    return TokensWithOffsets(text, ids, [start for start, _ in placed], [end for _, end in placed])


def _next(starts: Sequence[int], end: int, whole: int) -> int:
    """Return where the next token starts: characters in between were composed into this one, or are white space."""
    following = bisect_left(starts, end)
    return starts[following] if following < len(starts) else whole


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span without white space around it; if there's nothing else, an empty span at its end."""
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, end
