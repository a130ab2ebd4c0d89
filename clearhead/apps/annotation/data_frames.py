"""Add the answers to a DataFrame of pandas or polars, or to an Arrow table, as new columns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import DataError
from ...readers.columns import Sample, rows_to_inspect
from ...readers.json_lines import json_text
from ...readers.source import json_value


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
