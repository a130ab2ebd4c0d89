"""Texts to ids word by word: what a word became once it becomes again, so that most words are only looked up.

White space is where a text may be cut without changing its tokens: runs of it are one space after normalisation, every
piece begins with its space and ends before the next, and no normal form but the compatible ones joins or makes spaces.
"""

import re
from collections.abc import Sequence
from itertools import chain

import tokenizers

_MOST = 200_000  # words that are remembered; then all are forgotten, and the frequent ones come back soon
_LONG = 40  # letters: what is longer hardly comes again, as the sentences of languages that write no spaces
_UNLIKE = re.compile("[\x1c-\x1f]")  # white space for Python, and not for Unicode


class WordEncoder:
    """Encodes as `backend` does, and remembers the ids of words."""

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        self._backend = backend
        self._known: dict[str, tuple[int, ...]] = {}  # tuples, which the garbage collector need not go through
        normalize = backend.normalizer.normalize_str
        self._cuts = normalize("a \n\u3000b ") == " a b"  # white space is folded, and a space put in front
        self._compatible = normalize("ﬁ") != " ﬁ"  # such forms make spaces out of other characters

    def __call__(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, with all cores for what is new."""
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
        """What may be encoded by itself: the words, or the whole text."""
        if _UNLIKE.search(text) or (self._compatible and not text.isascii()):
            return [text]
        return text.split()

    def _encoded(self, texts: Sequence[str]) -> list[list[int]]:
        return [it.ids for it in self._backend.encode_batch_fast(list(texts), add_special_tokens=False)]
