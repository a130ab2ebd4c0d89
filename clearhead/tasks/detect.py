"""Detect the task that data is for, from its first lines."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from ..config import Config, DataConfig
from ..errors import DataError
from ..readers.column_roles import FAST_TEXT, LABELLED, MOST_UNLIKE, SENTENCES, SUMMARIES, Roles
from ..readers.columns import Sample, asked_columns, data_type, may_be_label
from ..readers.files import Input, is_folder, is_stream, tree
from ..readers.headers import named_pair
from ..readers.json_lines import JsonLines, detect_json_lines, read_object, sample_json
from ..readers.lines import read_head, read_lines, shown
from ..readers.media.labelled_files import are_labels, class_folder_of
from ..readers.media.media_files import modality_of
from ..readers.source import as_paths
from ..readers.tables import Table, begin_with_label, detect_table, sample_table, whole_rows
from .detect_media import media_task

_BEGINNING = 1 << 16  # bytes to search for JSON keys
_ENOUGH = 20  # minimum number of rows to see whether labels repeat
_LABELS = 0.25  # maximum distinct labels per row
_NAMED = 2 / 3  # the same, for columns named text and label
_LABEL = 40  # maximum characters of a label
_WORDS = 5  # maximum words of a label
_DOCUMENT, _SHORTER = 300, 4  # average characters of a document, and how many times shorter its summary is
_MARKS = (b"|", b";")  # possible separators that don't make a table
_MOST = 0.9  # minimum share of lines with such a separator
_FEW = 5  # minimum number of rows to choose columns by content
_KINDS = {"date": "dates", "number": "numbers", "address": "addresses", "code": "codes"}  # `data_type`
_ROLES = {"translate": SENTENCES, "classify": LABELLED, "summarize": SUMMARIES}


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
        options = "" if self.why == _CHOSEN else f"to override: {named}"
        return "\n  ".join(filter(None, [f"task: {self.verb}, because {self.why}", self.columns, options]))


_CHOSEN = "you chose it"
_PAIRS = DetectedTask("translate", "the data looks like pairs of texts")
_UNREAD = DetectedTask("translate", "")


def find_task(data_or_paths: Any, data: DataConfig, *, task: str | None = None) -> DetectedTask:
    """Return the task that fits the data. The default is translation.

    Unreadable files aren't reported here; reading them raises a clear error.

    Args:
        data_or_paths: files, folders or rows in memory (see `as_paths`).
        data: settings for reading, in which data.modality is known (see `with_modality`).
        task: the task, if the user chose it. Then only the columns are detected.

    Raises:
        DataError: several columns could be the text or the label.
    """
    paths = as_paths(data_or_paths)
    if (modality := data.modality) != "text":
        return DetectedTask(*((task, _CHOSEN) if task else media_task(paths, data, modality)), modality=modality)
    found = DetectedTask(task, _CHOSEN) if task else _detected(paths, data)
    return replace(found, columns=_columns(paths, data, found.verb))


def with_modality(config: Config) -> Config:
    """Return the settings with the kind of the data, detected unless the user set it."""
    if not config.accepts("data.modality", "data") or not config.data.train:
        return config
    return config.assign({"data.modality": modality_of(as_paths(config.data.train))}, "data")


def _columns(paths: Sequence[str | Path | Input], data: DataConfig, verb: str) -> str:
    """Describe the columns that a task uses; "" if the data has none or can't be read yet."""
    if len(paths) != 1 or is_stream(paths[0]) or verb not in _ROLES or class_folder_of(paths):
        return ""
    try:
        file = tree(paths[0])[0]
        head = read_head(file)
        form = _form(file.name, head, data, _ROLES[verb])
    except (DataError, OSError):
        return ""
    return form.described()


def _form(name: str, head: Sequence[bytes], data: DataConfig, roles: Roles) -> Table | JsonLines:
    return detect_json_lines(name, head, data, roles) or detect_table(name, head, (), data, roles)


