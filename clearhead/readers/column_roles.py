"""Find the source and target columns of a task by their names or their content.

Sentences and translations differ in language, labels are repeated values, and a document is longer than its summary.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ..config import DataConfig
from ..errors import DataError
from .columns import Sample, asked_columns, asked_places, in_both, is_number, side_missing
from .headers import are_languages, holds_no_sentences, named_pair

_FEW = 20  # rows needed to tell a label from a repeated text
_COMMON = 2 / 3  # maximum distinct labels per row
_LONG = 100  # maximum characters of a label
OF_PROBABILITY = "_probability"  # ends the name of the column with the probability of a target's answer
MOST_UNLIKE = 2.5  # maximum ratio of average lengths between texts of the same kind
FAST_TEXT = "__label__"  # fastText's prefix of each label
_CERTAIN = ("label", "labels", "class label", "class", "class index", "target")  # unambiguous names

Columns = tuple[tuple[int, ...], int]  # source columns and target column, 0-based
Chosen = tuple[Columns, bool, str]  # the columns, whether the first row is a header, and a phrase for where they are


@dataclass(frozen=True)
class Roles:
    """Names of source and target in a task, and rules for finding their columns."""

    source: str
    target: str
    files: str  # example names of two line-aligned files, for messages
    aligned: str  # the relation between their lines, for messages
    plural: tuple[str, str] = ("sources", "translations")
    source_names: tuple[str, ...] = ()  # column names, best first; if empty: languages, or "source" and "target"
    target_names: tuple[str, ...] = ()
    labels: bool = False  # targets are labels; in JSON, they may be numbers and booleans
    lists: bool = False  # JSON values may be lists of strings: parts of a text, or several targets
    item: str = "pair"  # the noun for an example in a note on the held-out ones
    known: frozenset[str] = frozenset()  # labels of a trained model, which identify their column
    separator: str = ""  # of the labels in a cell, if a text has several
    targets: bool = False  # each label is in a column of its own, and becomes "name=label" with the column's name
    voices: bool = False  # a target may have two columns: the name of a voice, and a text
    numbers: bool = False  # targets are numbers, which are found by their content alone

    def fault(self, source: str, target: str) -> str | None:
        """Return the reason why a pair is unusable, or None."""
        if not source.strip():
            return f"empty {self.source}" if target.strip() else "blank line"
        if not target.strip() and not self.separator:
            return f"empty {self.target}"
        if self.labels and "\n" in target and not self.separator:  # an answer is one line
            return "label with several lines"
        if self.labels and source.startswith(FAST_TEXT):
            return "more than one label"
        return "NUL character" if "\0" in source or "\0" in target else None

    def labels_in(self, cell: str) -> str:
        """Return a target unchanged, or the labels in its cell, one per line."""
        if self.targets:
            raise _columns_needed("this data has no columns")
        return joined_labels(cell.split(self.separator)) if self.separator else cell

    def several(self, sample: Sample, data: DataConfig) -> tuple[int, ...]:
        """Return the columns that data.target_column names; () if that's one.

        Raises:
            DataError: there's no such column, or only one although each of several has a label.
        """
        several = (self.separator or self.voices) and "," in data.target_column
        found = asked_places(sample.file, sample.names, data.target_column, sample.what) if several else ()
        if self.targets and len(found) < 2:
            named = f"only {data.target_column!r}" if data.target_column else "none"
            raise _columns_needed(f"data.target_column names {named}", data.target_column)
        return found if len(found) > 1 else ()

    def expect_distinct(self, file: str, names: Sequence[str]) -> None:
        """Raise a DataError if several label columns, or the columns of their answers, have the same name."""
        wrong = next((it for it in names if names.count(it) > 1), None)
        if wrong is not None:
            what = f"{file} has {names.count(wrong)} label columns named {wrong!r}"
            raise DataError(what, expected="distinct names", fix="rename one", name=file, value=wrong)
        answers = {f"{it}{OF_PROBABILITY}" for it in names}
        wrong = next((it for it in names if "=" in it or "\n" in it or it in answers), None)
        if self.targets and wrong is not None:
            what = f"{file} has a label column named {wrong!r}"
            why = f"names on one line without =, and no other column's name with {OF_PROBABILITY}"
            raise DataError(what, expected=why, fix="rename the column", name=file, value=wrong)

    def joined(self, names: Sequence[str], cells: Sequence[str | None]) -> tuple[str, str]:
        """Return the labels in several columns, one per line, and ""; or "" and the reason why a cell is unusable.

        A voice and a text are joined by a space.
        """
        if self.voices:
            empty = next((name for name, cell in zip(names, cells) if not (cell or "").strip()), None)
            wrong = f"{names[0]} of several words" if len((cells[0] or "").split()) > 1 else ""
            wrong = f"empty {empty}" if empty else wrong
            return ("", wrong) if wrong else (" ".join(cell.strip() for cell in cells if cell), "")
        if not self.targets:
            return flagged(names, cells)
        for name, cell in zip(names, cells):
            if not (cell or "").strip():
                return "", f"empty {name}"
            if "\n" in (cell or ""):
                return "", f"{self.target} with several lines"
        return "\n".join(f"{name}={cell}" for name, cell in zip(names, cells)), ""

    def where(self, columns: Columns, before: str = "") -> str:
        """Return a phrase for where the columns are. `before` describes the columns before sentences."""
        sources, target = columns
        if self.source_names or len(sources) > 1 or sources[0] > target:
            places = " and ".join(str(place + 1) for place in sources)
            return f" ({self.source} in {places}, {self.target} in {target + 1})"
        return f" (sentences in {sources[0] + 1} and {target + 1}{before})" if (sources[0], target) != (0, 1) else ""

    def choose(self, sample: Sample) -> Chosen | None:
        """Return the columns of a table, or None if they can't be determined.

        Raises:
            DataError: several columns could be the text or the label.
        """
        if not self.source_names:
            return _sentences(self, sample)
        names, each = sample.words, sample.cells
        named, unknown = self.named(names), (None, None)
        is_row = any(name.strip() and name in column for name, column in zip(names, each))  # a header isn't repeated
        found = self._both(sample, named)
        for places in (unknown, named) if is_row else (named, unknown):
            found = found or self._detected(sample, *places)
        if found is None:
            return None
        columns = (found[0],), found[1]
        return columns, sample.header or named[0] == found[0] or named[1] == found[1], self.where(columns)

    def keys(self, sample: Sample) -> Columns | None:
        """Return the keys of JSON objects to use, or None if they can't be determined."""
        names = sample.words
        if self.source_names:
            named = self.named(names)
            found = self._both(sample, named) or self._detected(sample, *named)
        else:
            found = named_pair(names, sample.cells) or ((0, 1) if len(names) == 2 else None)
        return ((found[0],), found[1]) if found else None

    def asked(self, sample: Sample, data: DataConfig) -> Columns | None:
        """Return the columns set in `data`, or None if none are set. If one side isn't set, it's detected.

        Raises:
            DataError: there's no such column, or the other side can't be determined.
        """
        places = self.several(sample, data)
        if places:
            data = replace(data, target_column=sample.names[places[0]].strip() or str(places[0] + 1))
        asked = asked_columns(sample.file, sample.names, data, sample.what)
        if asked is None:
            return None
        sources, target = asked
        if not sources or target is None:
            found = self._completed(sample, sources[0] if sources else None, target)
            if found is None or found[1] in sources:
                raise side_missing(sample, data)
            sources, target = sources or (found[0],), found[1]
        if shared := {*sources}.intersection(places):
            raise in_both(sample.file, sample.names, sample.names[min(shared)], sample.what)
        return sources, target

    def _completed(self, sample: Sample, source: int | None, target: int | None) -> tuple[int, int] | None:
        """Return both columns, given one of them."""
        known = target if source is None else source
        if not self.source_names:
            pair = named_pair(sample.words, sample.cells) or sample.texts()
            others = [place for place in pair if place != known]
            both = (
                (others[0] if source is None else source, others[0] if target is None else target) if others else None
            )
            return both if len(others) == 1 else None
        plain = [_plain(name) for name in sample.words]
        names = self.source_names if source is None else self.target_names
        named = next((place for place in _places(names, plain) if place != known), None)
        if named is None:
            return self._detected(sample, source, target)
        if source is not None:
            self._expect_one_label(sample, source, named)
            return source, named
        assert target is not None
        self._expect_one_text(sample, named, target)
        return named, target

    def are_swapped(self, each: Sequence[Sequence[str]]) -> bool:
        """Return whether the first of two columns seems to contain the targets."""
        return bool(self.source_names) and self._detected(Sample("", ("", ""), each)) == (1, 0)

    def named(self, names: Sequence[str]) -> tuple[int | None, int | None]:
        """Return the source and target columns with known names, or None for each. The best names win."""
        plain = [_plain(name) for name in names]
        source = next(_places(self.source_names, plain), None)
        return source, next((place for place in _places(self.target_names, plain) if place != source), None)

    def expect_no_rivals(self, sample: Sample, source: int, target: int) -> None:
        """Raise a DataError if another column is just as likely to contain the labels or the texts.

        Args:
            sample: the first rows.
            source: the column found for the texts, from 0.
            target: the column found for the labels.
        """
        if _plain(sample.words[target]) not in [_plain(name) for name in _CERTAIN]:
            self._expect_one_label(sample, source, target)
            self._expect_one_text(sample, source, target)

    def _expect_one_label(self, sample: Sample, source: int, target: int) -> None:
        plain = [_plain(name) for name in sample.words]
        named, labels = {*_places(self.target_names, plain)}, sample.labels()
        certain = plain[target] in [_plain(name) for name in _CERTAIN]
        rivals = [place for place in labels if place in named and place not in (source, target)]
        if self.labels and rivals and target in labels and not certain:
            raise self._doubt(sample, [*rivals, target], [source])

    def _expect_one_text(self, sample: Sample, source: int, target: int) -> None:
        least = sample.length(source) / MOST_UNLIKE
        others = [it for it in sample.texts() if it not in (source, target) and least < sample.length(it)]
        if self.labels and others and target in sample.labels():
            raise self._doubt(sample, [target], [source, *others])

    def _both(self, sample: Sample, named: tuple[int | None, int | None]) -> tuple[int, int] | None:
        source, target = named
        if source is None or target is None:
            return None
        self.expect_no_rivals(sample, source, target)
        return source, target

    def _detected(self, sample: Sample, source: int | None = None, target: int | None = None) -> tuple[int, int] | None:
        """Find the columns by their content. One may be known. Texts are the longest column, and labels repeat."""
        each = sample.cells
        if len(each) < 2:
            return None
        sizes = [sample.length(place) for place in range(len(each))]
        if self.labels and target is None:
            target = _known(each, source, self.known)
            if target is None:
                target = self._only_label(sample, source)
            if target is None and not self.numbers:
                target = _labels([*each], sizes, source)
            if target is None:
                return None
        texts = [place for place in range(len(each)) if self.labels or not holds_no_sentences(each[place])]
        free = sorted((place for place in texts if place not in (source, target)), key=lambda it: -sizes[it])
        missing = (source, target).count(None)
        if len(free) < missing:
            return None
        sentences = [place for place in sample.texts() if place not in (source, target)]
        if missing and len(sentences) > missing and source is None:
            raise self._doubt(sample, [target] if target is not None else [], sentences)
        source = free.pop(0) if source is None else source
        return source, free[0] if target is None else target

    def _only_label(self, sample: Sample, source: int | None) -> int | None:
        """Return the only column that looks like labels, or numbers. Raise a DataError if there are several."""
        if not self.numbers and (len(sample.cells) < 3 or self.known):
            return None
        labels = [place for place in (sample.numbers() if self.numbers else sample.labels()) if place != source]
        labels = [place for place in labels if not are_languages(sample.cells[place])] or labels
        if len(labels) > 1:
            raise self._doubt(sample, labels, sample.texts() if source is None else [source])
        return labels[0] if labels else None

    def _doubt(self, sample: Sample, labels: Sequence[int], texts: Sequence[int]) -> DataError:
        """Return the error for several possible columns of labels, or of texts."""
        side = self.target if len(labels) > 1 else self.source
        return sample.doubt(f"several of them could be the {side}", labels=labels, texts=texts)


