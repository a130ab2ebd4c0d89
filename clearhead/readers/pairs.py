"""Sentence pairs from whatever holds them: a table, JSON lines, two line-aligned files, folders of such.

The form is found by looking at the content. What cannot be used is counted and shown with its line number and the
reason; nothing is cut, shifted or dropped in silence.
"""

import itertools
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from ..config import DataConfig
from ..errors import ConfigError, DataError
from .aligned import are_exchanged, has_tabs, have_labels, read_aligned
from .column_roles import SENTENCES, Roles
from .files import STDIN, Input, bytes_digest, expect_digest, inputs
from .json_lines import JsonLines, look_for_json
from .lines import LOOK, read_lines
from .skipped import Report, Skipped
from .tables import Pair, Table, look_for_table

__all__ = ["Pair", "PairSource", "Pairs", "Report", "Skipped", "read_pairs", "references"]

_KEPT = 200_000_000  # letters that are kept rather than read again, some 200 MB; twice that where one takes two bytes
_PAIR = 200  # letters that would take as much memory as a pair does besides its own
_EXPECTED = (
    "expected a table ({0.source} <TAB> {0.target}, or CSV), JSON lines, a folder of such, or two line-aligned files"
)


@dataclass(frozen=True)
class Pairs:
    """Sentences and their translations as the files hold them, with their line numbers (from 1)."""

    sources: list[str]
    targets: list[str]
    lines: "array[int]"
    report: Report

    def __len__(self) -> int:
        return len(self.sources)

    @classmethod
    def of(cls, pairs: Iterable[Pair], report: Report) -> Self:
        """Pairs that come one by one."""
        found = cls([], [], array("q"), report)
        for line, source, target in pairs:
            found.lines.append(line)
            found.sources.append(source)
            found.targets.append(target)
        return found

    def take(self, indices: Iterable[int], note: str) -> "Pairs":
        """Some of the pairs, with a report of their own that says so."""
        chosen = list(indices)
        report = replace(self.report, skipped=dict(self.report.skipped), examples=list(self.report.examples))
        report.notes = [*self.report.notes, note]
        sources, targets = ([side[i] for i in chosen] for side in (self.sources, self.targets))
        return Pairs(sources, targets, array("q", [self.lines[i] for i in chosen]), report)


class PairSource:
    """Pairs that can be read again and again, one by one, so that they need not fit into memory.

    `roles` tells what they are: sentences and translations, LABELLED texts, or documents and SUMMARIES. Where a line
    has several targets, as a list of summaries, each makes a pair, and one line is used.

    with PairSource(["pairs.tsv"], DataConfig(reverse=True)) as source:
        for line, source_text, target_text in source: ...
        print(source.report)  # of the last reading that came to its end

    The settings of `data` that tell how to read are source_column, target_column, separator and reverse. Data of at
    most `kept` letters, 200 million unless told, of which a pair counts 200 besides its own, are kept from the first
    reading to the next ones. A DataError where there is no pair to be had.
    """

    def __init__(
        self,
        paths: Sequence[str | Path | Input],
        data: DataConfig | None = None,
        roles: Roles = SENTENCES,
        *,
        kept: int | None = None,
    ) -> None:
        if len(paths) not in (1, 2):
            raise DataError(f"{len(paths)} files were named; {_EXPECTED.format(roles)}")
        if data is not None and data.reverse and roles is not SENTENCES:
            raise ConfigError(
                f"data.reverse = true exchanges the columns; expected false where they are {roles.source} and "
                f"{roles.target}: --source-column and --target-column tell which is which"
            )
        names = tuple(path.name if isinstance(path, Input) else Input(path).name for path in paths)
        if [str(path) for path in paths].count(STDIN) > 1:
            raise DataError("standard input, -, was named twice; it can be one of two line-aligned files, not both")
        self.report = Report(names)
        self._data, self.roles, self._most = data or DataConfig(), roles, _KEPT if kept is None else kept
        self._sides = [inputs(path) for path in paths]
        self._pairs: list[Pair] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_aligned(self) -> bool:
        """Whether it is two line-aligned files, or folders of such, which have no columns."""
        return len(self._sides) == 2

    def close(self) -> None:
        """Let go of what was copied and kept."""
        self._pairs = None
        for each in itertools.chain(*self._sides):
            each.close()

    def digest(self) -> str:
        """SHA-256 of the bytes of all files."""
        return bytes_digest(self._sides)

    def expect_digest(self, digest: str) -> None:
        """A DataError where the files hold other bytes by now than those of an earlier `digest`."""
        expect_digest(self._sides, digest, self.report.paths)

    def __iter__(self) -> Iterator[Pair]:
        if self._pairs is not None:
            yield from self._pairs
            return
        report = Report(self.report.paths)
        kept: list[Pair] | None = []
        letters = last = 0
        for pair in self._aligned(report) if self.is_aligned else self._tables(report):
            report.used += pair[0] != last
            last = pair[0]
            if kept is not None:
                kept.append(pair)
                letters += _PAIR + len(pair[1]) + len(pair[2])
                if letters > self._most:
                    kept = None
            yield pair
        if not report.used:
            advice = "\n  expected UTF-8; to convert: iconv -f LATIN1 -t UTF-8" if "not UTF-8" in report.skipped else ""
            raise DataError(f"no usable pair in {' and '.join(report.paths)}\n  {report}{advice}")
        self.report, self._pairs = report, kept

    def _tables(self, report: Report) -> Iterator[Pair]:
        """From one file, or the files of a folder one after the other."""
        (files,), before = self._sides, 0
        forms = _forms(files, self._data, self.roles)
        report.form = str(forms[0]) + (", reversed" if self._data.reverse else "")
        report.unit = "rows" if forms[0].kind.startswith("CSV") else "lines"
        for file, form in zip(files, forms):
            if len(files) > 1:
                report.files.append((file.name, before))
            before += yield from form.read(read_lines(file), report, before)

    def _aligned(self, report: Report) -> Iterator[Pair]:
        """From two files, or two folders of files that are aligned one by one."""
        if self._data.source_column or self._data.target_column or self._data.separator:
            report.notes.append("columns and separator that were named are passed over: line-aligned files have none")
        first, second = self._sides
        if len(first) != len(second):
            counts = " and ".join(map(_files_of, report.paths, self._sides))
            raise DataError(f"{counts}; expected as many in both: file n of one is aligned with file n of the other")
        if have_labels((first[0], second[0])):
            raise DataError(
                f"{' and '.join(report.paths)} both have labels and texts, as fastText writes them; expected one of "
                "them, or a folder with both"
            )
        before, reverse = 0, self._data.reverse
        report.form = "two line-aligned files" + (", reversed" if reverse else "")
        if self.roles is not SENTENCES:
            reverse = are_exchanged(first[0], second[0], self.roles)
            report.form += self.roles.where((1, 0) if reverse else (0, 1))
        if all(has_tabs(files[0]) for files in self._sides):
            report.notes.append(
                "most lines of both have a tab: if each holds pairs, name one of them, or a folder with both"
            )
        for files in zip(first, second):
            if len(first) > 1:
                report.files.append((" + ".join(file.name for file in files), before))
            before += yield from read_aligned(*files, report, before, self.roles, reverse=reverse)


