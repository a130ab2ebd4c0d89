"""Detect the task that a table or JSON objects are for, from the names and the content of their columns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from ..config import DataConfig
from ..errors import DataError
from ..readers.column_roles import LABELLED, MOST_UNLIKE, SENTENCES, SUMMARIES, Roles
from ..readers.columns import Sample, asked_columns, data_type, may_be_label
from ..readers.conversations import answers_in
from ..readers.headers import named_pair
from ..readers.json_lines import detect_json_lines, read_object, sample_json
from ..readers.lines import shown
from ..readers.tables import sample_table, whole_rows

ENOUGH = 20  # minimum number of rows to see whether labels repeat
_LABELS = 0.25  # maximum distinct labels per row
_NAMED = 2 / 3  # the same, for columns named text and label
_LABEL = 40  # maximum characters of a label
_WORDS = 5  # maximum words of a label
_DOCUMENT, _SHORTER = 300, 4  # average characters of a document, and how many times shorter its summary is
_MARKS = (b"|", b";")  # possible separators that don't make a table
_MOST = 0.9  # minimum share of lines with such a separator
_FEW = 5  # minimum number of rows to choose columns by content
_KINDS = {"date": "dates", "number": "numbers", "address": "addresses", "code": "codes"}  # `data_type`


@dataclass(frozen=True)
class DetectedTask:
    """A task, why it was chosen, and the columns that it uses. `str(found)` is readable text.

    If the data couldn't be read, the reason and the text are empty. Training reports the error.
    """

    verb: str
    why: str
    columns: str = ""
    modality: str = "text"

    def __str__(self) -> str:
        if not self.why:
            return ""
        named = "--task, --text, --label" if self.modality == "text" else "--task, --source-column, --target-column"
        options = "" if self.why == CHOSEN else f"to override: {named}"
        return "\n  ".join(filter(None, [f"task: {self.verb}, because {self.why}", self.columns, options]))


CHOSEN = "you chose it"
PAIRS = DetectedTask("translate", "the data looks like pairs of texts")


def objects(head: Sequence[bytes]) -> list[dict[str, Any]]:
    """Return the objects of the first lines if most lines are objects."""
    lines = [line for line in head if line.strip()]
    found = [values for line in lines if (values := read_object(line)[0]) is not None]
    return found if 2 * len(found) > len(lines) else []


def of_json(name: str, objects: Sequence[dict[str, Any]], head: Sequence[bytes], data: DataConfig) -> DetectedTask:
    """Return the task that fits the `objects` in the first lines of a file.

    Args:
        name: the file, for messages.
        objects: the objects of the first lines, at least one.
        head: the same lines, undecoded.
        data: settings that may name columns.
    """
    if {"question", "context"} <= set(objects[0]):
        return DetectedTask("answer", "the objects have a question and a context")
    if (found_in := answers_in(objects[0])) and not (data.source_column or data.target_column):
        return DetectedTask("generate", f"the objects have {found_in}")
    # Of all tasks, only summaries are made of lists, so no other is offered a key of one.
    sample, documents = (sample_json(name, objects, roles)[1] for roles in (LABELLED, SUMMARIES))
    if found := _by_choice(sample, documents, data) or _by_name(sample, documents):
        return found

    def are_pairs() -> bool:
        detected = replace(data, source_column="", target_column="", reverse=False)
        return _succeeds(lambda: detect_json_lines("", head, detected))

    if "text" in sample.names and not are_pairs():
        return DetectedTask("generate", 'each line has a text under the key "text"')
    if any("." in name for name in sample.names) and are_pairs():  # both sides may be nested
        return PAIRS
    return _by_content(sample) or PAIRS


def _succeeds(detect: Callable[[], Any]) -> bool:
    try:
        return detect() is not None
    except DataError:
        return False


def of_lines(name: str, head: Sequence[bytes], data: DataConfig) -> DetectedTask:
    """Return the task that fits the first lines of a file, a table or running text.

    Args:
        name: the file, whose extension may tell that it's a table.
        head: the first lines, undecoded.
        data: settings that may name the separator and the columns.
    """
    found = sample_table(name, head, data)
    if found is None:
        spoken = [line for line in head if line.strip()]
        if any(sum(mark in line for line in spoken) >= _MOST * len(spoken) for mark in _MARKS):
            return PAIRS  # reading the file as pairs raises an error that suggests --separator
        hint = _first_words(spoken) or _one_column(name, spoken)
        return DetectedTask("generate", f"the file is running text, without columns{hint}")
    dialect, sample = found
    rows = [cells for _, _, cells, _ in whole_rows(head, dialect) if cells and len(cells) == len(sample.names)]
    if len(rows) < 2:
        return PAIRS
    if 2 * sum(not row[0].strip() for row in rows) > len(rows):
        return DetectedTask("generate", "the file is running text with indented lines")
    if chosen := _by_choice(sample, sample, data) or _by_name(sample, sample):
        return chosen
    if named_pair(sample.names, sample.cells):
        return PAIRS
    usable = sample.usable()
    if len(usable) > 2:
        return _by_content(sample) or PAIRS
    return _of_two(sample, usable)


def _of_two(sample: Sample, usable: Sequence[int]) -> DetectedTask:
    """Return the task that fits the content of two columns. Raise DataError if one has numbers, dates or the like."""
    columns = [sample.cells[place] for place in usable]
    if any(are_repeated(column, 1) and any(map(str.strip, column)) for column in columns):  # may be sorted by label
        return DetectedTask("classify", "one of two columns has few values, which are repeated")
    sizes = sorted(fmean(map(len, column)) for column in columns)
    if len(sizes) == 2 and sizes[1] >= _DOCUMENT and sizes[1] >= _SHORTER * sizes[0]:
        return DetectedTask("summarize", "one column has long texts, the other much shorter ones")
    kinds = [data_type(column) for column in columns]
    if len([kind for kind in kinds if kind]) == 1 and len(kinds) == 2 and len(columns[0]) >= _FEW:
        typed = next(place for place, kind in zip(usable, kinds) if kind)
        title, [kind] = sample.titles()[typed], filter(None, kinds)
        raise sample.doubt(
            f"{title} contains {_KINDS[kind]}", labels=[typed], texts=[it for it in usable if it != typed]
        )
    return PAIRS


def _first_words(lines: Sequence[bytes]) -> str:
    """Return a hint if the first words of the lines look like labels, else ""."""
    words = [line.split(b" ", 1)[0].decode("utf-8", "replace") for line in lines if b" " in line.strip()]
    if len(words) < len(lines) or not all(words) or not are_repeated(words):
        return ""
    return ' (if the first word of each line is a label: --task classify --separator " ")'


def _one_column(name: str, lines: Sequence[bytes]) -> str:
    """Return a warning if the file seems to be a table with a single column, else ""."""
    first = lines[0].decode("utf-8", "replace").strip()
    is_table = any(it.casefold() in (".csv", ".tsv") for it in Path(name).suffixes[-2:])  # texts.csv.gz
    is_header = first.casefold() in (*LABELLED.source_names, *SUMMARIES.source_names)
    if not (is_table or is_header) or len(lines) < 2:
        return ""
    header = f", even a header such as {shown(first, 40)}" if is_header else ""
    return f" (every line is trained on as it is{header}; if it's a table, keep only its texts)"


def _by_choice(sample: Sample, documents: Sample, data: DataConfig) -> DetectedTask | None:
    """Return the task that fits the columns chosen by the user, if any. The other side is detected.

    Args:
        sample: the columns of texts and labels.
        documents: the same, or in JSON, those of documents and summaries.
        data: settings that may name columns.

    Raises:
        DataError: there's no such column, or the other side can't be determined.
    """
    if not (data.source_column or data.target_column):
        return None
    pair = named_pair(sample.words, sample.cells) or ()
    for roles, of in ((LABELLED, sample), (SUMMARIES, documents)):
        if roles is SUMMARIES and None in roles.named(of.words):
            continue
        try:
            sources, target = roles.asked(of, data) or ((), 0)
        except DataError:
            if roles is LABELLED and not pair and _succeeds(lambda: asked_columns("", sample.names, data)):
                raise
            continue
        cells = of.cells[target]
        if roles is SUMMARIES and _shorter(cells, of.cells[sources[0]]):
            return DetectedTask("summarize", f"there are columns named {of.names[sources[0]]} and {of.names[target]}")
        if roles is LABELLED and (are_repeated(cells) or (may_be_label(cells) and sample.texts())):
            name = data.target_column or sample.titles()[target]
            return DetectedTask("classify", f"the values of {name} are repeated")
    SENTENCES.asked(sample, data)
    return DetectedTask("translate", "you named two columns of texts")


def _by_name(sample: Sample, documents: Sample) -> DetectedTask | None:
    """Return the task that fits the names of the columns, or None. Labels must be repeated too.

    Raises:
        DataError: several columns could be the text or the label.
    """
    _expect_no_instructions(sample)
    are_pairs = named_pair(sample.words, sample.cells) is not None
    tests: tuple[tuple[Roles, str, Callable[[Sequence[str], Sequence[str]], bool]], ...] = (
        (LABELLED, "classify", lambda labels, _: are_repeated(labels)),
        (SUMMARIES, "summarize", _shorter),
        (LABELLED, "classify", lambda labels, _: are_repeated(labels, 1)),  # a file may be sorted by label
        (LABELLED, "classify", lambda labels, _: not are_pairs and _are_few(labels, 2, _NAMED * len(labels))),
    )
    for roles, verb, fit in tests:
        of = documents if roles is SUMMARIES else sample
        source, target = roles.named(of.words)
        if source is None or target is None:
            continue
        cells = of.cells[target]
        if fit(cells, of.cells[source]) and (roles is SUMMARIES or not _are_sentences(cells)):
            roles.expect_no_rivals(of, source, target)
            return DetectedTask(verb, _names(of, source, target))
    return None


def _expect_no_instructions(sample: Sample) -> None:
    """Raise a DataError for instructions with an input and an output, since it's unclear what to learn from them."""
    sides = [place for word in ("input", "output") for place, it in enumerate(sample.words) if it.strip() == word]
    others = [place for place in sample.texts() if sample.words[place].strip() in ("instruction", "prompt")]
    if len(sides) == 2 and others:
        raise sample.doubt("there are texts besides the input and the output", texts=[others[0], sides[1]])


