"""Tokens on disk, memory-mapped so that examples don't have to fit into memory.

header.json  source.tokens  source.lengths  target.tokens  target.lengths

The files contain plain little-endian numbers, one sequence after another. A token takes two bytes if the vocabulary is
small enough, otherwise four; a pixel takes one, a sample two, a length four. A store is written under a temporary name
and then renamed. Its digest is checked when it's opened. There's no fsync: a store damaged by a power cut is detected
and rebuilt.
"""

import hashlib
import json
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Self

import numpy as np

from ..errors import DataError
from ..tokenization.ragged import Ragged

FORMAT_VERSION = 2
_HEADER, _SIDES = "header.json", ("source", "target")
_LENGTH = np.dtype("<i4")
_BLOCK = 1 << 20  # tokens read together for their digest
_ABANDONED = 86_400  # seconds after which a half-written store is deleted


@dataclass(frozen=True)
class Store:
    """Memory-mapped sources and targets, with the digest of their tokens, and notes."""

    sides: tuple[Ragged, Ragged]
    digest: str
    notes: dict[str, Any]

    @classmethod
    def open(cls, path: Path, key: Mapping[str, Any]) -> Self | None:
        """Open the store in a folder, or return None if there's none with this key.

        Raises:
            DataError: the store is damaged.
        """
        try:
            _expect_regular(path)
            header = json.loads((path / _HEADER).read_bytes())
            if header["format_version"] != FORMAT_VERSION or header["key"] != _plain(key):
                return None
            seal = header.pop("seal")
            if seal != _seal(header) or header["digest"] != token_digest(_mapped(path, header)):
                raise _damaged(path, "their digest has changed")
            return cls(_mapped(path, header), header["digest"], header["notes"])
        except FileNotFoundError:
            if not path.exists():
                return None
            raise _damaged(path, "a file is missing") from None
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise _damaged(path, str(error)) from error


def _expect_regular(path: Path) -> None:
    """Raise a ValueError if a file is a pipe or a device, which could block."""
    for file in (path / _HEADER, *(it for side in _SIDES for it in _paths(path, side))):
        if file.exists() and not file.is_file():
            raise ValueError(f"{file.name} isn't a regular file")


def _damaged(path: Path, why: str) -> DataError:
    return DataError(f"the tokens in {path} are damaged: {why}", name=str(path))


@dataclass
class StoreWriter:
    """Writes examples chunk by chunk; `notes` can contain any JSON values."""

    files: Sequence[tuple[IO[bytes], IO[bytes]]]  # tokens and lengths of each side
    dtypes: Sequence[np.dtype[Any]]  # of the tokens of each side
    notes: dict[str, Any] = field(default_factory=dict)

    def add(self, *sides: Ragged) -> None:
        for (tokens, lengths), dtype, side in zip(self.files, self.dtypes, sides, strict=True):
            tokens.write(side.tokens.astype(dtype, copy=False).tobytes())
            lengths.write(side.lengths.astype(_LENGTH).tobytes())


@contextmanager
def new_store(path: Path, key: Mapping[str, Any], *, dtypes: Sequence[str]) -> Iterator[StoreWriter]:
    """Write a store, and replace an existing one only when it's complete.

    If another process has written one with the same key in the meantime, that one is kept. If writing fails, the
    OSError propagates and no files are left.

    Args:
        path: the folder to write. Until it's complete, it has a temporary name.
        key: JSON values that identify the data and how it's encoded; `Store.open` compares them.
        dtypes: NumPy types of the numbers on each side, such as "<u2"; see `token_type`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(path)
    aside = _private(path)
    types = [np.dtype(it) for it in dtypes]
    try:
        aside.mkdir()
        with ExitStack() as opened:
            pairs = [tuple(opened.enter_context(path.open("wb")) for path in _paths(aside, side)) for side in _SIDES]
            writer = StoreWriter([(tokens, lengths) for tokens, lengths in pairs], types)
            yield writer
        header = {
            "format_version": FORMAT_VERSION,
            "key": _plain(key),
            "dtypes": [it.str for it in types],
            "notes": writer.notes,
        }
        header["sizes"] = [[file.stat().st_size for file in _paths(aside, side)] for side in _SIDES]
        header["digest"] = token_digest(_mapped(aside, header))
        header = _plain(header)
        (aside / _HEADER).write_text(json.dumps({**header, "seal": _seal(header)}), encoding="utf-8")
        _take_place(aside, path, key)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def token_type(vocab_size: int) -> str:
    """Return the type of the smallest numbers that hold the ids of a vocabulary."""
    return "<u2" if vocab_size <= 1 << 16 else "<i4"


def token_digest(sides: Sequence[Ragged]) -> str:
    """Return the SHA-256 of the sequences, independent of the integer type."""
    whole = hashlib.sha256()
    for side in sides:
        whole.update(side.starts.tobytes())
        for start in range(0, len(side.tokens), _BLOCK):
            whole.update(side.tokens[start : start + _BLOCK].astype(np.int32).tobytes())
    return whole.hexdigest()


def _mapped(path: Path, header: Mapping[str, Any]) -> tuple[Ragged, Ragged]:
    """Map the two sides into memory. Raise a ValueError if a file has the wrong size."""
    source, target = (
        _side(_paths(path, side), sizes, np.dtype(dtype))
        for side, sizes, dtype in zip(_SIDES, header["sizes"], header["dtypes"])
    )
    return source, target


def _side(paths: tuple[Path, Path], sizes: Sequence[int], dtype: np.dtype[Any]) -> Ragged:
    for path, size in zip(paths, sizes):
        if path.stat().st_size != size:
            raise ValueError(f"{path.name} has {path.stat().st_size:,} bytes, not {size:,}")
    tokens = np.asarray(np.memmap(paths[0], dtype, mode="r")) if sizes[0] else np.empty(0, dtype)
    return Ragged.of(tokens, np.fromfile(paths[1], _LENGTH).astype(np.int64))


def _paths(folder: Path, side: str) -> tuple[Path, Path]:
    return folder / f"{side}.tokens", folder / f"{side}.lengths"


def _seal(header: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values after a round trip through JSON."""
    return json.loads(json.dumps(values))


def _private(path: Path) -> Path:
    """Return a path that no other process uses, not even one on another machine with the same process id."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")


def _take_place(aside: Path, path: Path, key: Mapping[str, Any]) -> None:
    """Move a new store into place, unless there's a complete one with this key, which others may be about to open."""
    if _is_complete(path, key):
        return
    retired = _private(path)
    with suppress(FileNotFoundError):
        path.replace(retired)
    try:
        aside.replace(path)
    except OSError:
        if not _is_complete(path, key):
            raise  # otherwise another process has just written the same store
    shutil.rmtree(retired, ignore_errors=True)


def _is_complete(path: Path, key: Mapping[str, Any]) -> bool:
    with suppress(DataError):
        return Store.open(path, key) is not None
    return False


def _remove_abandoned(path: Path) -> None:
    for other in path.parent.glob(f".{path.name}.*.partial"):
        with suppress(OSError):
            if time.time() - other.stat().st_mtime > _ABANDONED:
                shutil.rmtree(other)
