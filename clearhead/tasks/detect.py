"""Detect the task that data is for, from its first lines."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..config import Config, DataConfig
from ..data.forms import RECORDINGS, TRANSCRIPTS
from ..errors import DataError
from ..readers.column_roles import FAST_TEXT, LABELLED, SENTENCES, SUMMARIES, flag, labelled
from ..readers.columns import Sample
from ..readers.conversations import answers_in
from ..readers.files import Input, is_folder, is_stream, tree
from ..readers.json_lines import detect_json_lines, labels_of, sample_json, value_at
from ..readers.lines import HEAD_LINES, read_head, read_lines, shown
from ..readers.media.labelled_files import are_labels, class_folder_of
from ..readers.media.media_files import PLURAL, manifest_in, modality_of
from ..readers.media.media_source import MediaSource
from ..readers.source import as_paths
from ..readers.tables import begin_with_label, detect_table, sample_table
from .detect_columns import CHOSEN, ENOUGH, PAIRS, DetectedTask, are_repeated, objects, of_json, of_lines

_LISTS = ("label", "labels")  # keys of lists that are surely labels
_BEGINNING = 1 << 16  # bytes to search for JSON keys
_CAPTIONS = 0.9  # minimum distinct targets per image, for captions
_ROLES = {"translate": SENTENCES, "classify": LABELLED, "summarize": SUMMARIES}
_KINDS = {
    "several": "each text has any number of labels",
    "targets": "each text has a label in each of several columns",
    "number": "each text has a number",
}
_STRANGE = 0.1  # minimum share of other values than 0 and 1 in a column that surely has labels
_UNKNOWN = {"-1", "-1.0", "na", "n/a", "nan", "null", "none", "?", "-"}  # marks of unknown labels
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
        return DetectedTask(*((task, CHOSEN) if task else _media_task(paths, data, modality)), modality=modality)
    found = DetectedTask(task, CHOSEN) if task else _detected(paths, data)
    return replace(found, columns=_columns(paths, data, found.verb))


def with_modality(config: Config) -> Config:
    """Return the settings with the kind of the data, detected unless the user set it."""
    if not config.data.train:
        return config
    paths = as_paths(config.data.train)
    if config.accepts("data.modality", "data"):
        config = config.assign({"data.modality": modality_of(paths)}, "data")
    if config.train.loss_on is None and config.train.task in (None, "generate") and _have_answers(paths, config.data):
        config = config.assign({"train.loss_on": "answer"}, "data")
    undecided = not config.data.label_kind and config.train.task in (None, "classify")
    if undecided and (kind := _label_kind(paths, config.data, is_sure=config.train.task is not None)):
        config = config.assign({"data.label_kind": kind}, "data")
    return config


def with_task(config: Config, say: Callable[[str], None]) -> Config:
    """Return the configuration with modality and task detected from the data. Report the columns used, and why."""
    config = with_modality(config)
    found = find_task(config.data.train, config.data)
    if str(found):
        say(str(found))
    return config.assign({"train.task": found.verb}, "data")


def _label_kind(paths: Sequence[str | Path | Input], data: DataConfig, *, is_sure: bool) -> str:
    """Return the kind of labels if each text has a list of them, or the user's several columns. Pipes aren't inspected.

    If the task isn't sure to be classification, only a list called labels counts, or the user's column.

    Raises:
        DataError: the user's columns could be of two kinds.
    """
    if len(paths) != 1 or is_stream(paths[0]) or data.modality != "text":
        return ""
    roles = labelled(replace(data, label_kind="several"))
    try:
        file = tree(paths[0])[0]
        head = read_head(file)
        found = objects(head)
        sampled = sample_json(file.name, found, roles) if found else sample_table(file.name, head, data, roles)
    except (DataError, OSError):
        return ""
    if sampled and (several := roles.several(sampled[1], data)):
        return _kind_of(sampled[1], several)
    try:
        form = detect_json_lines(file.name, head, data, roles) if found else None
    except DataError:
        return ""
    one_label = sample_json(file.name, found, LABELLED)[1]
    if form is None or (not data.target_column and LABELLED.named(one_label.words)[1] is not None):
        return ""
    n_lists = sum(labels_of(value_at(it, form.target)[0]) is not None for it in found)
    named = is_sure or data.target_column or (form.target[-1] in _LISTS and not answers_in(found[0]))
    return "several" if named and 2 * n_lists > len(found) else ""


def _kind_of(sample: Sample, places: Sequence[int]) -> str:
    """Return whether label columns of 0 and 1 are several labels, or each of them is a target. One of those may be 0/1.

    Raises:
        DataError: they have 0 and 1, and a few other values or a single one.
    """
    each = [[it for it in sample.cells[place] if it.strip()] for place in places]
    others = [[it for it in cells if flag(it) is None] for cells in each]
    if not any(others):
        return "several"
    if not all(map(_may_be_flags, each)):
        return "targets"
    title, other = next((sample.titles()[place], other) for place, other in zip(places, others) if other)
    raise DataError(
        f"{sample.file}: the label columns have 0 and 1, but {title} also has {shown(other[0])}",
        expected="0 and 1 in all of them for labels that a text has or lacks, or a label in each",
        fix="correct the file, or choose: `data.label_kind=several` skips other values; with `data.label_kind=targets` "
        "each value is a label",
        name=sample.file,
        value=other[0],
    )


def _may_be_flags(cells: Sequence[str]) -> bool:
    """Return whether a column is probably 0 and 1, with a few other values or marks for unknown ones."""
    others = [it.strip().casefold() for it in cells if flag(it) is None]
    flags = {*map(flag, cells)} - {None}
    return len(others) <= _STRANGE * len(cells) or len({*others} - _UNKNOWN) <= (len(flags) == 2)


def _have_answers(paths: Sequence[str | Path | Input], data: DataConfig) -> bool:
    """Return whether the data consists of prompts with answers. Pipes aren't inspected."""
    if any(map(is_stream, paths)) or data.modality != "text" or data.source_column or data.target_column:
        return False
    try:
        found = objects(read_head(tree(paths[0])[0]))
    except (DataError, OSError):
        return False
    return bool(found) and not {"question", "context"} <= set(found[0]) and bool(answers_in(found[0]))


