"""CSV and TSV files with new columns. Cells are added to the bytes of each row. Quotes and line endings stay."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...errors import DataError
from ...readers.files import Input
from ...readers.lines import MOST_BYTES, has_surrogate, shown, whole_lines
from ...readers.rows import SEPARATOR_LINE, Dialect
from .table_file import TableFile, TableRow, as_cell

_BYTE_ORDER_MARK = "\ufeff"
_BLANK = f" \t\r\n{_BYTE_ORDER_MARK}"


class DelimitedTable(TableFile):
    """A CSV or TSV file.

    Args:
        dialect: how rows are divided into cells.
        width: number of cells in a row.
        places: the columns to read.
        has_header: whether the first row has the names of the columns. It may lack a name for the first one, as R
            writes it.
    """

    def __init__(
        self, file: Input, dialect: Dialect, width: int, places: Sequence[int], *, has_header: bool, joined: bool
    ) -> None:
        super().__init__(file, joined=joined)
        self.dialect, self.width, self.places = dialect, width, places
        self.kind = "TSV" if dialect.separator == "\t" else "CSV"
        self._left = ""
        self._header = next(self._records())[2] if has_header else None

    @property
    def names(self) -> list[str]:
        return self._header or []

    @property
    def used(self) -> list[str]:
        shift = self.width - len(self.names) if self._header else 0
        named = [self.names[place - shift].strip() if self._header and place >= shift else "" for place in self.places]
        return [name or str(place + 1) for name, place in zip(named, self.places)]

    def rows(self) -> Iterator[TableRow]:
        records = self._records()
        if self._header:
            next(records)
        for line, record, cells in records:
            if len(cells) != self.width:
                raise self._wrong_width(line, record, len(cells))
            texts = self.read_texts([cells[place] for place in self.places])
            if damaged := any(map(has_surrogate, texts)):
                texts = tuple(text.encode("utf-8", "surrogateescape").decode(errors="replace") for text in texts)
            yield TableRow(line, texts, damaged, record, len(record))

    def start(self, added: Mapping[str, str]) -> bytes:
        if self._header is None:
            return b""
        _, record, cells = next(self._records())
        if not self.width - 1 <= len(cells) <= self.width:
            raise self._wrong_width(1, record, len(cells))
        return self._with_cells(record, [*added]).encode("utf-8", "surrogateescape")

    def written(self, rows: Sequence[TableRow], cells: Sequence[Sequence[Any]]) -> bytes:
        lines = (self._with_cells(row.content, [*map(as_cell, new)]) for row, new in zip(rows, cells))
        return "".join(lines).encode("utf-8", "surrogateescape")

    def end(self) -> bytes:
        return self._left.encode("utf-8", "surrogateescape")

    def _with_cells(self, record: str, cells: Sequence[str]) -> str:
        end = "\r\n" if record.endswith("\r\n") else "\n" if record.endswith("\n") else ""
        return self.dialect.separator.join([record.removesuffix(end), *map(self.dialect.spelled, cells)]) + end

    def _records(self) -> Iterator[tuple[int, str, list[str]]]:
        """Yield the line, the text and the cells of each row. The text includes blank lines before it.

        Bytes that aren't UTF-8 become surrogates. What follows the last row is kept for `end`.
        """
        kept, count, first = list[str](), 0, 1

        def lines() -> Iterator[str]:
            nonlocal count
            size = 0
            for count, line in enumerate(whole_lines(self.file), 1):
                text = line.decode("utf-8", "surrogateescape")
                size = len(line) + (size if kept else 0)
                kept.append(text)
                if size > MOST_BYTES:
                    raise self._unreadable(first, kept[0])
                if count > 1 or not SEPARATOR_LINE.fullmatch(text.removeprefix(_BYTE_ORDER_MARK).rstrip("\r\n")):
                    yield text if count > 1 else text.removeprefix(_BYTE_ORDER_MARK)

        rows = self._split(lines())
        while True:
            first = count + 1
            try:
                cells = next(rows, None)
            except csv.Error as error:
                raise self._unreadable(first, "".join(kept)) from error
            if cells is None:
                self._left = "".join(kept)
                return
            if len(cells) > 1 or kept[-1].strip(_BLANK):
                yield first, "".join(kept), cells
                kept.clear()

    def _split(self, lines: Iterator[str]) -> Iterator[list[str]]:
        """Return the cells of each row. Quotes are those of RFC 4180, and a row with quotes may have several lines."""
        separator = self.dialect.separator
        if self.dialect.quoted:
            csv.field_size_limit(2 * MOST_BYTES)  # characters; by default 131,072
            return csv.reader(lines, delimiter=separator, strict=True)
        return (line.removesuffix("\n").removesuffix("\r").split(separator) for line in lines)

    def _unreadable(self, line: int, record: str) -> DataError:
        what = f"{self.file.name} line {line:,} can't be divided into columns\n  {shown(record.strip())}"
        expected = "quotes around whole cells, with every quote in them doubled"
        fix = "correct the line or, if quotes are ordinary characters, set `data.quoting=none`"
        return DataError(what, expected=expected, fix=fix, name=self.file.name, line=line)

    def _wrong_width(self, line: int, record: str, count: int) -> DataError:
        what = f"{self.file.name} line {line:,} has {count} column{'s' * (count != 1)}, and the table {self.width}"
        what, expected = f"{what}\n  {shown(record.strip())}", "as many in every row"
        fix = "correct the line; a cell that contains the separator needs quotes around it"
        return DataError(what, expected=expected, fix=fix, name=self.file.name, value=count, line=line)
