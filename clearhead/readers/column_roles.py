"""What the two columns of a task mean: how they are called, by which names of a header they are found, and how without.

Sentences and their translations are told by languages, texts and labels by labels that come again and again, documents
and summaries by their length.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from .headers import holds_no_sentences, is_number, named_pair

_FEW = 20  # rows that tell a label from a text that comes again
_COMMON = 2 / 3  # distinct labels a row, at most: what is longer than a look has even of 150 labels
_LONG = 100  # letters; no label has more
FAST_TEXT = "__label__"  # what fastText writes in front of each label, which a text follows

Columns = tuple[int, int]  # of source and target, from 0


@dataclass(frozen=True)
class Roles:
    """What is read as source and target, in the words of a task."""

    source: str
    target: str
    files: str  # two line-aligned ones, for a message
    aligned: str  # what line n of them is to each other
    plural: tuple[str, str] = ("sources", "translations")
    source_names: tuple[str, ...] = ()  # of a header, the best first; none: languages, or "source" and "target"
    target_names: tuple[str, ...] = ()
    labels: bool = False  # the targets: few values, which JSON may also write as numbers and booleans
    lists: bool = False  # JSON may have lists of strings: a text in parts, several targets
    known: frozenset[str] = frozenset()  # labels that a model has learnt, by which their column is found

    def fault(self, source: str, target: str) -> str | None:
        """Why a pair cannot be used, or None."""
        if not source.strip():
            return f"empty {self.source}" if target.strip() else "blank line"
        if not target.strip():
            return f"empty {self.target}"
        if self.labels and "\n" in target:  # it would be two lines of an answer
            return "label of several lines"
        if self.labels and source.startswith(FAST_TEXT):
            return "more than one label"
        return "NUL character" if "\0" in source or "\0" in target else None

    def where(self, columns: Columns, before: str = "") -> str:
        """Where the columns stand, in words; `before` says what stands in front of sentences."""
        first, second = columns
        if self.source_names or first > second:
            return f" ({self.source} in {first + 1}, {self.target} in {second + 1})"
        return f" (sentences in {first + 1} and {second + 1}{before})" if columns != (0, 1) else ""

    def columns(self, names: Sequence[str], each: Sequence[Sequence[str]]) -> tuple[Columns, bool, str] | None:
        """Where they stand in a table, whether `names` are a header, and the first in words; None if nothing tells.

        `names` has a name for each column, were the first row a header, and `each` the cells below it.
        """
        if not self.source_names:
            return _sentences(self, names, each)
        named, unknown = self.named(names), (None, None)
        is_row = any(name.strip() and name in column for name, column in zip(names, each))  # no header comes again
        found = _both(named)
        for places in (unknown, named) if is_row else (named, unknown):
            found = found or self._looked(each, *places)
        if found is None:
            return None
        return found, named[0] == found[0] or named[1] == found[1], self.where(found)

    def keys(self, names: Sequence[str], each: Sequence[Sequence[str]]) -> Columns | None:
        """The same for keys of JSON, which are always names; None if nothing tells."""
        if not self.source_names:
            return named_pair(names, each) or ((0, 1) if len(names) == 2 else None)
        named = self.named(names)
        return _both(named) or self._looked(each, *named)

    def exchanged(self, each: Sequence[Sequence[str]]) -> bool:
        """Whether of two columns the first seems to hold the targets."""
        return bool(self.source_names) and self._looked(each) == (1, 0)

    def named(self, names: Sequence[str]) -> tuple[int | None, int | None]:
        """The columns whose names say what they are; the best names are taken."""
        plain = [re.sub(r"[\W_]+", "", name).casefold() for name in names]  # of review_text, "Review Text", reviewText
        source = next(_places(self.source_names, plain), None)
        return source, next((place for place in _places(self.target_names, plain) if place != source), None)

    def _looked(
        self, each: Sequence[Sequence[str]], source: int | None = None, target: int | None = None
    ) -> Columns | None:
        """The columns by what stands in them, where one may be known: texts are the longest, labels come again."""
        if len(each) < 2:
            return None
        sizes = [fmean(map(len, column)) if column else 0.0 for column in each]
        if self.labels and target is None:
            target = _known(each, source, self.known)
            if target is None:
                target = _labels([*each], sizes, source)
            if target is None:
                return None
        texts = [place for place in range(len(each)) if self.labels or not holds_no_sentences(each[place])]
        free = sorted((place for place in texts if place not in (source, target)), key=lambda it: -sizes[it])
        if len(free) < (source, target).count(None):
            return None
        source = free.pop(0) if source is None else source
        return source, free[0] if target is None else target


def _places(words: Sequence[str], plain: Sequence[str]) -> Iterator[int]:
    """Where words stand among names that were run together, word after word."""
    return (plain.index(name) for word in words if (name := word.replace(" ", "")) in plain)


def _both(named: tuple[int | None, int | None]) -> Columns | None:
    source, target = named
    return (source, target) if source is not None and target is not None else None


def _known(each: Sequence[Sequence[str]], text: int | None, labels: frozenset[str]) -> int | None:
    """The column most of whose cells are such labels: a file may be too short to tell them by coming again."""
    others = ((place, column) for place, column in enumerate(each) if column and place != text)
    shares = {place: fmean(cell in labels for cell in column) for place, column in others}
    best = max(shares, key=lambda it: shares[it], default=None)
    return best if best is not None and shares[best] > 0.5 else None


def _labels(each: Sequence[Sequence[str]], sizes: Sequence[float], text: int | None) -> int | None:
    """The column of labels: the one with the fewest, if they come again; of two short columns the shorter one.

    One and the same value on all rows, and one that is blank on most, is taken only where nothing else comes again: a
    file may be sorted by its labels, and a column may say nothing, or remark upon a few rows.
    """
    free = [place for place in range(len(each)) if place != text]
    counts = [len(set(column)) for column in each]
    blank = [sum(not cell.strip() for cell in column) for column in each]

    def comes_again(place: int) -> bool:
        n_rows = len(each[place])
        most = _COMMON * n_rows if n_rows >= _FEW else n_rows - 1
        return 0 < counts[place] <= most and max(map(len, each[place])) <= _LONG

    if again := [place for place in free if comes_again(place)]:
        return min(again, key=lambda it: (counts[it] == 1, 2 * blank[it] > len(each[it]), counts[it], sizes[it]))
    if len(each) == 2 and len(each[0]) < _FEW and (text is not None or sizes[0] != sizes[1]):
        return min(free, key=lambda it: sizes[it])
    return None


def _sentences(roles: Roles, names: Sequence[str], each: Sequence[Sequence[str]]) -> tuple[Columns, bool, str]:
    """By the header, where two of its cells say so; else the first two columns, unless the first of three or more
    holds no sentences.
    """
    spoken = [i for i, column in enumerate(each) if not holds_no_sentences(column)]
    columns = (spoken[0], spoken[1]) if len(each) > 2 and spoken[:1] != [0] and len(spoken) > 1 else (0, 1)
    columns = named_pair(names, each) or columns
    header = named_pair([names[i] for i in sorted(columns)]) is not None
    if 0 in columns or min(columns) not in spoken[:1]:
        return columns, header, roles.where(columns)
    numbers = all(is_number(cell) for column in each[: min(columns)] for cell in column)
    return columns, header, roles.where(columns, f"; {'numbers' if numbers else 'labels'} before them")


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(","))


SENTENCES = Roles("source", "target", "a.en a.fr", "line n of one translates line n of the other")
LABELLED = Roles(
    "text", "label", "texts labels", "line n of the labels is that of line n of the texts",
    source_names=_names(
        "text, sentence, review, question, content, document, article, body, comment, message, tweet, utterance, "
        "query, post, sms, description, review text, review body, input, source, abstract, summary, headline, title"
    ),
    target_names=_names(
        "label, labels, category, class, sentiment, target, coarse label, label coarse, coarse, fine label, "
        "label fine, fine, class index, class label, intent, emotion, topic, polarity, rating, stars, score, tag, "
        "output, y"
    ),
    plural=("texts", "labels"),
    labels=True,
)  # fmt: skip
SUMMARIES = Roles(
    "document", "summary", "documents summaries", "line n of the summaries is that of line n of the documents",
    source_names=_names("document, article, dialogue, dialog, source, text, content, body, story, input, abstract"),
    target_names=_names(
        "summary, highlights, headline, tldr, abstract, target, reference summary, summaries, gist, output, title"
    ),
    plural=("documents", "summaries"),
    lists=True,
)  # fmt: skip