def _files_of(path: str, files: Sequence[object]) -> str:
    return f"{path} holds {len(files):,} file{'s' * (len(files) != 1)}" if Path(path).is_dir() else f"{path} is a file"


def read_pairs(paths: Sequence[str | Path | Input], data: DataConfig | None = None, roles: Roles = SENTENCES) -> Pairs:
    """Read all pairs of a file or folder, or of two that are line-aligned, into memory.

    The settings of `data` that tell how to read are source_column, target_column, separator and reverse; without it
    all is found by looking. A DataError where there is no pair to be had.
    """
    with PairSource(paths, data, roles, kept=0) as source:
        pairs = Pairs.of(source, source.report)
        return replace(pairs, report=source.report)


def references(pairs: Pairs) -> tuple[list[str], list[list[str]]]:
    """Each distinct source once, in order of appearance, and beside it all its distinct targets."""
    found: dict[str, dict[str, None]] = {}
    for source, target in zip(pairs.sources, pairs.targets):
        found.setdefault(source, {})[target] = None
    return list(found), [list(targets) for targets in found.values()]


def _forms(files: Sequence[Input], data: DataConfig, roles: Roles) -> list[Table | JsonLines]:
    """The form of each file, found by its first lines; a DataError where they do not go together."""
    forms: list[Table | JsonLines] = []
    for file in files:
        lines = read_lines(file)
        head = list(itertools.islice(lines, LOOK))
        asked = data
        if forms and isinstance(forms[0], Table) and forms[0].header and not forms[0].is_named_in(head):
            asked = replace(data, source_column="", target_column="")
        forms.append(
            look_for_json(file.name, head, asked, roles) or look_for_table(file.name, head, lines, asked, roles)
        )
        if forms[-1].kind != forms[0].kind:
            raise DataError(
                f"{files[0].name} is {forms[0].kind} and {file.name} is {forms[-1].kind}; "
                "expected files of one form in a folder"
            )
    named = [(file.name, form.names) for file, form in zip(files, forms) if form.names]
    for name, names in named:
        if names != named[0][1]:
            raise DataError(
                f"{named[0][0]} has the columns {' and '.join(named[0][1])}, {name} has {' and '.join(names)}; "
                "expected the same in all files of a folder, or --source-column and --target-column"
            )
    return _of_one_piece(files, forms)


def _of_one_piece(files: Sequence[Input], forms: list[Table | JsonLines]) -> list[Table | JsonLines]:
    """The forms, where the first has a header those of the others with its columns: a table may have been cut into
    files. A DataError where the columns of tables differ and no header tells.
    """
    first, found = forms[0], forms[:1]
    for file, form in zip(files[1:], forms[1:]):
        if isinstance(first, Table) and isinstance(form, Table) and not form.header and form.columns != first.columns:
            if not (first.header and form.width == first.width):
                raise DataError(
                    f"{files[0].name} has its sentences in columns {_counted(first)}, {file.name} in columns "
                    f"{_counted(form)}; expected the same in all files of a folder, or --source-column and "
                    "--target-column"
                )
            form = replace(form, columns=first.columns, where=first.where)
        found.append(form)
    return found


def _counted(table: Table) -> str:
    source, target = table.columns
    return f"{source + 1} and {target + 1}"
