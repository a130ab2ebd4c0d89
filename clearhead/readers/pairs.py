"""Pairs of texts from any format: a table, JSON Lines, two aligned files, folders of these, or rows in memory.

The format is detected from the content. Lines that can't be used are counted and shown with their number and the
reason. No line is truncated, shifted or silently dropped.
"""

import hashlib
import itertools
from array import array
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from ..config import DataConfig
from ..config.values import invalid
from ..errors import DataError
from .column_roles import SENTENCES, Roles
from .files import Input, inputs
from .json_lines import JsonLines, detect_json_lines
from .lines import (
    HEAD_LINES,
    controls_note,
    count_controls,
    decode,
    read_head,
    read_lines,
    read_whole,
    to_utf8,
    undecodable,
)
from .media.labelled_files import Listed, class_folder_of, class_folders
from .skipped import Report, Skipped
from .source import SOURCE, TARGET, Rows, Source, as_paths
from .tables import Pair, Table, begin_with_label, detect_table

__all__ = ["Pair", "PairSource", "Pairs", "Report", "Skipped", "read_pairs", "references"]

_KEPT = 200_000_000  # maximum characters kept in memory: about 200 MB, or twice that beyond Latin-1
_PAIR = 200  # memory overhead of a pair, in characters


@dataclass(frozen=True)
class Pairs:
    """Sources and targets, unchanged, with their 1-based line numbers."""

    sources: list[str]
    targets: list[str]
    lines: "array[int]"
    report: Report

    def __len__(self) -> int:
        return len(self.sources)

    @classmethod
    def of(cls, pairs: Iterable[Pair], report: Report) -> Self:
        found = cls([], [], array("q"), report)
        for line, source, target in pairs:
            found.lines.append(line)
            found.sources.append(source)
            found.targets.append(target)
        return found

    @classmethod
    def read(cls, source: Any) -> Self:
        """Return all pairs of a source, with its report."""
        pairs = cls.of(source, source.report)
        return replace(pairs, report=source.report)  # that of the pass which has just ended

    def take(self, indices: Iterable[int], note: str) -> "Pairs":
        """Return some of the pairs, with a copy of the report and this additional note."""
        chosen = list(indices)
        report = replace(self.report, skipped=dict(self.report.skipped), examples=list(self.report.examples))
        report.notes = [*self.report.notes, note]
        sources, targets = ([side[i] for i in chosen] for side in (self.sources, self.targets))
        return Pairs(sources, targets, array("q", [self.lines[i] for i in chosen]), report)


