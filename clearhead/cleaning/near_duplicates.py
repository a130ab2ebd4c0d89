"""Examples that nearly repeat another one: a word more or less, another order of words, or a typing error.

Candidates share min-hashes of their character trigrams (Broder 1997). An example that differs in a word that others
have, such as "tu" for "vous", is another translation and no duplicate.
"""

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from .character_model import Ints
from .languages import Column

_BANDS, _ROWS = 12, 3  # a candidate shares all hashes of a band
_NEAR = 8  # candidates compared with each other, among those that share a band
_SHARED = 0.5  # minimum share of equal hashes
_CLOSE = 0.7  # minimum similarity of a misspelt word to the right one
_IMPROBABLE = 3.0  # minimum loss of log-probability by a typing error; other endings of a word lose less
_FEWEST = 4  # minimum number of words
_WORD = re.compile(r"[^\W_]+")


def near_duplicates(columns: Sequence[Column]) -> Iterator[tuple[int, int]]:
    """Yield the index of each example that nearly repeats another one, and the index of that one.

    The later one is the duplicate, or the one with a typing error.

    Args:
        columns: the texts of each column.
    """
    words = [[_WORD.findall(text.casefold()) for text in column.texts] for column in columns]
    counts = [Counter(word for it in column for word in {*it}) for column in words]
    found = dict[int, int]()
    for one, other in _candidates(columns):
        sides = [_difference(column[one], column[other], count) for column, count in zip(words, counts)]
        if max(sides) > 1 or sides.count(1) > 1 or sum(len(it[one]) for it in words) < _FEWEST:
            continue
        worse = [float(column.own[other] - column.own[one]) for column in columns]
        if any(side == -1 and abs(less) < _IMPROBABLE for side, less in zip(sides, worse)):
            continue
        wrong, right = (
            (one, other) if any(side == -1 and less > 0 for side, less in zip(sides, worse)) else (other, one)
        )
        if wrong not in found and found.get(right) != wrong and any(it[one] != it[other] for it in words):
            found[wrong] = right
    yield from sorted(found.items())


def _difference(one: list[str], other: list[str], counts: Counter[str]) -> int:
    """Return 0 for the same words in any order, 1 for one more or less, -1 for typing errors, and 2 otherwise.

    A typing error is a word that no other text has, in place of a similar one.
    """
    if "".join(one) == "".join(other) or sorted(one) == sorted(other):
        return 0
    matcher = difflib.SequenceMatcher(None, one, other, autojunk=False)
    changes = [(one[a:b], other[c:d]) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]
    if len(changes) == 1 and len(changes[0][0]) + len(changes[0][1]) == 1:
        return 1
    are_errors = all(
        all(change)
        and any(all(counts[it] == 1 for it in side) for side in change)
        and difflib.SequenceMatcher(None, "".join(change[0]), "".join(change[1])).ratio() >= _CLOSE
        for change in changes
    )
    return -1 if len(changes) <= 2 and are_errors else 2


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
