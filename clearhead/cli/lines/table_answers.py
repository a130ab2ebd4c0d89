"""Answer the rows of a table: `--data FILE`, with new columns and everything else unchanged."""

import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ...config import TASKS
from ...config.messages import say
from ...config.task_spec import Column
from ...config.values import counted
from ...errors import DataError
from ..input_lines import Place, Printed, warnings_of, warnings_of_cut
from ..output import PACKED, TABLES, new_file, new_regular_file
from ..parser import Options, Parser, UsageError
from ..rejection import MARK
from ..setting_options import add_settings, given_settings
from .answering import LineAnswers, check_line_options, lost_lines
from .measured_engines import Engines

if TYPE_CHECKING:
    from ...api import App
    from ...apps.annotation.table_file import TableFile, TableRow
    from ..output import ProgressLine
    from .output_file import OutputFile

_OPTIONS = {"data.source_column": ["--text"], "data.separator": ["--separator"], "data.quoting": []}
_HELPS = {"data.source_column": "column to read, or several separated by commas (default: as in training, or detected)"}
_MOST_NOTES = 5  # warnings about rows; the others are counted
RowsAnswer: TypeAlias = Callable[[Sequence[Sequence[str]]], Sequence[Any]]


def add_table_options(parser: Parser, columns: str, text: str = "") -> None:
    """Add `--data` and the options for reading a table.

    Args:
        columns: names of the new columns, for the help of `--data`.
        text: help for `--text`, for a verb that reads several columns (default: that of one text).
    """
    what = f"table to answer row by row; the output adds {columns} to each row (CSV, TSV, JSON lines or Parquet)"
    parser.add_value("--data", "FILE", what)
    helps = {"data.source_column": text} if text else _HELPS
    add_settings(parser, _OPTIONS, _OPTIONS, rare=["data.separator", "data.quoting"], helps=helps, show_defaults=False)


def add_output_options(parser: Parser, text: str = "") -> None:
    """Add the options for workers and output files to a verb that has them only for tables.

    `text` is the help for --out, if it has another use, too.
    """
    out = text or "write the table to this file (default: standard output)"
    parser.add_value("--out", "FILE", out, type=new_file if text else new_regular_file)
    parser.add_flag("--resume", "continue the table of a run that was stopped")
    parser.add_number("--workers", "worker processes for a table (default: one per core, or 1 with --threads)",
                      least=1, most=1024)  # fmt: skip
    parser.set_defaults(only_for_tables=["resume", "workers"] if text else ["out", "resume", "workers"])


def check_table_options(options: Options, n_texts: int) -> None:
    """Raise UsageError if the options for a table can't be used together with others.

    `n_texts` is the number of inputs on the command line.
    """
    given = given_settings(options)
    if not options.data:
        own = [next(iter(_OPTIONS[name]), f"--{name}") for name in _OPTIONS if name in given]
        own += [f"--{name}" for name in vars(options).get("only_for_tables", ()) if getattr(options, name)]
        if own:
            raise UsageError(f"{own[0]} is for tables and needs --data FILE", fix="name a table, or leave it out")
        return
    if (made := _format_of(options.out)) and (read := _format_of(options.data)) and made != read:
        what = f"--out {options.out} is the name of another format than that of --data {options.data}"
        raise UsageError(what, fix=f"name a {read} file: the table keeps its format", name="--out", value=options.out)
    if options.json:
        raise UsageError("--data can't be combined with --json", fix="leave it out: the format is that of the table")
    if n_texts:
        raise UsageError("--data can't be combined with other inputs", fix="use one of them", name="--data")