class PairSource(Source):
    """Pairs that can be read repeatedly, one by one, so they don't have to fit into memory.

    with PairSource("pairs.tsv", DataConfig(reverse=True)) as source:
        for line, source_text, target_text in source: ...
        print(source.report)  # of the last complete pass

    If a line has several targets, such as a list of summaries, each makes a pair.

    Args:
        data_or_paths: a path, two paths of aligned files, or rows in memory (see `as_paths`).
        data: settings for reading: source_column, target_column, separator, reverse.
        roles: SENTENCES, LABELLED or SUMMARIES.
        kept: maximum characters kept in memory after the first pass. Each pair counts as 200 more.

    Raises:
        DataError: there's no usable pair.
    """

    def __init__(
        self, data_or_paths: Any, data: DataConfig | None = None, roles: Roles = SENTENCES, *, kept: int | None = None
    ) -> None:
        paths, data = as_paths(data_or_paths), data or DataConfig()
        if len(paths) not in (1, 2):
            raise DataError(
                f"{len(paths)} files were given",
                expected=f"a table ({roles.source}<TAB>{roles.target}, or CSV), JSON Lines, a folder of these, or two "
                "line-aligned files",
                value=len(paths),
            )
        if data.reverse and roles is not SENTENCES:
            what = f"exchanges the columns, which are {roles.source} and {roles.target}"
            fix = "name the columns with `data.source_column` and `data.target_column`"
            raise invalid("data.reverse", True, what, expected="false", fix=fix)
        self._data, self.roles, self._most = _settings(paths, data), roles, _KEPT if kept is None else kept
        folder = class_folder_of(paths) if roles.labels else None
        self._folders = class_folders(folder, roles, "text", "a folder of texts for each label") if folder else None
        rows = self._folders.rows if self._folders else ()
        super().__init__(paths, [[Input(name) for _, name, _ in rows]] if rows else [inputs(path) for path in paths])
        self._pairs: list[Pair] | None = None
        self._forms: list[Table | JsonLines] = []  # of each file, in the last pass

    @property
    def is_aligned(self) -> bool:
        """True if the pairs come from two line-aligned files or folders, which have no columns."""
        return len(self.sides) == 2

    @property
    def has_columns(self) -> bool:
        """True if the pairs come from a table, whose columns can be chosen."""
        return not self.is_aligned and self._folders is None

    def close(self) -> None:
        """Delete the copies of streams, and the pairs kept in memory."""
        self._pairs = None
        super().close()

    def digest(self) -> str:
        """Return the SHA-256 of the bytes of all files, and of the labels that folders give them."""
        digest = super().digest()
        if self._folders is None:
            return digest
        labels = "\0".join([digest, *(label for _, _, label in self._folders.rows)])
        return hashlib.sha256(labels.encode("utf-8", "surrogateescape")).hexdigest()

    def __iter__(self) -> Iterator[Pair]:
        if self._pairs is not None:
            yield from self._pairs
            return
        report = Report(self.report.paths, most=self.report.most)
        kept: list[Pair] | None = []
        letters = last = n_controls = 0
        for pair in self._rows(report):
            report.used += pair[0] != last
            last = pair[0]
            n_controls += count_controls(pair[1]) or count_controls(pair[2])
            if kept is not None:
                kept.append(pair)
                letters += _PAIR + len(pair[1]) + len(pair[2])
                if letters > self._most:
                    kept = None
            yield pair
        if n_controls:
            report.notes.append(controls_note(n_controls, f"{self.roles.item}s"))
        if not report.used:
            name = " and ".join(report.paths)
            what, fix = f"no usable pair in {name}\n  {report}", self._advice() if "not UTF-8" in report.skipped else ""
            raise DataError(what, fix=fix, name=name, value=report.skipped)
        self.report, self._pairs = report, kept

    def rewritten(self, place: int, records: Sequence[str], old: Sequence[str], new: Sequence[str]) -> list[str] | None:
        """Return the lines of a pair with other texts, or None if its format can't hold them. Folders of labels can't.

        Args:
            place, records, old, new: see `Source`.
        """
        if self.is_aligned:
            return super().rewritten(place, records, old, new)
        found = self._forms[place].replaced(records[0], old, new) if self._forms else None
        return None if found is None else [found]

    def _rows(self, report: Report) -> Iterator[Pair]:
        if self._folders is not None:
            return self._labelled(self._folders, report)
        if self.is_aligned:
            return _read_aligned(self.sides, report, self._data, self.roles)
        return self._tables(report)

    def _labelled(self, listed: Listed, report: Report) -> Iterator[Pair]:
        """Yield the text of each file, with the name of its folder as the label."""
        of = listed.report
        report.form, report.unit, report.item, report.lines = of.form, of.unit, of.item, of.lines
        report.notes, report.skipped, report.examples = [*of.notes], {**of.skipped}, [*of.examples]
        for number, name, label in listed.rows:
            try:
                text = decode(read_whole(Input(name)))
            except DataError:  # it's empty or binary
                report.skip(number, "not a text file", name)
                continue
            label = self.roles.labels_in(label)
            if reason := "not UTF-8" if text is None else self.roles.fault(text, label):
                report.skip(number, reason, name)
            else:
                yield number, (text or "").strip(), label

    def _advice(self) -> str:
        return to_utf8(line for each in itertools.chain(*self.sides) for line in read_lines(each))

    def _tables(self, report: Report) -> Iterator[Pair]:
        """Yield the pairs of one file, or of the files of a folder one after another."""
        (files,), before = self.sides, 0
        self._forms = forms = _forms(files, self._data, self.roles)
        report.form = str(forms[0]) + (", reversed" if self._data.reverse else "")
        quoted = isinstance(forms[0], Table) and forms[0].dialect.quoted  # a row may have several lines
        report.unit = "rows" if quoted or isinstance(files[0], Rows) else "lines"
        report.item = "row" if isinstance(files[0], Rows) else "line"
        for file, form in zip(files, forms):
            if len(files) > 1:
                report.files.append((file.name, before))
            before += yield from form.read(read_lines(file), report, before)


