"""What is to be learnt of files, found by looking at their first lines, where nobody says it."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from ..config import DataConfig
from ..errors import DataError
from ..readers.column_roles import FAST_TEXT, LABELLED, SUMMARIES
from ..readers.files import STDIN, Input, is_folder, tree
from ..readers.headers import is_number, named_pair
from ..readers.json_lines import look_for_json, read_object
from ..readers.lines import LOOK, read_lines
from ..readers.tables import begin_with_label, look_for_table, whole_rows

Found = tuple[str, str]  # the verb, and why

_BEGINNING = 1 << 16  # bytes in which the keys of JSON are looked for
_ENOUGH = 20  # rows that tell whether labels come again
_LABELS = 0.25  # distinct labels a row, at most
_NAMED = 2 / 3  # the same, of a column that is called label beside one that is called text
_LABEL = 40  # letters of a label, at most
_DOCUMENT, _SHORTER = 300, 4  # letters of a document in the mean, and how many times shorter its summary is
_MARKS = (b"|", b";")  # which may be separators that are used otherwise than in a table
_MOST = 0.9  # of the lines have one then
_USUAL: Found = ("translate", "pairs of texts")


def find_task(paths: Sequence[str], data: DataConfig) -> Found:
    """The verb that fits the files, and in words why: pairs are translated, unless something tells otherwise.

    Nothing is refused here: what cannot be read is said by whoever reads it.
    """
    if STDIN in paths:
        return "translate", "standard input is not looked at before it is read"
    if len(paths) == 2:
        return _aligned(*paths)
    try:
        first = tree(paths[0])[0]
        head = list(itertools.islice(read_lines(first), LOOK))
    except (DataError, OSError):
        return _USUAL
    if is_folder(Path(paths[0])) and _names_folders(paths[0]):
        return "generate", "a folder with folders in it, as running text lies"
    beginning = b"".join(head)[:_BEGINNING]
    if b'"paragraphs"' in beginning and b'"qas"' in beginning:
        return "answer", "articles with questions and answers, as SQuAD has them"
    if data.separator in (" ", "space"):
        return "classify", "each line begins with a word by itself, as a label does"
    if begin_with_label(head):
        return "classify", f"each line begins with {FAST_TEXT}, as fastText writes its labels"
    keys = _keys(head)
    if keys:
        return _of_json(keys, head, data)
    return _of_lines(first.name, head, data)


def _names_folders(path: str) -> bool:
    return any(it.is_dir() and not it.name.startswith(".") for it in Path(path).iterdir())


def _aligned(first: str, second: str) -> Found:
    """Of two aligned files, one may hold labels. Two tables may be one of sentences and one of questions."""
    if _widths(first, second) in ((2, 7), (7, 2)):
        return "answer", "a table of sentences and one of questions, as QAMR has them"
    for path in (second, first):
        try:
            lines = [it.decode("utf-8", "replace").strip() for it in itertools.islice(read_lines(Input(path)), LOOK)]
        except (DataError, OSError):
            return _USUAL
        if _come_again(lines, 1) and any(lines):
            return "classify", f"the lines of {path} come again and again, as labels do"
    return _USUAL


def _widths(*paths: str) -> tuple[int, ...]:
    """The columns of the first line of each file that is a table, 7 at most; none of a file that cannot be read."""
    try:
        return tuple(min(7, 1 + next(iter(read_lines(Input(path))), b"").count(b"\t")) for path in paths)
    except (DataError, OSError):
        return ()


def _keys(head: Sequence[bytes]) -> list[str]:
    """The keys of the first object, where the lines are objects."""
    objects = [values for line in head if line.strip() and (values := read_object(line)[0]) is not None]
    return list(objects[0]) if objects and 2 * len(objects) > len([line for line in head if line.strip()]) else []


def _of_json(keys: Sequence[str], head: Sequence[bytes], data: DataConfig) -> Found:
    if {"question", "context"} <= set(keys):
        return "answer", "questions with contexts"
    columns: dict[str, list[str]] = {key: [] for key in keys}
    nested = False
    for line in head:
        values = read_object(line)[0] or {}
        for key in keys:
            nested |= isinstance(value := values.get(key), dict)
            if isinstance(value, list):
                value = " ".join(map(str, value))
            if isinstance(value, str | int | float):
                columns[key].append(str(value))
    found = _by_name(keys, list(columns.values()), data)
    if found:
        return found
    if "text" in keys and not _two_texts(head, data):
        return "generate", 'a text under "text" in each line'
    if nested and _two_texts(head, data):  # both sides may be in there
        return _USUAL
    return _one_text(keys, list(columns.values())) or _USUAL


def _two_texts(head: Sequence[bytes], data: DataConfig) -> bool:
    try:
        return look_for_json("", head, replace(data, source_column="", target_column="")) is not None
    except DataError:
        return False


def _of_lines(name: str, head: Sequence[bytes], data: DataConfig) -> Found:
    try:
        table = look_for_table(name, head, (), replace(data, source_column="", target_column=""))
    except DataError:
        spoken = [line for line in head if line.strip()]
        if any(sum(mark in line for line in spoken) >= _MOST * len(spoken) for mark in _MARKS):
            return _USUAL  # whose reader says how to name the separator
        return "generate", f"running text, without columns{_first_words(spoken)}"
    rows = [cells for _, _, cells, _ in whole_rows(head, table.separator) if cells and len(cells) == table.width]
    if len(rows) < 2:
        return _USUAL
    if 2 * sum(not row[0].strip() for row in rows) > len(rows):
        return "generate", "running text, whose lines are indented"
    names, below = [cell.strip() for cell in rows[0]], [list(column) for column in zip(*rows[1:])]
    if found := _by_name(names, below, data):
        return found
    if table.header:
        return _USUAL
    if table.width > 2:
        return _one_text(names, below) or _USUAL
    # Of a file that is sorted by its labels the first are all the same.
    if any(_come_again(column, 1) and any(map(str.strip, column)) for column in below):
        return "classify", "one of two columns has few values, which come again and again"
    sizes = sorted(fmean(map(len, column)) for column in below)
    if sizes[1] >= _DOCUMENT and sizes[1] >= _SHORTER * sizes[0]:
        return "summarize", "texts beside much shorter ones"
    return _USUAL


def _first_words(lines: Sequence[bytes]) -> str:
    """How to name the labels where they may be the first words of the lines; of a text these are more, or indented."""
    words = [line.split(b" ", 1)[0].decode("utf-8", "replace") for line in lines if b" " in line.strip()]
    if len(words) < len(lines) or not all(words) or not _come_again(words):
        return ""
    return ' (if the first word of each line is a label: --task classify --separator " ")'


def _by_name(names: Sequence[str], columns: Sequence[Sequence[str]], data: DataConfig) -> Found | None:
    """What the names of columns say; a label must come again, too."""
    if data.source_column or data.target_column:
        asked = [names.index(it) if it in names else None for it in (data.source_column, data.target_column)]
        if asked[1] is not None and _come_again(columns[asked[1]]):
            return "classify", f"the values of {data.target_column} come again and again"
        return None
    # Of a file that is sorted by its labels the first are all the same.
    for roles, verb, least in ((LABELLED, "classify", 2), (SUMMARIES, "summarize", 1), (LABELLED, "classify", 1)):
        source, target = roles.named(names)
        if source is None or target is None or (roles is SUMMARIES and not _shorter(columns[target], columns[source])):
            continue
        if roles is SUMMARIES or _come_again(columns[target], least):
            return verb, f"columns {names[source]} and {names[target]}"
    source, target = LABELLED.named(names)
    if source is not None and target is not None and named_pair(names, columns) is None:  # many labels, or few rows
        distinct = set(columns[target])
        if 2 <= len(distinct) <= _NAMED * len(columns[target]) and max(map(len, distinct)) <= _LABEL:
            return "classify", f"columns {names[source]} and {names[target]}"
    return None


def _one_text(names: Sequence[str], columns: Sequence[Sequence[str]]) -> Found | None:
    """Of several columns of which one alone holds sentences, and another, as who reads labels takes it, few values.

    The sentences have their name, or the others hold nothing that might be the other side of a pair; where the labels
    have theirs, what is much shorter might not.
    """
    found = None if named_pair(names, columns) else LABELLED.keys(names, columns)
    texts = [place for place, column in enumerate(columns) if _are_sentences(column) and not _come_again(column, 1)]
    if found is None or texts != [found[0]] or not _come_again(columns[found[1]]):
        return None
    source, target = found
    named = LABELLED.named(names)
    others = [column for place, column in enumerate(columns) if place not in found]
    sides = [column for column in others if not (all(map(is_number, column)) or _come_again(column, 1))]
    size = fmean(map(len, columns[source]))
    alike = any(_SHORTER * fmean(map(len, column)) > size for column in sides)
    if source == named[0] or (target == named[1] and not alike):
        return "classify", f"sentences in column {names[source]}, and few values in {names[target]}"
    if not sides:
        return "classify", f"one column of sentences, {source + 1}, and few values in {target + 1}"
    return None


def _are_sentences(column: Sequence[str]) -> bool:
    return 2 * sum(" " in cell.strip() for cell in column) > len(column)


def _shorter(texts: Sequence[str], others: Sequence[str]) -> bool:
    return bool(texts and others) and 2 * fmean(map(len, texts)) < fmean(map(len, others))


def _come_again(values: Sequence[str], least: int = 2) -> bool:
    """Whether they may be labels: short, so many at least, and few among many."""
    distinct = set(values)
    fits = len(values) >= _ENOUGH and least <= len(distinct) <= max(2, _LABELS * len(values))
    return fits and max(map(len, distinct)) <= _LABEL
