"""Examples that nearly repeat another one: with typos, a repeated word, one word more or fewer, or another word order.

Candidates share min-hashes of their character trigrams (Broder 1997). Different translations of a text are no
duplicates, so a copy must look damaged: it has a word, or words next to each other, that no other text has.
"""

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

import numpy as np

from .character_model import Ints
from .languages import Column

_BANDS, _ROWS = 12, 3  # a candidate shares all hashes of a band
_NEAR = 8  # candidates compared with each other, among those that share a band
_SHARED = 0.5  # minimum share of equal hashes
_IMPROBABLE = 5.0  # minimum loss of log-probability by a wrong letter; other endings of a word lose less
_RARE = 0.005  # maximum share of the texts that have a rare word
_MOST = 2 / 3  # minimum share of new neighbours
_FEWEST = 4  # minimum number of words
_WRONG = 1 / 3  # maximum share of wrong letters in misspelt words; in the text, half of it
_WORD = re.compile(r"[^\W_]+")


def near_duplicates(columns: Sequence[Column], first: int = 0) -> Iterator[tuple[int, int]]:
    """Yield the index of each example that nearly repeats another one, and the index of that one.

    The faulty one is the duplicate, or the later one if both could be right.

    Args:
        columns: the texts of each column.
        first: find only examples before this one that nearly repeat later ones, or are repeated by them (default: all).
            Without other columns that agree, a text with a word more or fewer may as well be another one. So these
            have the same words, apart from typing errors and words written twice.
    """
    sides, found = [_Words(column) for column in columns], dict[int, int]()
    for one, other in _candidates(columns):
        if (first and not one < first <= other) or sum(len(side.texts[one]) for side in sides) < _FEWEST:
            continue
        faults = [fault for side in sides if (fault := side.fault(one, other)) != (0, 0)]
        if not faults or None in faults or sum(words for words, _ in filter(None, faults)) > (not first):
            continue
        less = max((less for _, less in filter(None, faults)), key=abs)
        wrong, right = (one, other) if first or less > 0 else (other, one)
        if wrong not in found and found.get(right) != wrong:
            found[wrong] = right
    yield from sorted(found.items())


class _Words:
    """The words of a column's texts, and how many texts have each word, and each pair of adjacent ones."""

    def __init__(self, column: Column) -> None:
        self._own = column.own
        self.texts = [_WORD.findall(text.casefold()) for text in column.texts]
        self._counts = Counter(word for it in self.texts for word in {*it})
        self._pairs = Counter(pair for it in self.texts for pair in {*pairwise(["", *it, ""])})

    def fault(self, one: int, other: int) -> tuple[int, float] | None:
        """Return the fault that makes a text a copy of another one, or None if the texts differ.

        Returns:
            1 for a word more, a word less or another order of words, and 0 for typing errors, words written twice, or
            the same words.
            Then a positive number if `one` is the copy, a negative one if `other` is, and 0 if it's unknown.
        """
        words, others = self.texts[one], self.texts[other]
        if "".join(words) == "".join(others):
            return 0, 0
        if [it for it, _ in groupby(words)] == [it for it, _ in groupby(others)]:
            return 0, float(len(words) - len(others))
        extra = (Counter(words) - Counter(others)) + (Counter(others) - Counter(words))
        if extra.total() == abs(len(words) - len(others)) <= 1:
            return self._misplaced(words, others, [*extra])
        less = float(self._own[other] - self._own[one])
        n_errors = self._misspelt(words, others) if abs(less) >= _IMPROBABLE else 0
        return (0, less) if 0 < _IMPROBABLE * n_errors <= abs(less) else None

    def _misplaced(self, one: list[str], other: list[str], extra: list[str]) -> tuple[int, float] | None:
        """Return the fault of texts with one word more, one word fewer or a different word order.

        A faulty text isn't fluent: most words have neighbours that they don't have in other texts. A word more or less
        is also a fault if few texts have it, since few translations can do without it.
        """
        pairs, others = ({*pairwise(["", *it, ""])} for it in (one, other))
        new = [np.mean([self._pairs[it] == 1 for it in some] or [False]) for some in (pairs - others, others - pairs)]
        if any(self._counts[it] <= _RARE * len(self.texts) for it in extra):
            return 1, 0
        return (1, float(new[0] - new[1])) if max(new) >= _MOST else None

    def _misspelt(self, one: list[str], other: list[str]) -> int:
        """Return the number of letters in which the texts differ, or 0 if it's not only by typing errors.

        Most letters are the same, and at least half of the misspelt words occur in no other text.
        """
        matcher = difflib.SequenceMatcher(None, one, other, autojunk=False)
        changes = [(one[a:b], other[c:d]) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]
        n_new = sum(any(self._counts[word] == 1 for side in change for word in side) for change in changes)
        if 2 * n_new < len(changes):
            return 0
        sides = [tuple(map(" ".join, change)) for change in changes]
        errors = [_typing_errors(*side) for side in sides]
        few = all(count <= max(1, _WRONG * max(map(len, side))) for count, side in zip(errors, sides))
        return sum(errors) if few and sum(errors) <= max(1, _WRONG / 2 * sum(map(len, one))) else 0


def _typing_errors(one: str, other: str) -> int:
    """Return the number of letters to add, drop, replace or swap with the next one (optimal string alignment)."""
    before, row = list[int](), [*range(len(other) + 1)]
    for i, letter in enumerate(one):
        before, last, row = row, before, [i + 1]
        for k, it in enumerate(other):
            row.append(min(before[k + 1] + 1, row[k] + 1, before[k] + (it != letter)))
            if i and k and one[i - 1] == it and other[k - 1] == letter:
                row[-1] = min(row[-1], last[k - 1] + 1)
    return row[-1]


def _candidates(columns: Sequence[Column]) -> list[tuple[int, int]]:
    """Return pairs of examples that share a band of min-hashes, and half of all of them."""
    sides = [column.grams for column in columns]
    text = np.concatenate([it.text for it in sides])
    order = np.argsort(text, kind="stable")
    grams = np.concatenate(
        [it.grams[2][0].astype(np.uint64) << np.uint64(1) | np.uint64(n) for n, it in enumerate(sides)]
    )
    grams, firsts = grams[order], np.searchsorted(text[order], np.arange(len(columns[0].texts)))
    draw = np.random.default_rng(0)
    hashes = []
    for _ in range(_BANDS * _ROWS):
        mixed = (grams + np.uint64(1)) * np.uint64(draw.integers(1, 1 << 63) | 1)
        mixed = (mixed ^ mixed >> np.uint64(31)) * np.uint64(0x9E3779B97F4A7C15)
        hashes.append((np.minimum.reduceat(mixed, firsts) >> np.uint64(32)).astype(np.uint32))
    table = np.stack(hashes)
    pairs = [np.zeros((0, 2), np.int64)]
    for rows in np.split(table, _BANDS):
        order = np.lexsort(rows)
        ordered = rows[:, order]
        for step in range(1, _NEAR + 1):
            equal = np.flatnonzero((ordered[:, :-step] == ordered[:, step:]).all(0))
            pairs.append(np.sort(np.stack([order[equal], order[equal + step]], 1), axis=1))
    found: Ints = np.unique(np.concatenate(pairs), axis=0)
    shared = np.zeros(len(found))
    for row in table:
        shared += row[found[:, 0]] == row[found[:, 1]]
    return [(int(one), int(other)) for one, other in found[shared >= _SHARED * len(table)]]
