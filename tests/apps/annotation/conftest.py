"""Tables whose rows are answered without a model."""

from collections.abc import Callable
from pathlib import Path

import pytest

from clearhead.apps.annotation.open_table import open_table
from clearhead.apps.annotation.table_file import TableFile, free_names
from clearhead.config import DataConfig
from clearhead.readers.files import Input

Open = Callable[..., TableFile]


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    """`opened(content, "text")` is a table of these bytes, of which the columns `text` are read."""

    def open_content(content: bytes, columns: str = "", *, name: str = "table.csv", **settings: str) -> TableFile:
        path = tmp_path / name
        path.write_bytes(content)
        return open_table(Input(path), DataConfig(source_column=columns, **settings))

    return open_content


def answered(table: TableFile, *columns: str) -> bytes:
    """The table with the lengths of its texts, and a blank cell for a blank text."""
    added = dict.fromkeys(free_names(columns or ["length"], table.names), "number")
    parts = []
    parts.append(table.start(added))
    for group in table.groups():
        cells = [[None if row.is_blank else len(row.texts[0])] * len(added) for row in group]
        parts.append(table.written(group, cells))
    return b"".join([*parts, table.end()])


def texts_of(table: TableFile) -> list[str]:
    return [row.texts[0] for row in table.rows()]