def answer_table(
    options: Options,
    app: "App",
    settings: Mapping[str, Any],
    answer: RowsAnswer | None = None,
    task: str = "",
    engines: Engines | None = None,
) -> None:
    """Answer the rows of the table `options.data`.

    Args:
        settings: the settings that change the answers.
        answer: returns a record for each of some rows (default: the app's).
        task: the built-in task whose columns are read and added (default: the model's own).
        engines: chooses the engine of the workers.
    """
    from ...apps.annotation.open_table import open_table
    from ...readers.column_roles import LABELLED
    from ...readers.files import Input

    check_line_options(options, app)
    given = {name: value for name, value in given_settings(options).items() if name in _OPTIONS}
    data = app.config.override(given, source="the command line").data
    if "data.source_column" in given:
        data = replace(data, reverse=False)  # it's the column to read, whichever side that was in training
    roles, own = getattr(app.task.form, "roles", LABELLED), "data.separator" in given
    inputs, columns = (("text",), TASKS[task].columns) if task else (app.inputs, app.columns)
    with closing(Input(options.data)) as file:
        table = open_table(file, data, roles, inputs, own_separator=own)
        if not table.is_text and options.resume:
            raise UsageError(f"--resume can't continue a {table.kind} file", fix="leave it out to start again")
        if not table.is_text and not options.out and sys.stdout.isatty():
            raise UsageError(f"a {table.kind} file can't be shown on a terminal", fix="write it to a file: --out FILE")
        TableAnswers(options, app, settings, table, columns).answer_rows(
            answer or (lambda rows: app.row_results(rows, **settings)), engines
        )


