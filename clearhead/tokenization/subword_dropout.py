"""Subword dropout (BPE-dropout, Provilkov, Emelianenko and Voita 2020): random segmentations as a regulariser.

Byte-pair encoding repeatedly applies the merge that was learned first. Here every possible merge is skipped with
probability p in each round, and a word is done when no merge is left. With p = 0, this is plain BPE.

The library implements this too, but its random generator can't be seeded. Here the result depends only on (seed,
epoch), so a resumed run draws the same segmentations as an uninterrupted one.
"""

import json
import random
from collections.abc import Iterator
from itertools import chain, pairwise

import numpy as np
import tokenizers

from ..errors import ConfigError
from .normalise import BYTES, SPACE
from .ragged import Ragged
from .tokenizer import Tokenizer

_VARIANTS = 32  # segmentations of one word in one epoch; further occurrences reuse them
_CHUNK = 16_384  # sequences converted to lists at a time


class SubwordDropout:
    """Draws new segmentations for the sequences of a BPE tokenizer.

    Raises:
        ConfigError: the tokenizer is another program's, which may split and merge differently.
    """

    def __init__(self, tokenizer: Tokenizer, p: float) -> None:
        if tokenizer.is_foreign:
            what = f"data.subword_dropout={p} doesn't work with the vocabulary of an imported model"
            fix = "leave out data.subword_dropout"
            raise ConfigError(what, expected="0", fix=fix, name="data.subword_dropout", value=p)
        backend = tokenizers.Tokenizer.from_str(tokenizer.to_json())
        model = json.loads(tokenizer.to_json())["model"]
        self._ids: dict[str, int] = model["vocab"]
        self._letters = {i: piece for piece, i in self._ids.items()}
        self._ranks = {tuple(pair): rank for rank, pair in enumerate(model["merges"])}
        self._special = tokenizer.special.ids
        self._split, self._p = backend.pre_tokenizer.pre_tokenize_str, p
        self._folded = tokenizer.normalize("a  b") == "a b"

    def __call__(self, side: Ragged, longest: int, *, seed: str) -> Ragged:
        """Return the same texts with new segmentations. A sequence that would exceed `longest` tokens stays unchanged.

        Special tokens don't count towards `longest`.
        """
        rng, variants = random.Random(seed), dict[str, list[list[int]]]()
        parts = []
        for start in range(0, len(side), _CHUNK):
            rows = range(start, min(start + _CHUNK, len(side)))
            parts.append(Ragged([self._sequence(side[row], longest, rng, variants) for row in rows]))
        dtype = side.tokens.dtype
        tokens = np.concatenate([np.empty(0, dtype), *(part.tokens.astype(dtype) for part in parts)])
        return Ragged.of(tokens, np.concatenate([np.empty(0, np.int64), *(part.lengths for part in parts)]))

    def segment(self, word: str, rng: random.Random) -> list[int]:
        """Return the tokens of a word in the byte alphabet."""
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
        inner = [i for i in ids if i not in self._special]
        if len(inner) >= longest:  # can't get longer, and may have been truncated in the middle of a character
            return ids
        letters = "".join(map(self._letters.__getitem__, inner))
        drawn = list(chain.from_iterable(self._drawn(part, rng, variants) for part in self._parts(letters)))
        if len(drawn) > longest:
            return ids
        first = ids[: ids.index(inner[0])] if inner else ids
        return [*first, *drawn, *(ids[len(first) + len(inner) :])]

    def _parts(self, letters: str) -> Iterator[str]:
        """Return what to segment separately: words with their leading space, or all if whitespace isn't folded."""
        if not self._folded:
            return iter([letters] if letters else [])
        return (SPACE + part for part in letters.split(SPACE)[1:])

    def _drawn(self, part: str, rng: random.Random, variants: dict[str, list[list[int]]]) -> list[int]:
        known = variants.setdefault(part, [])
        if len(known) == _VARIANTS:
            return known[int(rng.random() * _VARIANTS)]
        text = bytes(map(BYTES.__getitem__, part)).decode()
        known.append(list(chain.from_iterable(self.segment(word, rng) for word, _ in self._split(text))))
        return known[-1]