def _settings(paths: Sequence[str | Path | Input], data: DataConfig) -> DataConfig:
    """Adapt the settings to rows in memory, which have no separator, and to pairs, whose order is known."""
    if not isinstance(paths[0], Rows):
        return data
    if paths[0].pairs:
        return replace(data, source_column=SOURCE, target_column=TARGET, separator="", reverse=False)
    return replace(data, separator="")


def read_pairs(data_or_paths: Any, data: DataConfig | None = None, roles: Roles = SENTENCES) -> Pairs:
    """Read all pairs into memory.

    Args:
        data_or_paths: a file or folder; two that are line-aligned; a list of (source, target) pairs or of dicts; a
            pandas or polars DataFrame.
        data: settings for reading: source_column, target_column, separator, reverse. By default, everything is
            detected.
        roles: SENTENCES, LABELLED or SUMMARIES.

    Raises:
        DataError: there's no usable pair.
    """
    with PairSource(data_or_paths, data, roles, kept=0) as source:
        return Pairs.read(source)


def references(pairs: Pairs) -> tuple[list[str], list[list[str]]]:
    """Return the distinct sources in order of appearance, and the distinct targets of each."""
    found: dict[str, dict[str, None]] = {}
    for source, target in zip(pairs.sources, pairs.targets):
        found.setdefault(source, {})[target] = None
    return list(found), [list(targets) for targets in found.values()]


def _forms(files: Sequence[Input], data: DataConfig, roles: Roles) -> list[Table | JsonLines]:
    """Detect the format of each file. Raise a DataError if they differ."""
    forms: list[Table | JsonLines] = []
    for file in files:
        lines = read_lines(file)
        head = list(itertools.islice(lines, HEAD_LINES))
        asked = data
        if forms and isinstance(forms[0], Table) and forms[0].header and not forms[0].is_named_in(head):
            asked = replace(data, source_column="", target_column="")
        form = detect_json_lines(file.name, head, asked, roles) or detect_table(file.name, head, lines, asked, roles)
        forms.append(
            replace(form, kind="in memory") if isinstance(file, Rows) and isinstance(form, JsonLines) else form
        )
        if forms[-1].kind != forms[0].kind:
            what = f"{files[0].name} is {forms[0].kind} and {file.name} is {forms[-1].kind}"
            raise DataError(what, expected="files of one format in a folder", name=file.name)
    names = {form.names: file for file, form in zip(files, forms) if form.names is not None}
    if len(names) > 1:
        (one, first), (other, second) = list(names.items())[:2]
        what = f"{first.name} has the columns {' and '.join(one)}, {second.name} has {' and '.join(other)}"
        fix = "name the columns: `data.source_column` and `data.target_column`"
        raise DataError(what, expected="the same in all files of a folder", fix=fix, name=second.name)
    return _in_one_piece(files, forms)


def _in_one_piece(files: Sequence[Input], forms: list[Table | JsonLines]) -> list[Table | JsonLines]:
    """Give files without a header the columns of the first file, since a table may be split into files.

    Raise a DataError if the columns differ and there's no header to identify them.
    """
    if any(isinstance(form, Table) and form.dialect.quoted for form in forms):  # a file may have no cell with quotes
        forms = [replace(it, dialect=replace(it.dialect, quoted=True)) if isinstance(it, Table) else it for it in forms]
    first, found = forms[0], forms[:1]
    for file, form in zip(files[1:], forms[1:]):
        if isinstance(first, Table) and isinstance(form, Table) and not form.header and form.columns != first.columns:
            if not (first.header and form.width == first.width):
                one, other = f"{files[0].name} has its sentences in columns {_numbers(first)}", _numbers(form)
                what, expected = f"{one}, {file.name} in columns {other}", "the same in all files of a folder"
                fix = "name the columns: `data.source_column` and `data.target_column`"
                raise DataError(what, expected=expected, fix=fix, name=file.name)
            form = replace(form, columns=first.columns, where=first.where, several=first.several)
        found.append(form)
    return found