class TableAnswers(LineAnswers):
    """Writes a table with new columns."""

    def __init__(
        self,
        options: Options,
        app: "App",
        settings: Mapping[str, Any],
        table: "TableFile",
        columns: Mapping[str, Column],
    ) -> None:
        super().__init__(options, app, settings, as_json=False)
        if self.rejection is not None:
            columns = {**columns, "confidence": Column("confidence", "number")}
        from ...apps.annotation.table_file import free_names

        self.table, self.columns, self.n_notes = table, [*columns.values()], 0
        self.of_texts = "text" in app.task.modalities
        names = free_names([*columns], table.names)
        self.added = {name: column.kind for name, column in zip(names, columns.values())}

    def answer_rows(self, answer: RowsAnswer, engines: Engines | None = None) -> None:
        """Answer all rows. The whole table is read before, so a row that can't be read is found first."""
        extent, name = self.table.extent, self.table.file.name
        read, added = " + ".join(self.table.used), ", ".join(self.added)
        say(f"{name}: {self.table.kind}, {counted(extent.rows, 'rows')}; reads {read}; adds {added}")
        failure = lost_lines if self.of_texts else self._unreadable_files
        answer_places = partial(self._answered, answer=answer)
        self.run(self._groups(), answer_places, piped=False, failure=failure, engines=engines)
        if extent.blank:
            say(f"{extent.blank:,} of {extent.rows:,} rows have no text, so their new cells are blank")
        if self.n_notes > _MOST_NOTES:
            say(f"{self.n_notes - _MOST_NOTES:,} more warnings about rows")

    def _unreadable_files(self, count: int, total: int) -> DataError:
        what = f"{count:,} of {total:,} {self.app.task.units.sources} can't be read, so their new cells are blank"
        return DataError(what, expected="existing files in a format that can be read", value=count)

    def _groups(self) -> Iterator[list[Place]]:
        for group in self.table.groups():
            yield cast("list[Place]", [(f"{self.table.item} {row.number:,}", row) for row in group])

    def _answered(self, places: Sequence[Place], answer: RowsAnswer) -> list[Printed]:
        """Return the new cells of rows. A row with a blank text has blank cells."""
        filled = [not row.is_blank for row in _rows_of(places)]
        named = [place for place, is_filled in zip(places, filled) if is_filled]
        found = iter(self._records(named, answer))
        return [next(found) if is_filled else self._blank() for is_filled in filled]

    def _records(self, places: Sequence[Place], answer: RowsAnswer) -> list[Printed]:
        """Return the new cells of rows with texts or names of files. An unreadable file doesn't affect the others."""
        rows = [row.texts for row in _rows_of(places)]
        if not self.of_texts:
            rows = [(self._path(name),) for (name,) in rows]
        try:
            return [self._cells(place, it) for place, it in zip(places, answer(rows) if rows else ())]
        except DataError as error:
            if len(places) > 1:
                middle = len(places) // 2
                return [*self._records(places[:middle], answer), *self._records(places[middle:], answer)]
            error = error.within(places[0][0])
            if self.of_texts:
                raise error from None
            return [self._blank(failed=True, notes=(f"error: {error}",))]

    def _path(self, name: str) -> str:
        """Return the path of a file in a table, which may be relative to the table."""
        path = (self.table.file.path or Path()).parent / name.strip()
        is_there = os.path.exists(path)  # noqa: PTH110 - Path.exists raises an error for a long name
        return str(path) if is_there else name.strip()

    def _cells(self, place: Place, record: Any) -> Printed:
        notes: tuple[str, ...] = ()
        if hasattr(record, "cut"):
            notes = warnings_of(place, record) if self.of_texts else warnings_of_cut(place[0], record)
        rejected = self.rejection is not None and self.rejection(record)
        cells = tuple(MARK if rejected and it.kind == "text" else it.value(record) for it in self.columns)
        return Printed(cells[0] if isinstance(cells[0], str) else "", notes, cells=cells, rejected=rejected)

    def _blank(self, *, failed: bool = False, notes: tuple[str, ...] = ()) -> Printed:
        return Printed("", notes, failed, cells=(None,) * len(self.columns))

    def _unanswered(self, place: Place) -> Printed:
        found = super()._unanswered(place)
        return self._blank(failed=True, notes=found.notes)

    def _run(self, groups: Any, answer: Any, file: "OutputFile | None", descriptor: int | None) -> None:
        begin = self.table.start(self.added)
        if file:
            file.begin(begin)
        else:
            self._show(begin)
        super()._run(groups, answer, file, descriptor)

    def _finish(self, file: "OutputFile | None") -> None:
        self._write(file, (), self.table.end())
        super()._finish(file)

    def _print(
        self, group: Sequence[Place], printed: Sequence[Printed], file: "OutputFile | None", progress: "ProgressLine"
    ) -> None:
        for note in (note for it in printed for note in it.notes):
            self.n_notes += 1
            if self.n_notes <= _MOST_NOTES:
                progress.clear()
                say(note)
        data = self.table.written(_rows_of(group), [it.cells for it in printed])
        self._write(file, group, data)
        self._count(group, printed)

    def _write(self, file: "OutputFile | None", group: Sequence[Place], data: bytes) -> None:
        if file:
            file.write_bytes(group, data)
        else:
            self._show(data)

    def _show(self, data: bytes) -> None:
        """Write to standard output: bytes, or on a terminal a text, of which it escapes control characters."""
        if isinstance(sys.stdout, io.TextIOWrapper) and not sys.stdout.isatty():
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
        elif data:
            sys.stdout.write(data.decode("utf-8", "backslashreplace"))
        sys.stdout.flush()

    def _input_size(self, descriptor: int | None) -> int | None:
        return self.table.extent.text_bytes + self.table.extent.rows

    def _output_file(self, **_: Any) -> "OutputFile | None":
        if not self.options.out:
            return None
        import hashlib

        with self.table.file.open() as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return super()._output_file(whole=True, data=digest, columns=" ".join(self.table.used))


def _format_of(name: Any) -> str:
    """Return the extension of a table, or ""."""
    path = PurePath(name or "")
    ending = (path.with_suffix("") if path.suffix.lower() in PACKED else path).suffix.lower()
    return ending if ending in TABLES else ""


def _rows_of(places: Sequence[Place]) -> "list[TableRow]":
    return cast("list[TableRow]", [row for _, row in places])
