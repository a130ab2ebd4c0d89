"""Scores of summaries: ROUGE (Lin 2004), and baseline summaries that need no model.

For ASCII text, the scores equal those of the package `rouge-score` without stemming. That package drops all non-ASCII
letters, so a Russian summary always scores 0 there. Here, they count.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..errors import DataError
from .bootstrap import Estimate, estimates
from .sentences import sentences, words
from .translation_scores import References, check


class Overlap(NamedTuple):
    """The overlap of a summary with a reference, from 0 to 1."""

    precision: float  # share of the summary
    recall: float  # share of the reference
    f1: float

    @classmethod
    def of(cls, shared: int, said: int, wanted: int) -> "Overlap":
        """Compute the overlap from counts of shared items. It's 0 if either text is empty.

        Args:
            shared: number of items in both texts.
            said: number of items in the summary.
            wanted: number of items in the reference.
        """
        precision, recall = shared / max(said, 1), shared / max(wanted, 1)
        return cls(precision, recall, 2 * precision * recall / (precision + recall) if shared else 0.0)


class Rouge(NamedTuple):
    """One ROUGE measure over a corpus, with the value of each document, and the mean with its interval."""

    precision: Estimate
    recall: Estimate
    f1: Estimate


@dataclass(frozen=True)
class SummaryScores:
    """ROUGE of N documents, from 0 to 1: shared words, shared bigrams, and the longest common subsequence."""

    documents: int
    rouge_1: Rouge
    rouge_2: Rouge
    rouge_l: Rouge

    @property
    def by_name(self) -> dict[str, Rouge]:
        """The three measures, keyed by the usual names."""
        return {"rouge1": self.rouge_1, "rouge2": self.rouge_2, "rougeL": self.rouge_l}

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON: F1 from 0 to 100 with its 95% interval."""
        values: dict[str, Any] = {}
        for name, it in self.by_name.items():
            values |= {name: 100 * it.f1.mean, f"{name}_interval": [100 * it.f1.low, 100 * it.f1.high]}
        return values


def summary_scores(summaries: Sequence[str], references: References) -> SummaryScores:
    """Return ROUGE-1, ROUGE-2 and ROUGE-L. Each measure uses the reference with the best F1.

    ROUGE-L is computed over the whole text, like "rougeL" in `rouge-score`.

    Raises:
        DataError: there are no summaries, or a document has no reference.
    """
    check(summaries, references)
    measures: list[Callable[[list[str], list[str]], Overlap]] = [
        lambda summary, reference: rouge_n(summary, reference, 1),
        lambda summary, reference: rouge_n(summary, reference, 2),
        rouge_l,
    ]
    best = []  # (N, 3 measures, 3 values)
    for summary, texts in zip(summaries, references):
        said, wanted = words(summary), [words(text) for text in texts]
        best.append([max((measure(said, it) for it in wanted), key=lambda overlap: overlap.f1) for measure in measures])
    found = estimates(np.array(best).reshape(len(best), 9))
    return SummaryScores(len(best), Rouge(*found[:3]), Rouge(*found[3:6]), Rouge(*found[6:]))


def rouge_n(summary: Sequence[str], reference: Sequence[str], n: int) -> Overlap:
    """Return the overlap of word n-grams. A repeated n-gram counts as often as it occurs in both texts.

    Args:
        summary: the words of the summary.
        reference: the words of the reference.
        n: number of words in an n-gram.
    """
    said, wanted = (Counter(zip(*(text[i:] for i in range(n)))) for text in (summary, reference))
    return Overlap.of((said & wanted).total(), said.total(), wanted.total())


def rouge_l(summary: Sequence[str], reference: Sequence[str]) -> Overlap:
    """Return the overlap measured by the longest common subsequence of words."""
    *_, row = _common_rows(summary, reference)
    return Overlap.of(len(summary) - row.bit_count(), len(summary), len(reference))


def common_subsequence(a: Sequence[str], b: Sequence[str]) -> list[int]:
    """Return the indices in `a` of the words of a longest common subsequence, in order."""
    rows, found, column = [*_common_rows(a, b)], list[int](), len(a) - 1
    for before, row in zip(rows[-2::-1], rows[:0:-1]):
        while column >= 0 and row >> column & 1:  # as long without this word of `a`
            column -= 1
        if column >= 0 and before >> column & 1:  # longer with this word of `b`
            found.append(column)
            column -= 1
    return found[::-1]


def _common_rows(a: Sequence[str], b: Sequence[str]) -> Iterator[int]:
    """Yield the rows of the table of longest common subsequences, one for each length of `b`.

    Each row of the usual table is stored as the bits of an integer: bit i is 0 if the table grows from column i to
    i + 1. One addition moves all zeros of a row to the positions of the next word (Hyyrö 2004), which is many times
    faster than going cell by cell.
    """
    places: dict[str, int] = defaultdict(int)
    for place, word in enumerate(a):
        places[word] |= 1 << place
    all_ones = (1 << len(a)) - 1
    yield (row := all_ones)
    for word in b:
        same = row & places.get(word, 0)
        yield (row := ((row + same) | (row - same)) & all_ones)


def first(text: str, n: int) -> str:
    """Return the first n sentences, or the first n non-blank lines of a text with several lines.

    Lines are the turns of a dialogue, or paragraphs.

    Raises:
        DataError: n is below 1.
    """
    parts, joint = _parts(text, n)
    return joint.join(parts[:n])


def longest(text: str, n: int) -> str:
    """Return the n sentences or lines with the most characters, in their original order. See `first`."""
    parts, joint = _parts(text, n)
    by_length = sorted(range(len(parts)), key=lambda place: -len(parts[place]))
    return joint.join(parts[place] for place in sorted(by_length[:n]))


def _parts(text: str, n: int) -> tuple[list[str], str]:
    """Return the sentences or lines of a text, and the separator that joins them."""
    if n < 1:
        raise DataError(f"a summary can't have {n} sentences", expected="at least 1", name="n", value=n)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines, "\n") if len(lines) > 1 else (sentences(text), " ")