def _detected(paths: Sequence[str | Path | Input], data: DataConfig) -> DetectedTask:
    if not paths:
        return _PAIRS
    if any(map(is_stream, paths)):
        return DetectedTask("translate", "standard input and pipes aren't inspected before they're read")
    if len(paths) == 2:
        return _aligned(*paths)
    try:
        first = tree(paths[0])[0]
        head = read_head(first)
    except (DataError, OSError):
        return _UNREAD
    if not any(head):
        return _UNREAD
    if not isinstance(paths[0], Input) and is_folder(Path(paths[0])) and _has_folders(paths[0]):
        if class_folder_of(paths) and are_labels(Path(paths[0])):
            return DetectedTask("classify", "it's a folder with folders of short texts, as for labels")
        return DetectedTask("generate", "it's a folder with folders in it, as running text usually is")
    beginning = b"".join(head)[:_BEGINNING]
    if b'"paragraphs"' in beginning and b'"qas"' in beginning:
        return DetectedTask("answer", "the file has articles with questions and answers, as in SQuAD")
    if data.separator in (" ", "space"):
        return DetectedTask("classify", "the separator is a space, so each line begins with a label")
    if begin_with_label(head):
        return DetectedTask("classify", f"the lines begin with {FAST_TEXT}, as in fastText's format")
    if objects := _objects(head):
        return _of_json(first.name, objects, head, data)
    return _of_lines(first.name, head, data)


def _has_folders(path: str | Path) -> bool:
    return any(it.is_dir() and not it.name.startswith(".") for it in Path(path).iterdir())


def _aligned(first: str | Path | Input, second: str | Path | Input) -> DetectedTask:
    """Return the task of two files. One may have labels, or they may be tables of sentences and questions."""
    files = [it if isinstance(it, Input) else Input(it) for it in (first, second)]
    if _widths(files) in ((2, 7), (7, 2)):
        return DetectedTask("answer", "the files are a table of sentences and one of questions, as in QAMR")
    for file in reversed(files):
        try:
            lines = [it.decode("utf-8", "replace").strip() for it in read_head(file)]
        except (DataError, OSError):
            return _UNREAD
        if _are_repeated(lines, 1) and any(lines):
            return DetectedTask("classify", f"the lines of {file.name} are repeated, as labels are")
    return _PAIRS


def _widths(files: Sequence[Input]) -> tuple[int, ...]:
    """Return the number of columns of the first line of each file, at most 7."""
    try:
        return tuple(min(7, 1 + next(iter(read_lines(file)), b"").count(b"\t")) for file in files)
    except (DataError, OSError):
        return ()


def _objects(head: Sequence[bytes]) -> list[dict[str, Any]]:
    """Return the objects of the first lines if most lines are objects."""
    objects = [values for line in head if line.strip() and (values := read_object(line)[0]) is not None]
    return objects if 2 * len(objects) > len([line for line in head if line.strip()]) else []


def _of_json(name: str, objects: Sequence[dict[str, Any]], head: Sequence[bytes], data: DataConfig) -> DetectedTask:
    if {"question", "context"} <= set(objects[0]):
        return DetectedTask("answer", "the objects have a question and a context")
    # Of all tasks, only summaries are made of lists, so no other is offered a key of one.
    sample, documents = (sample_json(name, objects, roles)[1] for roles in (LABELLED, SUMMARIES))
    if found := _by_choice(sample, documents, data) or _by_name(sample, documents):
        return found

    def are_pairs() -> bool:
        return _succeeds(lambda: detect_json_lines("", head, _without_columns(data)))

    if "text" in sample.names and not are_pairs():
        return DetectedTask("generate", 'each line has a text under the key "text"')
    if any("." in name for name in sample.names) and are_pairs():  # both sides may be nested
        return _PAIRS
    return _by_content(sample) or _PAIRS


def _without_columns(data: DataConfig) -> DataConfig:
    return replace(data, source_column="", target_column="", reverse=False)


def _succeeds(detect: Callable[[], Any]) -> bool:
    try:
        return detect() is not None
    except DataError:
        return False


def _of_lines(name: str, head: Sequence[bytes], data: DataConfig) -> DetectedTask:
    found = sample_table(name, head, data)
    if found is None:
        spoken = [line for line in head if line.strip()]
        if any(sum(mark in line for line in spoken) >= _MOST * len(spoken) for mark in _MARKS):
            return _PAIRS  # reading the file as pairs raises an error that suggests --separator
        hint = _first_words(spoken) or _one_column(name, spoken)
        return DetectedTask("generate", f"the file is running text, without columns{hint}")
    dialect, sample = found
    rows = [cells for _, _, cells, _ in whole_rows(head, dialect) if cells and len(cells) == len(sample.names)]
    if len(rows) < 2:
        return _PAIRS
    if 2 * sum(not row[0].strip() for row in rows) > len(rows):
        return DetectedTask("generate", "the file is running text with indented lines")
    if chosen := _by_choice(sample, sample, data) or _by_name(sample, sample):
        return chosen
    if named_pair(sample.names, sample.cells):
        return _PAIRS
    usable = sample.usable()
    if len(usable) > 2:
        return _by_content(sample) or _PAIRS
    return _of_two(sample, usable)


