"""IBM Model 1 (Brown et al. 1993): which words translate which, learned from the pairs themselves by EM.

A pair's score is the log-likelihood ratio of its target with and without the source, in both directions:

  sum over target words f of log (1/(l+1) (1 + sum over source words e of t(f | e) / p(f)))

The counts that a pair added itself are left out of its score.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .character_model import Floats, Ints, sums

# Words, cut to stems, and characters of scripts without spaces.
_WORD = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]|[^\W_]+|[^\w\s]")
_STEM, MOST = 4, 100  # letters of a stem; stems of a text that count
_ROUNDS, _PRIOR = 5, 0.5


@dataclass(frozen=True)
class Stems:
    """The stems of texts as numbers, one text after another."""

    ids: Ints
    lengths: Ints
    size: int

    @classmethod
    def of(cls, texts: Sequence[str]) -> "Stems":
        vocabulary: dict[str, int] = {}
        each = [[word[:_STEM] for word in _WORD.findall(text.lower())[:MOST]] or [""] for text in texts]
        ids = [vocabulary.setdefault(stem, len(vocabulary)) for stems in each for stem in stems]
        return cls(np.array(ids, np.int64), np.array([*map(len, each)], np.int64), len(vocabulary))

    def take(self, places: Ints) -> "Stems":
        """Return some of the texts."""
        lengths = self.lengths[places]
        firsts = (np.cumsum(self.lengths) - self.lengths)[places]
        return Stems(self.ids[np.repeat(firsts, lengths) + _within(lengths)], lengths, self.size)

    @property
    def texts(self) -> Ints:
        """The text of each stem."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    @property
    def within(self) -> Ints:
        """The place of each stem in its text."""
        return _within(self.lengths)

    def cut(self, lengths: Ints) -> "Stems":
        """Return the texts without what's after some lengths."""
        return Stems(self.ids[self.within < lengths[self.texts]], np.minimum(self.lengths, lengths), self.size)

    def join(self, other: "Stems") -> "Stems":
        """Return the texts with those of another, of the same vocabulary, after them."""
        order = np.argsort(np.concatenate([self.texts, other.texts]), kind="stable")
        return Stems(np.concatenate([self.ids, other.ids])[order], self.lengths + other.lengths, self.size)


@dataclass(frozen=True)
class _Cells:
    """Every source word of every pair with every target word of the same pair."""

    key: Ints  # source stem * number of target stems + target stem
    target: Ints  # position of the target word
    pair: Ints

    @classmethod
    def of(cls, source: Stems, target: Stems) -> "_Cells":
        counts = source.lengths * target.lengths
        pair = np.repeat(np.arange(len(counts)), counts)
        within = _within(counts)
        first, second = (np.cumsum(it.lengths) - it.lengths for it in (source, target))
        width = source.lengths[pair]
        place = second[pair] + within // width
        key = source.ids[first[pair] + within % width] * target.size + target.ids[place]
        return cls(key, place, pair)


class LexicalModel:
    """Translation counts of stems in one direction, and the share of them that each pair added."""

    def __init__(self, source: Stems, target: Stems, usable: Floats) -> None:
        cells = _Cells.of(source, target)
        self._keys, place = np.unique(cells.key, return_inverse=True)
        self._size, of = target.size, self._keys // target.size
        self._p = np.bincount(target.ids, minlength=target.size) / len(target.ids)
        t, weight = np.ones(len(self._keys)), usable[cells.pair]
        for _ in range(_ROUNDS):
            p = t[place]
            share = p / (sums(cells.target, p) + self._p[target.ids])[cells.target] * weight
            self._counts = sums(place, share, len(self._keys))
            self._totals = sums(of, self._counts, source.size)
            t = self._counts / np.maximum(self._totals[of], 1e-9)
        self._own = (
            _same_key(cells.pair * len(self._keys) + place, share),
            _same_key(cells.pair * source.size + cells.key // self._size, share),
        )

    def word_scores(self, source: Stems, target: Stems, *, are_counted: bool = False) -> Floats:
        """Return the log-likelihood ratio of each target word. The pair's own counts are left out if they're counted.

        Args:
            source: the sources (N).
            target: their targets (N).
            are_counted: whether these are the pairs that the model has counted.
        """
        cells = _Cells.of(source, target)
        place = np.searchsorted(self._keys, cells.key)
        place[place == len(self._keys)] = 0
        counts = np.where(self._keys[place] == cells.key, self._counts[place], 0.0)
        totals = self._totals[cells.key // self._size]
        if are_counted:
            counts, totals = np.maximum(counts - self._own[0], 0), np.maximum(totals - self._own[1], 0)
        p = self._p[target.ids] + 1e-9
        ratio = (counts / p[cells.target] + _PRIOR) / (totals + _PRIOR)
        return np.log((1 + sums(cells.target, ratio)) / (1 + np.repeat(source.lengths, target.lengths)))


def _within(lengths: Ints) -> Ints:
    """Return the place of each element in its group, for groups of these lengths, one after another."""
    return np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def _same_key(keys: Ints, values: Floats) -> Floats:
    """Return, for each value, the sum of all values with the same key."""
    _, place = np.unique(keys, return_inverse=True)
    return sums(place, values)[place]
