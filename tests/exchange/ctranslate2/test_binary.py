"""model.bin: what is written is read back, old versions are read, and damage is named."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from clearhead.errors import ModelError
from clearhead.exchange.ctranslate2.binary import read_binary, write_binary

VALUES = {
    "a/weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "a/weight_scale": np.array([2, 3], np.float32),
    "b": np.array(-7, np.int8),
    "c": np.array([300, -300], np.int16),
    "d": np.array([70_000], np.int32),
    "e": np.array([0.5, 2], np.float16),
}


def text(word: str) -> bytes:
    return struct.pack("<H", len(word) + 1) + word.encode() + b"\0"


def old(version: int, values: dict[str, NDArray[Any]]) -> bytes:
    """A file of version 2 or 3, which stores the size of a number and how many there are."""
    parts = [struct.pack("<I", version), text("TransformerBase"), struct.pack("<II", 2, len(values))]
    for name, value in values.items():
        parts += [text(name), struct.pack(f"<B{value.ndim}I", value.ndim, *value.shape)]
        parts += [struct.pack("<BI", value.itemsize, value.size), value.tobytes()]
    return b"".join(parts) + (struct.pack("<I", 0) if version == 3 else b"")


def test_variables_and_other_names_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(data := write_binary("Kind", 7, VALUES, {"z/weight": "a/weight"}))
    assert struct.unpack_from("<IH5sI", data) == (6, 5, b"Kind\0", 7)
    kind, found = read_binary(path)
    assert kind == "Kind" and found.keys() == {*VALUES, "z/weight", "z/weight_scale"}
    for name, value in VALUES.items():
        assert found[name].dtype == value.dtype
        np.testing.assert_array_equal(found[name], value)
    assert found["z/weight"] is found["a/weight"]


@pytest.mark.parametrize("version", [2, 3])
def test_old_versions_tell_types_by_their_size(tmp_path: Path, version: int) -> None:
    values = {name: VALUES[name] for name in ("a/weight", "b", "c")}
    (tmp_path / "model.bin").write_bytes(old(version, values))
    kind, found = read_binary(tmp_path / "model.bin")
    assert kind == "TransformerBase"
    for name, value in values.items():
        np.testing.assert_array_equal(found[name], value)


def test_bfloat16_becomes_float32(tmp_path: Path) -> None:
    data = write_binary("Kind", 1, {"x": np.array([1.5, -3], np.float32).view(np.uint16)[1::2].copy()}, {})
    (tmp_path / "model.bin").write_bytes(data)  # its type has the number of bfloat16
    np.testing.assert_array_equal(read_binary(tmp_path / "model.bin")[1]["x"], np.float32([1.5, -3]))


@pytest.mark.parametrize("version", [1, 7])
def test_a_version_that_is_not_supported_is_named(tmp_path: Path, version: int) -> None:
    (tmp_path / "model.bin").write_bytes(struct.pack("<I", version) + bytes(100))
    with pytest.raises(ModelError, match="in version") as caught:
        read_binary(tmp_path / "model.bin")
    assert caught.value.value == version


@pytest.mark.parametrize("left", [3, 30, 100, -2])
def test_a_file_that_is_cut_off_is_damaged(tmp_path: Path, left: int) -> None:
    (tmp_path / "model.bin").write_bytes(write_binary("Kind", 7, VALUES, {"z": "a/weight"})[:left])
    with pytest.raises(ModelError, match=r"model\.bin is damaged"):
        read_binary(tmp_path / "model.bin")
