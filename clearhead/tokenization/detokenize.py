"""Streaming detokenization: the text of tokens as they come, without decoding all of them again for each."""

import codecs
from collections.abc import Callable, Iterable, Sequence
from typing import Self

from .tokenizer import Tokenizer

_WINDOW = 16  # tokens that are decoded again, at least


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


class GrowingText:
    """The text of tokens as they come: after each token, what `decode` returns for all of them.

    Another program's decoder may treat the first and the last token in its own way, so the last ones are decoded
    again. Earlier ones are only left out where that doesn't change the text.

    Args:
        decode: returns the text of tokens.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode, self._ids = decode, list[int]()
        self._done, self._again = "", 0  # the text so far, and how many characters of it the tokens in `_ids` have

    def add(self, token: int) -> str:
        """Return the whole text. It ends with U+FFFD, and isn't final, if its last character is incomplete."""
        self._ids.append(token)
        text = self._done + self._decode(self._ids)[self._again :]
        if len(self._ids) > _WINDOW and len(self._ids) % _WINDOW == 0 and not text.endswith("\ufffd"):
            self._forget(text)
        return text

    def _forget(self, text: str) -> None:
        """Leave out all tokens but the last ones, if these have the same text alone."""
        last = self._ids[-_WINDOW:]
        shown = self._decode(last)
        if shown.strip() and text.endswith(shown.lstrip()):
            self._ids, self._done, self._again = last, text, len(shown)


def words_of(ids: Sequence[int], decode: Callable[[Sequence[int]], str]) -> list[int]:
    """Return the index of the word that each token belongs to. Words are separated by whitespace.

    Whitespace before the first word belongs to that word, other whitespace to the word before it. The ids must not
    include unknown tokens, which decoding skips. Answers never do; for other texts, use `offsets.word_indices`.
    """
    growing = GrowingText(decode)
    return [max(len(growing.add(token).split()) - 1, 0) for token in ids]
