"""Where tokens stand in the original text, and which tokens stand at a place of it; in code points.

The tokens are those of a text that was normalised: composed, lower-cased, its white space folded. The library keeps
track of that, but of characters that became one it names the first alone, and a space that was put in front stands for
a letter of the text. Here every character that is no white space belongs to a token, and none of the white space does.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from .tokenizer import UNK, Tokenizer


@dataclass(frozen=True)
class TokensWithOffsets:
    """The tokens of a text. Token i stands at text[starts[i] : ends[i]], without white space around it.

    Neither starts nor ends ever go back. Tokens that share a character, as the bytes of one do, all have it as a
    whole. A token of white space alone has an empty place, between what stands before and behind it.
    """

    text: str
    ids: list[int]
    starts: list[int]
    ends: list[int]

    def span_of(self, first: int, last: int) -> tuple[int, int]:
        """The place of the tokens from `first` to `last`, both included, without white space around it."""
        return _stripped(self.text, self.starts[first], self.ends[last])

    def tokens_of(self, start: int, end: int) -> tuple[int, int] | None:
        """The first and the last of the tokens that have a character of text[start:end]; None where it has none."""
        start, end = _stripped(self.text, start, end)
        first, last = bisect_right(self.ends, start), bisect_left(self.starts, end) - 1
        while first <= last and self.starts[first] == self.ends[first]:  # white space, which has no character
            first += 1
        while first <= last and self.starts[last] == self.ends[last]:
            last -= 1
        return (first, last) if start < end and first <= last else None


def encode_with_offsets(tokenizer: Tokenizer, text: str) -> TokensWithOffsets:
    """The tokens of `text`, as `encode` gives them, with their places. Half a surrogate pair in it is a DataError."""
    encoding = tokenizer.encoding(text)
    ids, starts, ends = encoding.ids, *([place[side] for place in encoding.offsets] for side in (0, 1))
    if ids and ids[0] != UNK and not tokenizer.decode(ids[:1]) and text[starts[0] : ends[0]].strip():
        ends[0] = starts[0]  # the space that was put in front, if it is a token by itself
    ends = [_next(starts, end, len(text)) for end in ends]
    placed = [_stripped(text, start, end) for start, end in zip(starts, ends)]
    return TokensWithOffsets(text, ids, [start for start, _ in placed], [end for _, end in placed])


def _next(starts: Sequence[int], end: int, whole: int) -> int:
    """Where the next token begins: what no token has follows the character with which it became one, or is space."""
    following = bisect_left(starts, end)
    return starts[following] if following < len(starts) else whole


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    """The place without white space around it; of nothing else an empty one at its end."""
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, end
