"""Answering the rows of DataFrames, Arrow tables and files, for all apps."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...config import TASKS, Config, messages
from ...config.task_spec import Column
from ...errors import DataError
from ...readers.columns import Sample, rows_to_inspect
from ...readers.json_lines import json_text
from ...readers.source import json_value

if TYPE_CHECKING:
    from ...tasks.base import Task

_TOGETHER = 2000  # rows that are answered in one call


class RowAnswers(ABC):
    """Answers rows, each of which has the texts of one or more columns."""

    task: "Task"

    @property
    @abstractmethod
    def config(self) -> Config:
        """The settings of the model."""

    @abstractmethod
    def results(self, texts: Sequence[Any], **decode: Any) -> Sequence[Any]:
        """Return a record of the answer to each text, in order."""

    @property
    def inputs(self) -> Sequence[str]:
        """The inputs of the task. If there are several, each is a column of a table."""
        spec = TASKS.get(self.config.train.task or "translate")
        return spec.needed if spec and len(spec.needed) > 1 else ("text",)

    @property
    def columns(self) -> Mapping[str, Column]:
        """The new columns of an answered table."""
        return self.task.columns

    def annotate(self, frame: Any, *, text: str = "", **decode: Any) -> Any:
        """Answer the rows of a table, and return a table of the same kind with the answers as new columns.

        A row whose text is blank or missing gets blank cells. If the table has a column with the name of a new one, the
        new ones get a number, such as `label_2`.

        Args:
            frame: a pandas or polars DataFrame, or an Arrow table.
            text: column to read, or several separated by commas (default: as in training, or detected).
            decode: settings of `results`.

        Raises:
            DataError: it isn't a table, or it isn't clear which columns to read.
        """
        from ...readers.column_roles import LABELLED
        from ..answers import plain_value
        from .open_table import input_columns
        from .table_file import free_names, joined_texts

        table, stored = Frame.of(frame), self.config.data
        asked = text or (stored.target_column if stored.reverse else stored.source_column)
        roles = getattr(self.task.form, "roles", LABELLED)
        try:
            places = input_columns(table.sample(), asked, roles, self.inputs, reverse=stored.reverse)
        except DataError as error:
            error.fix = error.fix.replace("data.source_column", "text")
            raise
        rows: list[tuple[str, ...]] = list(zip(*map(table.texts, places)))
        if len(self.inputs) == 1:
            rows = [(joined_texts(row),) for row in rows]
        found = self._found(rows, decode)
        if blank := found.count(None):
            messages.say(f"{blank:,} of {len(rows):,} rows have no text, so their new cells are blank")
        names = free_names([*self.columns], table.names)
        return table.with_columns(
            {
                name: [None if it is None else plain_value(column.value(it)) for it in found]
                for name, column in zip(names, self.columns.values())
            }
        )

    def row_results(self, rows: Sequence[Sequence[str]], **decode: Any) -> Sequence[Any]:
        """Return a record of the answer to each row, in order. No text is blank."""
        return self.results([text for (text,) in rows], **decode)

    def _found(self, rows: Sequence[tuple[str, ...]], decode: Mapping[str, Any]) -> list[Any]:
        """Return a record for each row, None for one with a blank text."""
        found: list[Any] = [None] * len(rows)
        filled = [number for number, row in enumerate(rows) if all(map(str.strip, row))]
        for start in range(0, len(filled), _TOGETHER):
            part = filled[start : start + _TOGETHER]
            for number, record in zip(part, self.row_results([rows[it] for it in part], **decode)):
                found[number] = record
        return found


@dataclass(frozen=True)
class Frame:
    """A DataFrame or an Arrow table: its names, the values of a column, and a copy of it with more columns."""

    kind: str
    names: Sequence[str]
    values: Callable[[int], Sequence[Any]]
    with_columns: Callable[[dict[str, list[Any]]], Any]

    @classmethod
    def of(cls, data: Any) -> "Frame":
        """Wrap a frame. Raise DataError for anything else."""
        kind = type(data).__name__
        if hasattr(data, "get_column") and hasattr(data, "hstack"):  # polars
            return cls(
                kind,
                list(data.columns),
                lambda place: data.to_series(place).to_list(),
                lambda new: data.hstack(type(data)(new)),
            )
        if hasattr(data, "iloc") and hasattr(data, "assign"):  # pandas
            return cls(
                kind,
                [str(name) for name in data.columns],
                lambda place: data.iloc[:, place].tolist(),
                lambda new: data.assign(**new),
            )
        if hasattr(data, "column_names") and hasattr(data, "append_column"):
            return cls(
                kind,
                list(data.column_names),
                lambda place: data.column(place).to_pylist(),
                lambda new: _appended(data, type(data).from_pydict(new)),
            )
        what = f"got a value of type {kind}"
        expected = "a pandas or polars DataFrame, or an Arrow table"
        fix = "for a file of rows, use `clearhead VERB DIR --data FILE`"
        raise DataError(what, expected=expected, fix=fix, name="frame", value=data)

    def texts(self, place: int) -> list[str]:
        """Return the texts of a column, "" for missing values. Raise DataError if it has lists or objects."""
        found = []
        for number, value in enumerate(map(json_value, self.values(place)), 1):
            text = "" if value is None else json_text(value)
            if text is None:
                what = f"row {number:,} of column {self.names[place]!r} isn't a text: {value!r:.80}"
                raise DataError(what, expected="texts", name=self.names[place], value=value, line=number)
            found.append(text)
        return found

    def sample(self) -> Sample:
        """Return the first texts of each column."""
        count = rows_to_inspect(self.kind, len(self.names))
        cells = [[it for it in self.values(place)[:count] if isinstance(it, str)] for place in range(len(self.names))]
        return Sample(self.kind, self.names, cells, header=True)


def _appended(table: Any, new: Any) -> Any:
    for name in new.column_names:
        table = table.append_column(name, new.column(name))
    return table