def _of_two(sample: Sample, usable: Sequence[int]) -> DetectedTask:
    """Return the task that fits the content of two columns.

    Raises:
        DataError: one of them has numbers, dates, addresses or codes, so they aren't pairs of texts.
    """
    columns = [sample.cells[place] for place in usable]
    if any(_are_repeated(column, 1) and any(map(str.strip, column)) for column in columns):  # may be sorted by label
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
    return _PAIRS


def _first_words(lines: Sequence[bytes]) -> str:
    """Return a hint if the first words of the lines look like labels, else ""."""
    words = [line.split(b" ", 1)[0].decode("utf-8", "replace") for line in lines if b" " in line.strip()]
    if len(words) < len(lines) or not all(words) or not _are_repeated(words):
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
        if roles is LABELLED and (_are_repeated(cells) or (may_be_label(cells) and sample.texts())):
            return DetectedTask(
                "classify", f"the values of {data.target_column or sample.titles()[target]} are repeated"
            )
    SENTENCES.asked(sample, data)
    return DetectedTask("translate", "you named two columns of texts")


def _by_name(sample: Sample, documents: Sample) -> DetectedTask | None:
    """Return the task that fits the names of the columns, or None. Labels must be repeated too.

    Raises:
        DataError: several columns could be the text or the label.
    """
    _expect_no_instructions(sample)
    # In a file sorted by label, the first labels are all the same.
    for roles, verb, least in ((LABELLED, "classify", 2), (SUMMARIES, "summarize", 1), (LABELLED, "classify", 1)):
        of = documents if roles is SUMMARIES else sample
        source, target = roles.named(of.words)
        if source is None or target is None:
            continue
        cells = of.cells[target]
        are_labels = _are_repeated(cells, least) and not _are_sentences(cells)
        if _shorter(cells, of.cells[source]) if roles is SUMMARIES else are_labels:
            roles.expect_no_rivals(of, source, target)
            return DetectedTask(verb, f"there are columns named {_two(of, source, target)}")
    source, target = LABELLED.named(sample.words)
    if source is not None and target is not None and named_pair(sample.words, sample.cells) is None:
        labels = sample.cells[target]  # there are many of them, or few rows
        distinct = set(labels)
        few = 2 <= len(distinct) <= _NAMED * len(labels) and max(map(len, distinct)) <= _LABEL
        if few and not _are_sentences(labels):
            LABELLED.expect_no_rivals(sample, source, target)
            return DetectedTask("classify", f"there are columns named {_two(sample, source, target)}")
    return None


def _expect_no_instructions(sample: Sample) -> None:
    """Raise a DataError for instructions with an input and an output, since it's unclear what to learn from them."""
    sides = [place for word in ("input", "output") for place, it in enumerate(sample.words) if it.strip() == word]
    others = [place for place in sample.texts() if sample.words[place].strip() in ("instruction", "prompt")]
    if len(sides) == 2 and others:
        raise sample.doubt("there are texts besides the input and the output", texts=[others[0], sides[1]])


def _two(sample: Sample, first: int, second: int) -> str:
    return f"{sample.names[first].strip()} and {sample.names[second].strip()}"


def _are_sentences(cells: Sequence[str]) -> bool:
    """Return whether most cells end as sentences do, or have many words. Labels may have a few."""
    sizes = [(len(cell.split()), cell.rstrip()[-1:] in ".!?") for cell in cells if cell.strip()]
    return 2 * sum(n > _WORDS or (n > 1 and ends) for n, ends in sizes) > len(sizes)


def _by_content(sample: Sample) -> DetectedTask | None:
    """Return the task that fits the content of three or more columns; None if there are too few rows.

    Raises:
        DataError: the task or the columns are ambiguous.
    """
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


def _are_repeated(values: Sequence[str], least: int = 2) -> bool:
    """Return whether the values may be labels: short, enough of them, and few compared with the rows."""
    distinct = set(values)
    fits = len(values) >= _ENOUGH and least <= len(distinct) <= max(2, _LABELS * len(values))
    return fits and max(map(len, distinct)) <= _LABEL
