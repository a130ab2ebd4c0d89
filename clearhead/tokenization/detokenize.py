"""Tokens to text while they still come: never half a character, and never one that a later token takes back."""

import codecs
from collections.abc import Iterable
from typing import Self

from .tokenizer import Tokenizer


class StreamingDetokenizer:
    """What tokens add to a text, a few at a time.

    All that `add` gave, joined, is what `Tokenizer.decode` makes of all tokens; only a last character of which bytes
    are missing is still held back, where `decode` shows U+FFFD.
    """

    def __init__(self, tokenizer: Tokenizer, before: Iterable[int] = ()) -> None:
        """`before`: the tokens of the text so far, which `add` does not give again."""
        self.tokenizer, self._decoder = tokenizer, codecs.getincrementaldecoder("utf-8")("replace")
        self._at_start = tokenizer.space_in_front
        self.add(before)

    def add(self, ids: Iterable[int]) -> str:
        """The characters that these tokens complete."""
        token_bytes = self.tokenizer.token_bytes
        text = self._decoder.decode(b"".join([token_bytes[i] for i in ids]))
        if text and self._at_start:
            self._at_start, text = False, text.removeprefix(" ")
        return text

    def copy(self) -> Self:
        """Another one that has come as far."""
        twin = type(self)(self.tokenizer)
        twin._decoder.setstate(self._decoder.getstate())
        twin._at_start = self._at_start
        return twin
