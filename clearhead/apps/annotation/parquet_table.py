"""Parquet files with new columns. The others keep their types, values and metadata."""

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ...errors import ConfigError, DataError
from ...readers.columns import Sample, rows_to_inspect
from ...readers.files import Input
from .table_file import MOST_BYTES, MOST_ROWS, TableFile, TableRow

MAGIC = b"PAR1"
_ROW_GROUP = 1 << 16, 64 << 20  # rows and bytes that are written together


class ParquetTable(TableFile):
    """A Parquet file.

    Raises:
        ConfigError: the package pyarrow is missing.
        DataError: the file can't be read.
    """

    kind, item, is_text = "Parquet", "row", False

    def __init__(self, file: Input, *, joined: bool) -> None:
        super().__init__(file, joined=joined)
        self.places: Sequence[int] = ()
        with self._opened() as content:
            self._schema = content.schema_arrow
            whole = content.metadata
            size = sum(whole.row_group(i).total_byte_size for i in range(whole.num_row_groups))
            self._rows_at_once = max(1, min(MOST_ROWS, MOST_BYTES * whole.num_rows // max(size, 1)))
            kind = whole.row_group(0).column(0).compression if whole.num_row_groups and whole.num_columns else "SNAPPY"
        self._compression = "NONE" if kind == "UNCOMPRESSED" else kind
        self._sink = _Sink()
        self._writer: Any = None
        self._waiting: list[Any] = []

    @property
    def names(self) -> list[str]:
        return list(self._schema.names)

    @property
    def used(self) -> list[str]:
        return [self.names[place] for place in self.places]

    def sample(self) -> Sample:
        """Return the first rows, by column."""
        count = rows_to_inspect(self.file.name, len(self.names))
        with self._opened() as content:
            batch = next(content.iter_batches(batch_size=count), None)
        columns = [] if batch is None else batch.columns
        cells = [[it for it in column.to_pylist() if isinstance(it, str)] for column in columns]
        return Sample(self.file.name, self.names, cells or [[] for _ in self.names], header=True)

    def rows(self) -> Iterator[TableRow]:
        for group in self.groups():
            yield from group

    def groups(self) -> Iterator[list[TableRow]]:
        count = 0
        with self._opened() as content:
            for batch in content.iter_batches(batch_size=self._rows_at_once):
                rows = zip(*(self._texts(batch.column(place)) for place in self.places))
                size = batch.nbytes // max(batch.num_rows, 1)
                group = [
                    TableRow(count + number, self.read_texts(texts), content=batch, size=size)
                    for number, texts in enumerate(rows, 1)
                ]
                count += len(group)
                if group:
                    yield group

    def start(self, added: Mapping[str, str]) -> bytes:
        import pyarrow
        from pyarrow import parquet

        types = {"text": pyarrow.string(), "number": pyarrow.float64(), "vector": pyarrow.list_(pyarrow.float32())}
        super().start(added)
        schema = self._schema
        for name, kind in added.items():
            schema = schema.append(pyarrow.field(name, types[kind]))
        self._writer = parquet.ParquetWriter(self._sink, schema, compression=self._compression)
        return self._sink.taken()

    def written(self, rows: Sequence[TableRow], cells: Sequence[Sequence[Any]]) -> bytes:
        """Return what's written to the file, which may be nothing yet. The rows are one of `groups`."""
        import pyarrow

        schema = self._writer.schema
        fields = [schema.field(name) for name in self.added]
        new = [pyarrow.array(values, field.type) for values, field in zip(zip(*cells), fields)]
        self._waiting.append(pyarrow.record_batch([*rows[0].content.columns, *new], schema=schema))
        n_rows, n_bytes = (sum(map(of, self._waiting)) for of in (len, lambda it: it.nbytes))
        return self._flushed() if n_rows >= _ROW_GROUP[0] or n_bytes >= _ROW_GROUP[1] else b""

    def end(self) -> bytes:
        data = self._flushed()
        self._writer.close()
        return data + self._sink.taken()

    def _flushed(self) -> bytes:
        import pyarrow

        if self._waiting:
            self._writer.write_table(pyarrow.Table.from_batches(self._waiting), row_group_size=1 << 30)
            self._waiting = []
        return self._sink.taken()

    def _texts(self, column: Any) -> list[str]:
        import pyarrow

        try:
            return [value or "" for value in column.cast(pyarrow.string()).to_pylist()]
        except pyarrow.ArrowException as error:
            what = f"{self.file.name}: {' or '.join(self.used)} has values of type {column.type}, which aren't texts"
            fix = "name another one: `data.source_column=NAME`"
            raise DataError(what, expected="a column of texts", fix=fix, name=self.file.name) from error

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError as error:
            what = f"{self.file.name} is a Parquet file, which needs the package pyarrow"
            raise ConfigError(what, fix="install it: pip install pyarrow", name="pyarrow") from error
        with self.file.open() as file:
            try:
                yield parquet.ParquetFile(file)
            except (pyarrow.ArrowException, OSError) as error:
                what = f"{self.file.name} is damaged or cut off: {error}"
                raise DataError(what, expected="a complete Parquet file", name=self.file.name) from error


class _Sink(io.RawIOBase):
    """Buffer for the output until it's taken."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        return len(self._parts[-1])

    def taken(self) -> bytes:
        """Return what was written since the last call."""
        data, self._parts = b"".join(self._parts), []
        return data