def _names(sample: Sample, first: int, second: int) -> str:
    return f"there are columns named {sample.names[first].strip()} and {sample.names[second].strip()}"


def _are_sentences(cells: Sequence[str]) -> bool:
    """Return whether most cells end as sentences do, or have many words. Labels may have a few."""
    sizes = [(len(cell.split()), cell.rstrip()[-1:] in ".!?") for cell in cells if cell.strip()]
    return 2 * sum(n > _WORDS or (n > 1 and ends) for n, ends in sizes) > len(sizes)


def _by_content(sample: Sample) -> DetectedTask | None:
    """Return the task that fits three or more columns, or None if rows are few. Raise DataError if it's ambiguous."""
    texts, labels = sample.texts(), sample.labels()
    if named_pair(sample.words, sample.cells) or not sample.cells or len(sample.cells[0]) < _FEW:
        return None
    labels = [place for place in labels if place not in texts]
    sizes = sorted(map(sample.length, texts))
    if not labels and (not texts or (len(texts) == 2 and sizes[1] <= MOST_UNLIKE * sizes[0])):
        return None
    if not labels and len(texts) > 1:
        why = "the texts of one are much longer" if len(texts) == 2 else "more than two of them contain sentences"
        raise sample.doubt(why, texts=texts)
    if len(labels) > 1:
        raise sample.doubt("several of them could be the label", labels=labels, texts=texts)
    named, _ = LABELLED.named(sample.words)
    if len(texts) == 1 and labels and (texts[0] == named or not _may_be_side(sample, texts[0], labels[0])):
        text, label = (sample.titles()[place] for place in (texts[0], labels[0]))
        return DetectedTask("classify", f"only {text} contains sentences, and only {label} has few values, repeated")
    if len(texts) == 1 and not labels:
        raise sample.doubt("only one of them contains sentences", texts=texts)
    if not texts:
        raise sample.doubt("none of them contains sentences", labels=labels)
    raise sample.doubt("they could be pairs of texts, or texts with labels", labels=labels, texts=texts)


def _may_be_side(sample: Sample, text: int, label: int) -> bool:
    """Return whether another column may be the other side of pairs: words or texts of a similar length."""
    size = sample.length(text)
    others = [cells for place, cells in enumerate(sample.cells) if place not in (text, label)]
    sides = [cells for cells in others if any(map(str.strip, cells)) and not data_type(cells) and len({*cells}) > 1]
    return any(_SHORTER * fmean(map(len, cells)) > size for cells in sides)


def _shorter(texts: Sequence[str], others: Sequence[str]) -> bool:
    return bool(texts and others) and 2 * fmean(map(len, texts)) < fmean(map(len, others))


def are_repeated(values: Sequence[str], least: int = 2) -> bool:
    """Return whether the values may be labels: short, enough of them, and few compared with the rows."""
    return len(values) >= ENOUGH and _are_few(values, least, max(2, _LABELS * len(values)))


def _are_few(values: Sequence[str], least: int, most: float) -> bool:
    """Return whether the number of distinct values is in bounds, and all of them are as short as labels."""
    distinct = set(values)
    return least <= len(distinct) <= most and max(map(len, distinct)) <= _LABEL
