"""Zip archives, which are read as the folder that they contain."""

import atexit
import lzma
import os
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path, PurePosixPath

from ..errors import ClearheadError, DataError

SUFFIXES = (".zip", ".argosmodel")
_BLOCK = 1 << 20
_MOST_FILES = 1_000_000
_LEFT_OUT = ("__MACOSX", ".DS_Store")  # what macOS adds
_NAMES_ARE_UTF8 = 0x800  # flag of an entry
_PREFIX = "clearhead-unzipped-"
_EXPECTED = "a zip archive of a folder"


def unpacked(path: str | Path) -> Path:
    """Return the folder in a zip archive, unpacked to a temporary folder that's deleted when the process ends.

    If everything is in one outer folder, that one is returned. Other paths are returned unchanged.

    Raises:
        DataError: the archive is damaged, encrypted, names files outside of it, or is too large for the disk.
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES or not path.is_file():
        return path
    status = path.stat()
    return _unpacked(path.absolute(), status.st_mtime_ns, status.st_size)


def display_name(path: str | Path) -> str:
    """Return the name of a file for messages: `a.zip/b.png` for one that was unpacked from an archive."""
    return re.sub(rf"{re.escape(tempfile.gettempdir())}/{_PREFIX}\d+-[a-z0-9_]{{8}}(?=/)", "", str(path))


@contextmanager
def archive_names() -> Iterator[None]:
    """Name archives, and not the temporary folders that they're unpacked to, in the errors that are raised inside."""
    try:
        yield
    except ClearheadError as error:
        error.what = display_name(error.what)
        raise


@lru_cache
def _unpacked(path: Path, _changed: int, _size: int) -> Path:
    """Unpack an archive once, as long as it doesn't change."""
    try:
        _remove_leftovers()
        room = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        atexit.register(shutil.rmtree, room, ignore_errors=True)
        folder = room.joinpath(*path.parts[1:])  # so that `display_name` can tell where its files come from
        with zipfile.ZipFile(path) as archive:
            _expect_room(path, archive, room)
            for entry in archive.infolist():
                _write(path, archive, entry, folder)
    except zipfile.BadZipFile as error:
        raise _fault(path, f"isn't a complete zip archive: {error}") from error
    except (RuntimeError, NotImplementedError) as error:  # encrypted, or compressed in an unknown way
        raise _fault(path, f"can't be unpacked: {error}") from error
    except OSError as error:
        raise _fault(path, f"can't be unpacked to {tempfile.gettempdir()}: {error.strerror or error}") from error
    if not folder.is_dir():
        raise _fault(path, "is an empty archive")
    while len(inside := list(folder.iterdir())) == 1 and inside[0].is_dir() and any(inside[0].iterdir()):
        folder = inside[0]
    return folder


def _remove_leftovers() -> None:
    """Remove the folders of killed processes. On Windows, `os.kill` with 0 would send Ctrl-C."""
    if os.name == "nt":
        return
    for room in Path(tempfile.gettempdir()).glob(f"{_PREFIX}[0-9]*-*"):
        try:
            os.kill(int(room.name.split("-")[2]), 0)
        except ProcessLookupError:
            shutil.rmtree(room, ignore_errors=True)
        except (OSError, ValueError, IndexError):  # it's another user's
            continue


def _expect_room(path: Path, archive: zipfile.ZipFile, room: Path) -> None:
    """Reject archives that would fill the disk. No entry can be larger than its header says."""
    entries = archive.infolist()
    size, most = sum(entry.file_size for entry in entries), shutil.disk_usage(room).free // 2
    if size > most or len(entries) > _MOST_FILES:
        what = f"{path} contains {len(entries):,} files of {size:,} bytes in all"
        expected = f"at most {_MOST_FILES:,} files, and {most:,} bytes, half the free space in {room.parent}"
        fix = "unpack it elsewhere, and pass the folder"
        raise DataError(what, expected=expected, fix=fix, name=str(path), value=size)


def _write(path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo, folder: Path) -> None:
    name = _name(entry)
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if entry.is_dir() or any(part in _LEFT_OUT for part in parts):
        return
    if not parts or parts[0] == "/" or ".." in parts or "\0" in name:
        raise _fault(path, f"names a file outside of it: {name!r}")
    file = folder.joinpath(*parts)
    if file.exists() or any(it.is_file() for it in file.parents):
        raise _fault(path, f"contains {name!r} twice")
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as target:
        for block in _blocks(archive, entry):
            target.write(block)


def _blocks(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Iterator[bytes]:
    """Yield the content of a file. Errors of the decompressors become a BadZipFile."""
    try:
        with archive.open(entry) as source:
            while block := source.read(_BLOCK):
                yield block
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise zipfile.BadZipFile(str(error)) from error


def _name(entry: zipfile.ZipInfo) -> str:
    """Return the name of an entry. Some programs write UTF-8 without the flag for it."""
    if entry.flag_bits & _NAMES_ARE_UTF8:
        return entry.filename
    try:
        return entry.filename.encode("cp437").decode("utf-8")
    except UnicodeError:
        return entry.filename


def _fault(path: Path, what: str) -> DataError:
    return DataError(f"{path} {what}", expected=_EXPECTED, name=str(path))
