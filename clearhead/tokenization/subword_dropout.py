"""Subword dropout (Provilkov, Emelianenko and Voita 2020): the same word in other pieces, so that pieces learn to fit.

Byte-pair encoding joins, time after time, the neighbours whose merge was learnt first. Here each merge that is possible
is passed over with probability p, anew each time; where none is left, the word is done. With p = 0 it is the usual cut.

The library has such dropout too, but draws it from a generator that nobody can seed. This one is a function of (seed,
epoch): what a killed run had drawn is drawn again.
"""

import json
import random
from collections.abc import Iterator
from itertools import chain, pairwise

import numpy as np
import tokenizers

from ..tokenization.ragged import Ragged
from .normalise import BYTES
from .tokenizer import SPECIALS, Tokenizer

_SPACE = next(letter for letter, byte in BYTES.items() if byte == ord(" "))
_VARIANTS = 32  # cuts of one word in one epoch; more occurrences share them
_CHUNK = 16_384  # sequences that are lists at a time


class SubwordDropout:
    """Sequences of a tokenizer of kind "bpe", cut anew."""

    def __init__(self, tokenizer: Tokenizer, p: float) -> None:
        backend = tokenizers.Tokenizer.from_str(tokenizer.to_json())
        model = json.loads(tokenizer.to_json())["model"]
        self._ids: dict[str, int] = model["vocab"]
        self._letters = {i: piece for piece, i in self._ids.items()}
        self._ranks = {tuple(pair): rank for rank, pair in enumerate(model["merges"])}
        self._split, self._p = backend.pre_tokenizer.pre_tokenize_str, p
        self._folded = tokenizer.normalize("a  b") == "a b"

    def __call__(self, side: Ragged, longest: int, *, seed: str) -> Ragged:
        """The same texts in other tokens; as before where they would be more than `longest`, the special ones aside."""
        rng, variants = random.Random(seed), dict[str, list[list[int]]]()
        parts = []
        for start in range(0, len(side), _CHUNK):
            rows = range(start, min(start + _CHUNK, len(side)))
            parts.append(Ragged([self._sequence(side[row], longest, rng, variants) for row in rows]))
        dtype = side.tokens.dtype
        tokens = np.concatenate([np.empty(0, dtype), *(part.tokens.astype(dtype) for part in parts)])
        return Ragged.of(tokens, np.concatenate([np.empty(0, np.int64), *(part.lengths for part in parts)]))

    def cut(self, word: str, rng: random.Random) -> list[int]:
        """The tokens of a word, which is written in the letters of bytes."""
        pieces, ranks, p = list(word), self._ranks, self._p
        while True:
            possible = [(ranks[pair], i) for i, pair in enumerate(pairwise(pieces)) if pair in ranks]
            if p:
                possible = [merge for merge in possible if rng.random() >= p]
            if not possible:
                return [self._ids[piece] for piece in pieces]
            _, i = min(possible)
            pieces[i : i + 2] = [pieces[i] + pieces[i + 1]]

    def _sequence(
        self, ids: list[int], longest: int, rng: random.Random, variants: dict[str, list[list[int]]]
    ) -> list[int]:
        inner = [i for i in ids if i >= len(SPECIALS)]
        if (
            len(inner) >= longest
        ):  # its end may have been cut off, in the middle of a character; nor could it get longer
            return ids
        letters = "".join(map(self._letters.__getitem__, inner))
        cut = list(chain.from_iterable(self._drawn(part, rng, variants) for part in self._parts(letters)))
        if len(cut) > longest:
            return ids
        first = ids[: ids.index(inner[0])] if inner else ids
        return [*first, *cut, *(ids[len(first) + len(inner) :])]

    def _parts(self, letters: str) -> Iterator[str]:
        """What may be cut by itself: each word with its space, where there is one space between words."""
        if not self._folded:
            return iter([letters] if letters else [])
        return (_SPACE + part for part in letters.split(_SPACE)[1:])

    def _drawn(self, part: str, rng: random.Random, variants: dict[str, list[list[int]]]) -> list[int]:
        known = variants.setdefault(part, [])
        if len(known) == _VARIANTS:
            return known[int(rng.random() * _VARIANTS)]
        text = bytes(map(BYTES.__getitem__, part)).decode()
        known.append(list(chain.from_iterable(self.cut(word, rng) for word, _ in self._split(text))))
        return known[-1]
