"""Encode texts word by word, with a cache of known words.

Splitting a text at whitespace doesn't change its tokens: normalisation folds whitespace to single spaces, and every
piece starts with its space and ends before the next one. Only the compatibility form (NFKC) can create or join spaces.
"""

import re
from collections.abc import Sequence
from itertools import chain

import tokenizers

_MOST = 200_000  # cached words; when it's full, the cache is cleared, and frequent words soon return
_LONG = 40  # longer words, such as sentences in languages without spaces, rarely repeat, and aren't cached
_UNLIKE = re.compile("[\x1c-\x1f]")  # whitespace in Python, but not in Unicode


class WordEncoder:
    """Encodes texts as `backend` does, and caches the ids of words."""

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        self._backend = backend
        self._known: dict[str, tuple[int, ...]] = {}  # tuples of ints, which the garbage collector skips
        normalize = backend.normalizer.normalize_str
        self._cuts = normalize("a \n\u3000b ") == " a b"  # True if it folds whitespace and prepends a space
        self._compatible = normalize("ﬁ") != " ﬁ"  # True for NFKC, which can turn other characters into spaces

    def __call__(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text; new words are encoded on all cores."""
        if not self._cuts:
            return self._encoded(texts)
        words = [self._words(text) for text in texts]
        new = set().union(*words).difference(self._known)
        if len(self._known) + len(new) > _MOST:
            self._known.clear()
            new = set().union(*words)
        listed = sorted(new)
        self._known.update(zip(listed, map(tuple, self._encoded(listed))))
        ids = self._known.__getitem__
        encoded = [list(chain.from_iterable(map(ids, found))) for found in words]
        for word in listed:
            if len(word) > _LONG:
                del self._known[word]
        return encoded

    def _words(self, text: str) -> list[str]:
        """Return what can be encoded separately: the words, or the whole text."""
        if _UNLIKE.search(text) or (self._compatible and not text.isascii()):
            return [text]
        return text.split()

    def _encoded(self, texts: Sequence[str]) -> list[list[int]]:
        return [it.ids for it in self._backend.encode_batch_fast(list(texts), add_special_tokens=False)]
