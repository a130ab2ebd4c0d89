"""Answer the rows of a table: `--data FILE`, with new columns and everything else unchanged."""

import hashlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ...config.messages import say
from ..input_lines import Place
from ..input_warnings import warnings_of
from ..parser import Options, Parser, UsageError
from ..setting_options import add_settings, given_settings
from .answering import LineAnswers
from .printed import Printed

if TYPE_CHECKING:
    from ...api import App
    from ...apps.annotation.table_file import TableFile, TableRow
    from ..output import ProgressLine
    from .output_file import OutputFile

_OPTIONS = {"data.source_column": ["--text"], "data.separator": ["--separator"], "data.quoting": []}
_HELPS = {"data.source_column": "column to read, or several separated by commas (default: as in training, or detected)"}
_MOST_NOTES = 5  # warnings about rows; the others are counted
RowsAnswer: TypeAlias = Callable[[Sequence[Sequence[str]]], Sequence[Any]]


def add_table_options(parser: Parser, columns: str) -> None:
    """Add the options for tables. `columns` names what's added to them."""
    parser.add_argument(
        "--data", metavar="FILE", help=f"CSV, TSV, JSON lines or Parquet file; write it with {columns} for each row"
    )
    add_settings(parser, _OPTIONS, _OPTIONS, rare=["data.separator", "data.quoting"], helps=_HELPS, show_defaults=False)


def check_table_options(options: Options) -> None:
    """Raise UsageError if the options for a table can't be used together with others."""
    given = given_settings(options)
    if not options.data:
        for name in (name for name in _OPTIONS if name in given):
            option = next(iter(_OPTIONS[name]), f"--{name}")
            raise UsageError(f"{option} is for tables and needs --data FILE", fix="name a table, or leave it out")
        return
    if options.texts:
        raise UsageError(f"--data can't be combined with texts such as {options.texts[0]!r}", fix="use one of them")
    if (made := _format_of(options.out)) and (read := _format_of(options.data)) and made != read:
        what = f"--out {options.out} is the name of another format than that of --data {options.data}"
        raise UsageError(what, fix=f"name a {read} file: the table keeps its format", name="--out", value=options.out)
    if options.json:
        raise UsageError("--data can't be combined with --json", fix="leave it out: the format is that of the table")


def answer_table(
    options: Options,
    app: "App",
    settings: Mapping[str, Any],
    answer: RowsAnswer | None = None,
    columns: Mapping[str, str] | None = None,
) -> None:
    """Answer the rows of the table `options.data`.

    Args:
        settings: the settings that change the answers.
        answer: returns a record for each of some rows (default: the app's).
        columns: the new columns with the fields of the records (default: the task's).
    """
    from ...apps.annotation.open_table import open_table
    from ...readers.column_roles import LABELLED
    from ...readers.files import Input

    given = {name: value for name, value in given_settings(options).items() if name in _OPTIONS}
    data = app.config.override(given, source="the command line").data
    with closing(Input(options.data)) as file:
        roles, own = getattr(app.task.form, "roles", LABELLED), "data.separator" in given
        table = open_table(file, data, roles, app.inputs, own_separator=own)
        TableAnswers(options, app, settings, table, columns or app.columns).answer_rows(
            answer or (lambda rows: app.row_results(rows, **settings))
        )


class TableAnswers(LineAnswers):
    """Writes a table with new columns."""

    def __init__(
        self,
        options: Options,
        app: "App",
        settings: Mapping[str, Any],
        table: "TableFile",
        columns: Mapping[str, str],
    ) -> None:
        super().__init__(options, app, settings, as_json=False)
        self.table, self.fields, self.n_notes = table, tuple(columns.values()), 0
        self.added = table.added([*columns])

    def answer_rows(self, answer: RowsAnswer) -> None:
        """Answer all rows. The whole table is read before, so a row that can't be read is found first."""
        extent, name = self.table.extent, self.table.file.name
        read, added = " + ".join(self.table.used), ", ".join(self.added)
        say(f"{name}: {self.table.kind}, {extent.rows:,} rows; reads {read}; adds {added}")
        self.run(self._groups(), lambda places: self._answered(places, answer), piped=False)
        if extent.blank:
            say(f"{extent.blank:,} of {extent.rows:,} rows have no text, so their new cells are blank")
        if self.n_notes > _MOST_NOTES:
            say(f"{self.n_notes - _MOST_NOTES:,} more warnings about rows")

    def _groups(self) -> Iterator[list[Place]]:
        for group in self.table.groups():
            yield cast("list[Place]", [(f"{self.table.item} {row.number:,}", row) for row in group])

    def _answered(self, places: Sequence[Place], answer: RowsAnswer) -> list[Printed]:
        """Return the new cells of rows. A row with a blank text has blank cells."""
        filled = [not row.is_blank for row in _rows_of(places)]
        texts = [row.texts for row, is_filled in zip(_rows_of(places), filled) if is_filled]
        records = iter(answer(texts) if texts else ())
        return [self._cells(place, next(records)) if it else self._blank() for place, it in zip(places, filled)]

    def _cells(self, place: Place, record: Any) -> Printed:
        notes = warnings_of(*place, record) if hasattr(record, "unknown") else ()
        return Printed("", notes, cells=tuple(getattr(record, name) for name in self.fields))

    def _blank(self, *, failed: bool = False, notes: tuple[str, ...] = ()) -> Printed:
        return Printed("", notes, failed, cells=(None,) * len(self.fields))

    def _unanswered(self, place: Place) -> Printed:
        """Return the blank cells of a row that killed two workers."""
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
        end = self.table.end()
        if file:
            file.write_bytes((), end)
        else:
            self._show(end)
        super()._finish(file)

    def _print(
        self, group: Sequence[Place], printed: Sequence[Printed], file: "OutputFile | None", progress: "ProgressLine"
    ) -> None:
        for note in (note for it in printed for note in it.notes):
            self.n_notes += 1
            if self.n_notes <= _MOST_NOTES:
                progress.clear()
                say(note)
        data = self.table.written(_rows_of(group), self.added, [it.cells for it in printed])
        if file:
            file.write_bytes(group, data)
        else:
            self._show(data)
        self._count(group, printed)

    def _show(self, data: bytes) -> None:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def _input_size(self, descriptor: int | None) -> int | None:
        return self.table.extent.text_bytes + self.table.extent.rows

    def _output_file(self, **_: Any) -> "OutputFile | None":
        if not self.options.out:
            return None
        with self.table.file.open() as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return super()._output_file(whole=True, data=digest, columns=" ".join(self.table.used))


def _format_of(name: Any) -> str:
    """Return the extension of a table, or ""."""
    ending = PurePath(name or "").suffix.lower()
    return ending if ending in (".csv", ".tsv", ".jsonl", ".parquet") else ""


def _rows_of(places: Sequence[Place]) -> "list[TableRow]":
    return cast("list[TableRow]", [row for _, row in places])