def _columns(paths: Sequence[str | Path | Input], data: DataConfig, verb: str) -> str:
    """Describe the columns that a task uses; "" if the data has none or can't be read yet."""
    if len(paths) != 1 or is_stream(paths[0]) or verb not in _ROLES or class_folder_of(paths):
        return ""
    try:
        file = tree(paths[0])[0]
        head = read_head(file)
        roles = labelled(data) if data.label_kind else _ROLES[verb]
        form = detect_json_lines(file.name, head, data, roles) or detect_table(file.name, head, (), data, roles)
    except (DataError, OSError):
        return ""
    return form.described()


def _detected(paths: Sequence[str | Path | Input], data: DataConfig) -> DetectedTask:
    if data.label_kind:
        return DetectedTask("classify", _KINDS[data.label_kind.partition(":")[0]])
    if not paths:
        return PAIRS
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
    if found := objects(head):
        return of_json(first.name, found, head, data)
    return of_lines(first.name, head, data)


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
        if are_repeated(lines, 1) and any(lines):
            return DetectedTask("classify", f"the lines of {file.name} are repeated, as labels are")
    return PAIRS


def _widths(files: Sequence[Input]) -> tuple[int, ...]:
    """Return the number of columns of the first line of each file, at most 7."""
    try:
        return tuple(min(7, 1 + next(iter(read_lines(file)), b"").count(b"\t")) for file in files)
    except (DataError, OSError):
        return ()


def _media_task(paths: Sequence[str | Path | Input], data: DataConfig, modality: str) -> tuple[str, str]:
    """Return the task, and why: labels are repeated, transcripts aren't.

    Data that can't be read has the task that training then reports the error for.

    Raises:
        DataError: the data consists of images with captions, for which there's no task.
    """
    what = PLURAL[modality]
    if len(paths) == 1 and _is_folder_of_labels(paths[0]):
        return "classify", f"the data is a folder of {what} with a folder for each label"
    targets, named = _targets(paths, data, modality)
    if modality == "image":
        if len(targets) >= ENOUGH and len({*targets}) > _CAPTIONS * len(targets) and any(" " in it for it in targets):
            raise _captions(paths, targets)
        return "classify", f"the data consists of {what} with labels"
    often = 4 if named else 2  # a column named text has labels only if they're repeated more
    if not targets or (len(targets) >= 2 and often * len({*targets}) <= len(targets)):
        return "classify", f"the data consists of {what} with labels, which are repeated"
    return "transcribe", f"the data consists of {what} with a text each"


def _is_folder_of_labels(path: str | Path | Input) -> bool:
    return not isinstance(path, Input) and is_folder(Path(path)) and manifest_in(Path(path)) is None


def _targets(paths: Sequence[str | Path | Input], data: DataConfig, modality: str) -> tuple[list[str], bool]:
    """Return the first targets, and whether their column is named as one of transcripts."""
    names = (*TRANSCRIPTS.target_names, *RECORDINGS.target_names)
    roles = replace(TRANSCRIPTS, target_names=names, labels=modality == "image")
    try:
        with MediaSource(paths, data, roles, modality) as source:
            targets = [target for _, _, target in itertools.islice(source, HEAD_LINES)]
            return targets, TRANSCRIPTS.named(source.columns)[1] is not None
    except DataError:  # reading it for the task will raise a clear error
        return [], False


def _captions(paths: Sequence[str | Path | Input], targets: Sequence[str]) -> DataError:
    name = " and ".join(path.name if isinstance(path, Input) else str(path) for path in paths)
    return DataError(
        f"{name} has a different text for almost every image, such as {targets[0]!r:.60}",
        expected="labels that are repeated; there's no task that writes captions",
        fix="if another column has labels, name it with `data.target_column`",
        name=name,
        value=len({*targets}),
    )
