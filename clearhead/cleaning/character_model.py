"""A language model of characters, by counts of n-grams. A text in the counts can be left out when it's scored.

p_n(c | h) = (count(h c) + a p_{n-1}(c | h')) / (count(h) + a), where h' is the history h without its first character
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_ORDER, _BITS, _PRIOR = 4, 18, 4.0
_LONGEST = 300  # characters of a text that count
_UNIFORM = 1 / 256
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def sums(places: NDArray[Any], values: Floats, size: int = 0) -> Floats:
    """Return the sum of the values at each place.

    Args:
        places: the place of each value, from 0 (N,).
        values: (N,).
        size: minimum length of the result.
    """
    return np.bincount(places, values, minlength=size).astype(np.float64, copy=False)


@dataclass(frozen=True)
class Grams:
    """The hashed n-grams of some texts: for each order and each character, the n-gram that ends with it.

    Args:
        grams: hashes of n-grams, and hashes of their histories, for each order (characters,).
        own: how often the text itself has the same n-gram, and the same history.
        text: the index of the text of each character.
        lengths: the number of characters of each text.
    """

    grams: list[tuple[NDArray[np.int32], NDArray[np.int32]]]
    own: list[tuple[NDArray[np.int32], NDArray[np.int32]]]
    text: Ints
    lengths: Ints

    @classmethod
    def of(cls, texts: Sequence[str]) -> "Grams":
        """Return the n-grams of lower-case texts, in which whitespace is a space and each digit a 0."""
        plain = [re.sub(r"\d", "0", " ".join(text[:_LONGEST].lower().split())) + "\n" for text in texts]
        padding = "\n" * (_ORDER - 1)
        joined = "".join(padding + text for text in plain).encode("utf-32-le", "surrogatepass")
        codes = np.frombuffer(joined, np.uint32).astype(np.uint64)
        lengths = np.array([*map(len, plain)], np.int64)
        text = np.repeat(np.arange(len(plain)), lengths)
        ends = np.arange(len(text)) + (text + 1) * len(padding)
        grams = [*zip(_hashes(codes, ends, 0), [np.zeros(len(ends), np.int32), *_hashes(codes, ends, 1)])]
        return cls(grams, [(_own(text, gram), _own(text, past)) for gram, past in grams], text, lengths)


def _hashes(codes: NDArray[np.uint64], ends: Ints, first: int) -> list[NDArray[np.int32]]:
    """Return the hashes of 1, 2, ... characters before each position, beginning `first` characters before it."""
    found, value = list[NDArray[np.int32]](), np.zeros(len(ends), np.uint64)
    for back in range(first, _ORDER):
        value = (value + codes[ends - back] + np.uint64(back + 1)) * _MULTIPLIER
        value ^= value >> np.uint64(29)
        found.append((value >> np.uint64(64 - _BITS)).astype(np.int32))
    return found


def _own(text: Ints, hashes: NDArray[np.int32]) -> NDArray[np.int32]:
    _, places, counts = np.unique(text << _BITS | hashes, return_inverse=True, return_counts=True)
    return counts[places].astype(np.int32)


@dataclass(frozen=True)
class CharacterModel:
    """Counts of n-grams and their histories, for each order. `weights` says how often each text was counted."""

    counts: list[tuple[Floats, Floats]]
    weights: Floats

    @classmethod
    def fit(cls, grams: Grams, weights: Floats) -> "CharacterModel":
        """Count the n-grams of texts with a weight each, 0 or 1."""
        each = weights[grams.text]

        def count(hashes: NDArray[np.int32]) -> Floats:
            return sums(hashes, each, 1 << _BITS)

        return cls([(count(gram), count(past)) for gram, past in grams.grams], weights)

    def log_probabilities(self, grams: Grams, *, are_counted: bool = False) -> Floats:
        """Return the log-probability of each text. If they're the texts that were counted, each is left out."""
        p, own = np.full(len(grams.text), _UNIFORM), self.weights[grams.text] if are_counted else 0.0
        for (counts, totals), (gram, past), (n_gram, n_past) in zip(self.counts, grams.grams, grams.own):
            count, total = counts[gram] - own * n_gram, totals[past] - own * n_past
            p = (count + _PRIOR * p) / (total + _PRIOR)
        return sums(grams.text, np.log(p), len(grams.lengths))
