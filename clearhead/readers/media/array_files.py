"""Files that hold many images or labels in one array: idx (MNIST) and NumPy's npy. `path#7` names item 7, from 0."""

import gzip
import lzma
import math
import re
import struct
import sys
import warnings
import zlib
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import DataError

_IDX_TYPES = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
_OPENERS: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open}
_IDX_NAME = re.compile(r"[-.]idx\d?(-u?byte)?$")  # train-images-idx3-ubyte, train-images.idx3-ubyte, images.idx
_READING = (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error)  # errors that say what is wrong
_MOST = 1 << 33  # bytes of an idx file in memory


def is_array_file(path: str | Path) -> bool:
    """Return whether a file's name says that it's an array, compressed or not."""
    path = Path(path)
    name = path.name.removesuffix(path.suffix) if path.suffix in _OPENERS else path.name
    return name.endswith(".npy") or _IDX_NAME.search(name) is not None


def item_name(path: str, index: int) -> str:
    """Return the name of one item of an array file."""
    return f"{path}#{index}"


def split_item(name: str) -> tuple[str, int] | None:
    """Return the array file and the index that an item's name consists of, or None if it's an ordinary path."""
    path, mark, index = name.rpartition("#")
    return (path, int(index)) if mark and index.isdecimal() and is_array_file(path) else None


def read_array(path: str | Path) -> NDArray[Any]:
    """Return the array of an idx or npy file. A npy file stays on disk and is mapped into memory.

    Raises:
        DataError: the file doesn't exist, is damaged, or isn't an array.
    """
    try:
        status = Path(path).stat()
        return _read(str(path), status.st_mtime_ns, status.st_size)
    except FileNotFoundError as error:
        raise DataError(f"{path} doesn't exist", expected="an idx or npy file", name=str(path)) from error
    except MemoryError:
        raise
    except Exception as error:  # NumPy parses the header as Python, which fails in many ways
        why = error if isinstance(error, _READING) else "its header is damaged"
        what = f"{path} can't be read as an array: {why}"
        raise DataError(what, expected="an idx or npy file", name=str(path)) from error


def read_item(name: str) -> NDArray[Any]:
    """Return one item of an array file. Raise DataError if the array can't be read, or is too short."""
    item = split_item(name)
    assert item is not None
    path, index = item
    array = read_array(path)
    if not array.ndim or index >= len(array):
        what = f"{name} doesn't exist: the array has shape {array.shape}"
        raise DataError(what, expected="an index in the array", name=name)
    return array[index]


@lru_cache(maxsize=4)
def _read(path: str, _changed: int, _size: int) -> NDArray[Any]:
    """Read a file once, as long as it doesn't change."""
    if path.endswith(".npy"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a header that Python 2 wrote is slow to read, no more
            mapped: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        _expect_unicode(mapped)
        return mapped
    with _OPENERS.get(Path(path).suffix, open)(path, "rb") as file:
        start = file.read(4)
        zero, kind, n_axes = struct.unpack(">HBB", start) if len(start) == 4 else (0, 0, 0)
        sizes = file.read(4 * n_axes)
        if zero or kind not in _IDX_TYPES or not n_axes or len(sizes) < 4 * n_axes:
            raise ValueError("it doesn't begin as an idx file does")
        shape, dtype = struct.unpack(f">{n_axes}I", sizes), np.dtype(_IDX_TYPES[kind])
        expected = math.prod(shape) * dtype.itemsize
        content = file.read(expected + 1) if expected < _MOST else b""
    if len(content) != expected:
        raise ValueError("it doesn't have the size that its header says")
    return np.frombuffer(content, dtype).reshape(shape)


def _expect_unicode(array: NDArray[Any]) -> None:
    """Raise a ValueError if texts have code points that no character has; Python can't make strings of them."""
    if array.dtype.kind == "U":
        points = np.frombuffer(array.tobytes(), np.dtype("u4").newbyteorder(array.dtype.byteorder))
        if (points > sys.maxunicode).any() or ((points >= 0xD800) & (points <= 0xDFFF)).any():
            raise ValueError("its texts aren't Unicode")
