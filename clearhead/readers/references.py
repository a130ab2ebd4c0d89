"""Additional references: files with one sentence per line, aligned with the sources of a file.

Each reference makes another pair with the source on its line. Blank lines, unreadable lines and sources without a
reference are reported.
"""

import re
from array import array
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from ..config import DataConfig
from ..errors import DataError
from .column_roles import SENTENCES, Roles
from .files import Input, is_folder
from .json_lines import detect_json_lines
from .lines import decode, read_head, read_lines, undecodable
from .pairs import Pairs, read_pairs
from .skipped import Report
from .tables import asked_separator, detect_table

_NEARLY_ALL = 0.9  # minimum share of a table's lines that have its separator


def read_with_references(
    paths: Sequence[str | Path],
    further: Sequence[str | Path],
    data: DataConfig | None = None,
    roles: Roles = SENTENCES,
    *,
    own_separator: bool = True,
) -> Pairs:
    """Read pairs, and line n of each further file as another target of source n.

    A header doesn't count as a line. A single file without columns contains only sources.

    Args:
        paths: files, as in `read_pairs`.
        further: files of references.
        roles: see `read_pairs`.
        own_separator: True if the separator of `data` was set for this file. If it comes from a model's training, it's
            used only if nearly all lines have it.

    Raises:
        DataError: the files have different numbers of lines, or a row may span several lines, as in CSV.
    """
    data = data or DataConfig()
    if len(paths) == 1 and not is_folder(Path(paths[0])):
        with closing(Input(paths[0])) as file:  # one object for all passes, since a pipe can be read only once
            of_pairs = not _holds_sources_alone(file, data, roles, own_separator=own_separator)
            pairs = read_pairs([file], data, roles) if of_pairs else _Lines(file, "only sources").as_sources()
    else:
        pairs, of_pairs = read_pairs(paths, data, roles), True
    header = _header(pairs.report, paths[0]) if of_pairs else 0
    if not of_pairs and (data.source_column or data.target_column or data.separator):
        pairs.report.notes.append("columns and separator aren't used: the file has only sources")
    files = [_Lines(Input(path)) for path in further]
    _check_lengths(pairs.report, header, files)
    return _joined(pairs, header, files, of_pairs=of_pairs)


def _check_lengths(report: Report, header: int, files: Sequence["_Lines"]) -> None:
    if any(len(each.texts) != report.lines for each in files):
        below = " below its header" if header else ""
        said = ", ".join(f"{each.name} has {len(each.texts):,}" for each in files)
        what = f"{' + '.join(report.paths)} has {report.lines:,} lines{below}, and {said}"
        expected = "the same number in all: line n of each is a translation of source n"
        raise DataError(what, expected=expected, value=(report.lines, *(len(each.texts) for each in files)))


def _joined(pairs: Pairs, header: int, files: Sequence["_Lines"], *, of_pairs: bool) -> Pairs:
    """Pair each source with its own target, if there is one, and with its references."""
    report = replace(pairs.report, paths=(*pairs.report.paths, *(each.name for each in files)))
    report.notes = [*report.notes, *(each.note() for each in files)]
    triples = []
    for place, (line, source) in enumerate(zip(pairs.lines, pairs.sources)):
        targets = [pairs.targets[place]] if of_pairs else []
        targets += [text for each in files if (text := each.texts[line - 1 - header]) is not None]
        triples += [(line, source, target) for target in targets]
        if not targets:
            report.skip(line, "no reference", source)
            report.used -= 1
    if not triples:
        name = " + ".join(pairs.report.paths)
        raise DataError(f"no source of {name} has a reference\n  {report}", name=name)
    return Pairs.of(triples, report)


class _Lines:
    """The sentences of a file by line; None for lines that can't be used."""

    def __init__(self, file: Input, form: str = "references") -> None:
        self.name = file.name
        self.texts: list[str | None] = []
        self._report = Report((self.name,), form=form)
        with closing(file):
            for number, line in enumerate(read_lines(file), 1):
                text = decode(line)
                reason = _unusable(text)
                if reason:
                    self._report.skip(number, reason, undecodable(line))
                self.texts.append(None if reason else text)
        self._report.lines = len(self.texts)
        self._report.used = len(self.texts) - self.texts.count(None)

    def note(self) -> str:
        """Return the report on the file, indented as a note of another report."""
        return str(self._report).replace("\n", "\n  ")

    def as_sources(self) -> Pairs:
        """Return the sentences as pairs without targets."""
        spoken = [(number, text) for number, text in enumerate(self.texts, 1) if text is not None]
        return Pairs([text for _, text in spoken], [], array("q", [number for number, _ in spoken]), self._report)


def _unusable(text: str | None) -> str | None:
    """Return the reason why a line is unusable, or None."""
    if text is None:
        return "not UTF-8"
    return "NUL character" if "\0" in text else None if text.strip() else "blank line"


def _holds_sources_alone(file: Input, data: DataConfig, roles: Roles, *, own_separator: bool) -> bool:
    """Return whether the first lines are neither a table nor JSON. A few tabs don't make a table."""
    head = read_head(file)
    mark = asked_separator(data)
    if mark and (own_separator or _cuts(mark, head)):
        return not any(mark.encode() in line for line in head)
    try:
        if detect_json_lines(file.name, head, DataConfig(), roles):
            return False
    except DataError:  # it's JSON, and reading it raises a clear error
        return False
    try:
        table = detect_table(file.name, head, (), DataConfig(), roles)
    except DataError:
        return True
    spoken = [line for line in head if line.strip()]
    return table.separator == "\t" and 2 * sum(b"\t" in line for line in spoken) < len(spoken)


def _cuts(mark: str, head: Sequence[bytes]) -> bool:
    """Return whether nearly all lines have the separator. After a word and before a space, it's punctuation."""
    spoken, it = [line for line in head if line.strip()], re.escape(mark.encode())
    between = re.compile(rb"(?<=\s)%b|%b(?=\S)" % (it, it))
    return sum(bool(between.search(line)) for line in spoken) >= _NEARLY_ALL * len(spoken)


def _header(report: Report, path: str | Path) -> int:
    """Return the number of header lines. Raise a DataError if a row may span several lines."""
    in_files = report.headers and report.files  # of a folder: a header in each
    of_file = not report.files and Path(path).is_file()  # a pipe can't be read again
    if in_files or (report.unit != "lines" and not (of_file and _count(path) == report.headers + report.lines)):
        raise DataError(
            f"{' + '.join(report.paths)} is {report.form}: rows may span several lines, so references can't be aligned",
            expected="a TSV, JSON Lines, two line-aligned files, or a file with only sources",
            name=" + ".join(report.paths),
        )
    return report.headers


def _count(path: str | Path) -> int:
    return sum(1 for _ in read_lines(Input(path)))