def _numbers(table: Table) -> str:
    sources, target = table.columns
    return " and ".join(str(place + 1) for place in (*sources, target))


# --- aligned files


def _read_aligned(sides: Sequence[Sequence[Input]], report: Report, data: DataConfig, roles: Roles) -> Iterator[Pair]:
    """Yield the pairs of two files, or of two folders whose files are aligned one by one: line n belongs to line n.

    Raises:
        DataError: one side has more files or lines than the other, or both have fastText's labels.
    """
    if data.source_column or data.target_column or data.separator:
        report.notes.append("columns and separator aren't used: line-aligned files have none")
    _expect_sides(sides, report)
    heads = [read_head(files[0]) for files in sides]
    before, reverse = 0, data.reverse
    report.form = "two line-aligned files" + (", reversed" if reverse else "")
    if roles is not SENTENCES:
        reverse = roles.are_swapped([list(map(undecodable, head)) for head in heads])
        report.form += roles.where(((1,), 0) if reverse else ((0,), 1))
    if all(2 * sum(b"\t" in line for line in head) > len(head) for head in heads):  # as in a table
        report.notes.append(
            "most lines of both files have a tab: if each file has pairs, pass one of them, or a folder with both"
        )
    for first, second in zip(*sides):
        if len(sides[0]) > 1:
            report.files.append((f"{first.name} + {second.name}", before))
        before += yield from _read_files(first, second, report, before, roles, reverse=reverse)


def _expect_sides(sides: Sequence[Sequence[Input]], report: Report) -> None:
    name, counts = " and ".join(report.paths), tuple(map(len, sides))
    if len({*counts}) > 1:
        what = " and ".join(map(_files_of, report.paths, sides))
        expected = "the same number in both: file n of one is aligned with file n of the other"
        raise DataError(what, expected=expected, name=name, value=counts)
    if all(begin_with_label(read_head(files[0])) for files in sides):
        what = f"{name} both have labels and texts, in fastText's format"
        raise DataError(what, expected="one of them, or a folder with both", name=name)


def _files_of(path: str, files: Sequence[object]) -> str:
    return f"{path} has {len(files):,} file{'s' * (len(files) != 1)}" if Path(path).is_dir() else f"{path} is a file"


def _read_files(
    first: Input, second: Input, report: Report, before: int, roles: Roles, *, reverse: bool
) -> Generator[Pair, None, int]:
    """Yield the pairs of two files, then return the number of lines. Line numbers start at `before` + 1.

    With `reverse`, the sources are in the second file.

    Raises:
        DataError: one file has more lines than the other.
    """
    ones, others, number = read_lines(first), read_lines(second), 0
    for number, (one, other) in enumerate(itertools.zip_longest(ones, others), 1):
        if one is None or other is None:
            longer, line = (first, one) if other is None else (second, other)
            names = (first.name, second.name)
            raise _unequal(names, number - 1, longer.name, itertools.chain([line or b""], ones, others), roles)
        source, target = (decode(other), decode(one)) if reverse else (decode(one), decode(other))
        target = target if target is None else roles.labels_in(target)
        if source is None or target is None:
            report.skip(before + number, "not UTF-8", undecodable(one if decode(one) is None else other))
        elif reason := roles.fault(source, target):
            report.skip(before + number, reason, source if source.strip() else target)
        else:
            yield before + number, source, target
    report.lines += number
    return number


def _unequal(names: Sequence[str], fewer: int, longer: str, extra: Iterable[bytes], roles: Roles) -> DataError:
    n_extra = n_blank = 0
    for line in extra:  # possibly most of a large file
        n_extra += 1
        n_blank += not line.strip()
    lengths = {name: fewer + n_extra if name == longer else fewer for name in names}
    counts = [f"{name} has {count:,} line{'s' * (count != 1)}" for name, count in lengths.items()]
    what, expected = " and ".join(counts), f"the same number in both: {roles.aligned}"
    fix = f"remove the {n_extra:,} empty at the end of {longer}" if n_blank == n_extra else ""
    return DataError(what, expected=expected, fix=fix, name=longer, value=tuple(lengths.values()))
