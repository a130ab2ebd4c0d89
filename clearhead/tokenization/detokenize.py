"""Streaming detokenization, which returns only complete characters that later tokens can't change."""

import codecs
from collections.abc import Iterable
from typing import Self

from .tokenizer import Tokenizer


class StreamingDetokenizer:
    """Turns tokens into text, a few at a time.

    The joined results of `add` equal `Tokenizer.decode` of all tokens, except that an incomplete last character is held
    back. `decode` shows it as U+FFFD.

    Args:
        tokenizer: the tokenizer of the tokens.
        before: tokens before the first call of `add`, whose text isn't returned.
    """

    def __init__(self, tokenizer: Tokenizer, before: Iterable[int] = ()) -> None:
        self.tokenizer, self._decoder = tokenizer, codecs.getincrementaldecoder("utf-8")("replace")
        self._at_start = tokenizer.adds_space
        self.add(before)

    def add(self, ids: Iterable[int]) -> str:
        """Return the characters that these tokens complete."""
        token_bytes = self.tokenizer.token_bytes
        text = self._decoder.decode(b"".join([token_bytes[i] for i in ids]))
        if text and self._at_start:
            self._at_start, text = False, text.removeprefix(" ")
        return text

    def copy(self) -> Self:
        """Return an independent copy in the same state."""
        twin = type(self)(self.tokenizer)
        twin._decoder.setstate(self._decoder.getstate())
        twin._at_start = self._at_start
        return twin
