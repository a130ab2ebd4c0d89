"""A table that's read row by row, and written with more columns. Everything else in it stays the same."""

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from ...config.values import to_json
from ...readers.files import Input
from ..answers import plain_value

MOST_ROWS, MOST_BYTES = 2000, 8 << 20  # per group of rows, which limits the memory


class TableRow(NamedTuple):
    """A row of a table. When it's pickled, for a worker, `content` and `size` are left out.

    Attributes:
        number: its line in the file, or its number in a file without lines, from 1.
        texts: the texts in the columns that are read; "" if a cell is blank or missing.
        damaged: True if these aren't valid UTF-8. Bytes that couldn't be decoded became U+FFFD.
        content: what the table writes the row from.
        size: its bytes.
    """

    number: int
    texts: tuple[str, ...]
    damaged: bool = False
    content: Any = None
    size: int = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return TableRow, (self.number, self.texts, self.damaged)

    @property
    def text(self) -> str:
        """All texts, for their length and their digest."""
        return " ".join(self.texts)

    @property
    def is_blank(self) -> bool:
        """True if a text is blank. Such a row isn't answered."""
        return not all(map(str.strip, self.texts))


@dataclass(frozen=True)
class Extent:
    """Counts of a whole table: its rows, those with a blank text, and the bytes of its texts."""

    rows: int
    blank: int
    text_bytes: int


class TableFile(ABC):
    """A file with rows.

    Args:
        joined: True if the texts of a row are read as one text. Blank ones are left out.
    """

    kind: str  # of file, for messages
    item = "line"  # what a row's place in the file is called
    is_text = True  # so a file that was written in part can be continued

    def __init__(self, file: Input, *, joined: bool) -> None:
        self.file, self.joined = file, joined
        self.added: Mapping[str, str] = {}

    @property
    @abstractmethod
    def names(self) -> Collection[str]:
        """All names of columns in the file."""

    @property
    @abstractmethod
    def used(self) -> Sequence[str]:
        """The names or numbers of the columns that are read."""

    @abstractmethod
    def rows(self) -> Iterator[TableRow]:
        """Yield the rows. Raise DataError, with the line, for one that can't be read."""

    def start(self, added: Mapping[str, str]) -> bytes:
        """Return what comes before the rows. `added` are the names of new columns, with the kinds of their values."""
        self.added = added
        return b""

    @abstractmethod
    def written(self, rows: Sequence[TableRow], cells: Sequence[Sequence[Any]]) -> bytes:
        """Return rows with new cells, one for each new column. A cell of None is blank."""

    @abstractmethod
    def end(self) -> bytes:
        """Return what comes after the rows."""

    @cached_property
    def extent(self) -> Extent:
        """Counts of the whole table, which is read for them. So an error in a row is raised before any is answered."""
        n_rows = n_blank = n_bytes = 0
        for row in self.rows():
            n_rows += 1
            n_blank += row.is_blank
            n_bytes += len(row.text.encode("utf-8", "surrogatepass"))
        return Extent(n_rows, n_blank, n_bytes)

    def groups(self) -> Iterator[list[TableRow]]:
        """Yield the rows in groups of limited size."""
        group, size = list[TableRow](), 0
        for row in self.rows():
            group.append(row)
            size += row.size
            if len(group) == MOST_ROWS or size >= MOST_BYTES:
                yield group
                group, size = [], 0
        if group:
            yield group

    def read_texts(self, texts: Sequence[str]) -> tuple[str, ...]:
        """Return the texts of a row as the task reads them."""
        return (joined_texts(texts),) if self.joined and len(texts) > 1 else tuple(texts)


def joined_texts(texts: Iterable[str]) -> str:
    """Join the texts of several columns. Blank ones are left out."""
    return " ".join(filter(str.strip, texts))


def free_names(columns: Sequence[str], known: Iterable[str]) -> list[str]:
    """Return the names of new columns. If one of them is `known`, all get a number: label_2, probability_2."""
    names, number, taken = list(columns), 1, {name.strip().casefold() for name in known}
    while any(name.casefold() in taken for name in names):
        number += 1
        names = [f"{column}_{number}" for column in columns]
    return names


def as_json(value: Any) -> str:
    """Return a value, which can be an array, as strict JSON on one line."""
    return to_json(plain_value(value))


def as_cell(value: Any) -> str:
    """Return a value as the text of a cell, "" for None."""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else ""
    return "" if value is None else as_json(value)