def _columns_needed(why: str, given: str = "") -> DataError:
    return DataError(
        f"data.label_kind='targets' needs several label columns, but {why}",
        expected="a table or JSON lines with a column for each target",
        fix="name the columns: `data.target_column=NAME,NAME`",
        name="data.target_column",
        value=given,
    )


def _plain(name: str) -> str:
    """Return a key that's equal for review_text, "Review Text" and reviewText."""
    return re.sub(r"[\W_]+", "", name).casefold()


def _places(words: Sequence[str], plain: Sequence[str]) -> Iterator[int]:
    """Yield the position of each word that is a column name, in the order of the words."""
    return (plain.index(name) for word in words if (name := word.replace(" ", "")) in plain)


def _known(each: Sequence[Sequence[str]], text: int | None, labels: frozenset[str]) -> int | None:
    """Return the column whose cells are mostly known labels. In a short file, labels may not repeat."""
    others = ((place, column) for place, column in enumerate(each) if column and place != text)
    shares = {place: sum(cell in labels for cell in column) / len(column) for place, column in others}
    best = max(shares, key=lambda it: shares[it], default=None)
    return best if best is not None and shares[best] > 0.5 else None


def _labels(each: Sequence[Sequence[str]], sizes: Sequence[float], text: int | None) -> int | None:
    """Return the column with the fewest values, if they repeat. With two columns and few rows, return the shorter one.

    Constant and mostly blank columns are chosen only if no other column repeats. The first labels are constant if a
    file is sorted by label, but other constant columns carry no information.
    """
    free = [place for place in range(len(each)) if place != text]
    counts = [len(set(column)) for column in each]
    blank = [sum(not cell.strip() for cell in column) for column in each]

    def repeats(place: int) -> bool:
        n_rows = len(each[place])
        most = _COMMON * n_rows if n_rows >= _FEW else n_rows - 1
        return 0 < counts[place] <= most and max(map(len, each[place])) <= _LONG

    if repeated := [place for place in free if repeats(place)]:
        return min(repeated, key=lambda it: (counts[it] == 1, 2 * blank[it] > len(each[it]), counts[it], sizes[it]))
    if len(each) == 2 and len(each[0]) < _FEW and (text is not None or sizes[0] != sizes[1]):
        return min(free, key=lambda it: sizes[it])
    return None


