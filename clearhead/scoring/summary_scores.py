"""How good summaries are: ROUGE (Lin 2004), and the summaries that anybody can make without a model.

The figures are those of the package `rouge-score` without stemming, for texts without letters and digits outside
ASCII. Of those that package keeps none, so that a Russian summary scores 0 whatever it says; here they count.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..errors import DataError
from .resampling import Estimate, estimates
from .sentences import sentences, words
from .translation_scores import References, check


class Overlap(NamedTuple):
    """What a summary shares with a reference, 0 to 1."""

    precision: float  # of what the summary says
    recall: float  # of what the reference says
    f1: float

    @classmethod
    def of(cls, shared: int, said: int, wanted: int) -> "Overlap":
        """From counts; without anything said, or wanted, all are 0."""
        precision, recall = shared / max(said, 1), shared / max(wanted, 1)
        return cls(precision, recall, 2 * precision * recall / (precision + recall) if shared else 0.0)


class Rouge(NamedTuple):
    """One measure over a corpus: the value of each document, and their mean with its interval."""

    precision: Estimate
    recall: Estimate
    f1: Estimate

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, without those of single documents."""
        return self.f1.named("f1") | self.precision.named("precision") | self.recall.named("recall")


@dataclass(frozen=True)
class SummaryScores:
    """ROUGE of N documents, 0 to 1: shared words, shared pairs of words, and the longest common subsequence."""

    documents: int
    rouge_1: Rouge
    rouge_2: Rouge
    rouge_l: Rouge

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        measures = {"rouge_1": self.rouge_1, "rouge_2": self.rouge_2, "rouge_l": self.rouge_l}
        return {"documents": self.documents} | {name: rouge.to_dict() for name, rouge in measures.items()}


def summary_scores(summaries: Sequence[str], references: References) -> SummaryScores:
    """ROUGE-1, ROUGE-2 and ROUGE-L over the whole text, "rougeL" of `rouge-score`.

    Of several references of a document each measure takes the one with the best F1. No summaries, or a document
    without a reference, is a DataError.
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
    """The n-grams of the words that both have, each as often as the one has it that has it less often."""
    said, wanted = (Counter(zip(*(text[i:] for i in range(n)))) for text in (summary, reference))
    return Overlap.of((said & wanted).total(), said.total(), wanted.total())


def rouge_l(summary: Sequence[str], reference: Sequence[str]) -> Overlap:
    """The words that both have in the same order, whatever stands between them."""
    return Overlap.of(common_subsequence(summary, reference), len(summary), len(reference))


def common_subsequence(a: Sequence[str], b: Sequence[str]) -> int:
    """The length of the longest common subsequence, each row of the usual table being the bits of one integer.

    Bit i of a row is 0 where the table grows from column i to i + 1. A sum moves all of a row's zeros at once to where
    the next word stands (Hyyrö 2004): many times faster than cell by cell.
    """
    places: dict[str, int] = defaultdict(int)
    for place, word in enumerate(a):
        places[word] |= 1 << place
    all_ones = (1 << len(a)) - 1
    row = all_ones
    for word in b:
        same = row & places.get(word, 0)
        row = ((row + same) | (row - same)) & all_ones
    return len(a) - row.bit_count()


def first(text: str, n: int) -> str:
    """A summary without a model: the first n sentences; of a text with several lines, the first n that are not blank.

    Lines are the turns of a dialogue, or paragraphs. All of them where there are fewer; n below 1 is a DataError.
    """
    parts, joint = _parts(text, n)
    return joint.join(parts[:n])


def longest(text: str, n: int) -> str:
    """As `first`, with the n sentences or lines that have most characters, in the order of the text."""
    parts, joint = _parts(text, n)
    by_length = sorted(range(len(parts)), key=lambda place: -len(parts[place]))
    return joint.join(parts[place] for place in sorted(by_length[:n]))


def _parts(text: str, n: int) -> tuple[list[str], str]:
    """The parts that a text falls into, and what stands between them."""
    if n < 1:
        raise DataError(f"a summary of {n} sentences was asked for; expected at least 1")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines, "\n") if len(lines) > 1 else (sentences(text), " ")
