"""Answering the rows of tables, for all apps."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...config import TASKS, Config, messages
from ...config.task_spec import Column
from ...errors import DataError

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
        from .data_frames import Frame
        from .input_columns import input_columns
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