def _sentences(roles: Roles, sample: Sample) -> Chosen:
    """Return two columns of sentences: those with known names, or else the best by content."""
    names, each = sample.words, sample.cells
    named = named_pair(names, each)
    first, second = named or _two_of_several(sample)
    header = sample.header or named_pair([names[i] for i in sorted((first, second))]) is not None
    columns = (first,), second
    spoken = [i for i, column in enumerate(each) if not holds_no_sentences(column)]
    if 0 in (first, second) or min(first, second) not in spoken[:1]:
        return columns, header, roles.where(columns)
    numbers = all(is_number(cell) for column in each[: min(first, second)] for cell in column)
    return columns, header, roles.where(columns, f"; {'numbers' if numbers else 'labels'} before them")


def _two_of_several(sample: Sample) -> tuple[int, int]:
    """Find two columns of sentences by their content. Raise a DataError if they're ambiguous."""
    usable, texts = sample.usable(), sample.texts()
    if len(usable) > 2:
        if len(texts) == 2:
            return texts[0], texts[1]
        if len(texts) > 2:
            raise sample.doubt("more than two of them contain sentences", labels=sample.labels(), texts=texts)
        if sample.header and sample.labels():
            raise sample.doubt("no two of them contain sentences", labels=sample.labels(), texts=texts)
    spoken = [i for i, column in enumerate(sample.cells) if not holds_no_sentences(column)]
    return (spoken[0], spoken[1]) if len(sample.cells) > 2 and spoken[:1] != [0] and len(spoken) > 1 else (0, 1)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(","))


