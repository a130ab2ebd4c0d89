"""Parquet files that get new columns and stay the same otherwise."""

import io
import sys
from pathlib import Path
from typing import Any

import pytest

from clearhead.apps.annotation import parquet_table
from clearhead.errors import ConfigError, DataError

from .conftest import Open, answered, texts_of


def parquet_of(columns: dict[str, Any], **options: Any) -> bytes:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    stream = io.BytesIO()
    table = pyarrow.table(columns).replace_schema_metadata({"made": "here"})
    parquet.write_table(table, stream, **options)
    return stream.getvalue()


def read(content: bytes) -> Any:
    from pyarrow import parquet

    return parquet.read_table(io.BytesIO(content))


def test_new_columns_follow_and_types_values_and_metadata_stay(opened: Open) -> None:
    content = parquet_of(
        {"id": [1, None, 3], "text": ["a", None, "b c"], "length": [[1], [], None]}, compression="gzip"
    )
    table = opened(content, "text", name="table.parquet")
    assert texts_of(table) == ["a", "", "b c"] and table.extent.blank == 1
    before, after = read(content), read(answered(table))
    assert after.select(before.column_names).equals(before) and after.schema.metadata == before.schema.metadata
    assert after.column("length_2").to_pylist() == [1, None, 3] and str(after.schema.field("length_2").type) == "double"


def test_a_large_table_is_read_and_written_in_parts(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_table, "_ROW_GROUP", (1000, 1 << 20))
    rows = [f"text {n}" for n in range(5000)]
    table = opened(parquet_of({"text": rows, "n": range(5000)}, row_group_size=700), name="table.parquet")
    assert [len(group) for group in table.groups()] == [2000, 2000, 1000]
    assert [row.number for row in table.rows()] == [*range(1, 5001)]
    found = read(answered(table))
    assert found.column("text").to_pylist() == rows and found.column("length").to_pylist() == [*map(len, rows)]


def test_damage_in_the_middle_is_an_error(opened: Open) -> None:
    content = bytearray(parquet_of({"text": [f"text {n * n}" for n in range(5000)]}, compression="gzip"))
    content[1000:1400] = bytes(400)
    with pytest.raises(DataError, match="damaged"):
        texts_of(opened(bytes(content), name="table.parquet"))


def test_long_texts_are_read_a_few_at_a_time(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_table, "MOST_BYTES", 1000)
    content = parquet_of({"text": [f"{n}" * 100 for n in range(100)]}, compression="none", use_dictionary=False)
    assert max(len(group) for group in opened(content, name="table.parquet").groups()) < 20


def test_an_empty_table_gets_its_columns(opened: Open) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    content = parquet_of({"text": pyarrow.array([], pyarrow.string())})
    assert read(answered(opened(content, name="table.parquet"))).column_names == ["text", "length"]


def test_vectors_and_categories(opened: Open) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    assert texts_of(opened(parquet_of({"n": [1, 2]}), "n")) == ["1", "2"]
    table = opened(parquet_of({"text": pyarrow.array(["a", "b", "a"]).dictionary_encode(), "n": [1, 2, 3]}), "1")
    assert texts_of(table) == ["a", "b", "a"]
    content = table.start({"vector": "vector"})
    content += table.written([*table.rows()], [[[0.5, 1.0]], [None], [[0.25]]]) + table.end()
    assert read(content).column("vector").to_pylist() == [[0.5, 1.0], None, [0.25]]


def test_what_cannot_be_read_is_an_error(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    content = parquet_of({"text": ["a"], "list": [[1]]})
    with pytest.raises(DataError, match="damaged"):
        opened(content[:-20], "text")
    with pytest.raises(DataError, match="aren't texts"):
        texts_of(opened(content, "list"))
    with pytest.raises(DataError, match="no column"):
        opened(content, "no")


def test_without_pyarrow_the_error_says_what_to_install(
    opened: Open, monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError) as caught:
        opened(b"PAR1 and more", name="table.parquet")
    assert caught.value.name == "pyarrow" and "pip install pyarrow" in caught.value.fix
    assert Path(tmp_path / "table.parquet").exists()