SENTENCES = Roles("source", "target", "a.en a.fr", "line n of one translates line n of the other")
LABELLED = Roles(
    "text", "label", "texts labels", "line n of the labels is the label of line n of the texts",
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
    "document", "summary", "documents summaries", "line n of the summaries summarizes line n of the documents",
    source_names=_names("document, article, dialogue, dialog, source, text, content, body, story, input, abstract"),
    target_names=_names(
        "summary, highlights, headline, tldr, abstract, target, reference summary, summaries, gist, output, title"
    ),
    plural=("documents", "summaries"),
    lists=True,
)  # fmt: skip
_FLAGS = {"1": True, "1.0": True, "true": True, "0": False, "0.0": False, "false": False}
LABEL_LISTS = ("labels", "label", "tags", "categories", "classes", "topics", "genres", "emotions", "intents")


def labelled(data: DataConfig) -> Roles:
    """Return the roles of texts with labels of data.label_kind. A target has one per line if it can have several."""
    if data.label_kind == "number":
        return replace(LABELLED, target="number", plural=("texts", "numbers"), target_names=(), numbers=True)
    if not data.label_separator:
        return LABELLED
    names, targets = (*LABELLED.target_names, *LABEL_LISTS), data.label_kind == "targets"
    return replace(LABELLED, separator=data.label_separator, target_names=names, targets=targets)


def joined_labels(labels: Iterable[str]) -> str:
    """Return labels one per line, without blank and repeated ones, and with single spaces."""
    return "\n".join(dict.fromkeys(filter(None, (" ".join(it.split()) for it in labels))))


def label_list(target: str) -> list[str]:
    """Return the labels of a target, one per line."""
    return target.split("\n") if target else []


def by_target(labels: Iterable[str]) -> dict[str, list[str]]:
    """Return the labels of each target, from labels such as "name=label"."""
    found: dict[str, list[str]] = {}
    for name, _, label in (it.partition("=") for it in labels):
        found.setdefault(name, []).append(label)
    return found


def flag(cell: str) -> bool | None:
    """Return whether a cell says that a text has a label, or None if it's neither 0 nor 1."""
    return _FLAGS.get(cell.strip().casefold())


def flagged(names: Sequence[str], cells: Sequence[str | None]) -> tuple[str, str]:
    """Return the names whose cells are 1 as labels, and ""; or "" and the reason why a cell is neither 0 nor 1."""
    flags = [flag(cell or "") for cell in cells]
    wrong = [name for name, given in zip(names, flags) if given is None]
    if wrong:
        return "", f"neither 0 nor 1 in {wrong[0]}"
    return joined_labels(name for name, given in zip(names, flags) if given), ""
