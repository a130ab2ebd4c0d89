"""Files, folders, standard input and pipes, all of which can be read repeatedly."""

import errno
import io
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from ..errors import DataError
from ..folder.archive import display_name

_BLOCK = 1 << 20
_MOST_COPIED = 64 << 30  # maximum bytes copied from a pipe, standard input or a device
STDIN = "-"


class Input:
    """One file that can be read repeatedly, by one reader at a time.

    Standard input ("-"), pipes and devices can be read only once, so they're copied to an unnamed temporary file first.
    The copy disappears when the process ends, even if it's killed.
    """

    def __init__(self, path: str | Path) -> None:
        self.name = "standard input" if str(path) == STDIN else display_name(path)
        self.path = None if str(path) == STDIN else Path(path)
        self._copy: IO[bytes] | None = None

    @contextmanager
    def open(self) -> Iterator[io.BufferedReader]:
        """Open the file at its beginning. Raise DataError if the file can't be read."""
        try:
            if self._copy is None and self._is_stream():
                self._copy = self._copied()
            with self._opened() as file:
                yield file
        except FileNotFoundError as error:
            raise DataError(f"{self.name} doesn't exist", expected="an existing file", name=self.name) from error
        except IsADirectoryError as error:
            raise DataError(f"{self.name} is a folder", expected="a file", name=self.name) from error
        except OSError as error:
            if error.strerror is None:  # raised by a decompressor; the caller has a better message
                raise
            raise DataError(f"{self.name} can't be read: {error.strerror}", name=self.name) from error

    def close(self) -> None:
        if self._copy is not None:
            self._copy.close()
            self._copy = None

    def _is_stream(self) -> bool:
        return self.path is None or _is_stream(self.path)

    def _opened(self) -> io.BufferedReader:
        if self._copy is None:
            assert self.path is not None
            return self.path.open("rb")
        file = os.fdopen(os.dup(self._copy.fileno()), "rb")
        file.seek(0)
        return file

    def _copied(self) -> IO[bytes]:
        if self.path is None and not sys.stdin:  # Python sets it to None if it's closed
            what = "standard input is closed"
            raise DataError(what, expected="text on it", fix="name a file instead of -", name=STDIN)
        try:
            copy = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it
        except OSError as error:
            raise self._no_room(error.strerror) from error
        try:
            if self.path is None:
                self._fill(copy, sys.stdin.buffer)
            else:
                with self.path.open("rb") as pipe:
                    self._fill(copy, pipe)
            copy.flush()
        except BaseException as error:
            with suppress(OSError):  # closing tries to write the rest
                copy.close()
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise self._no_room(error.strerror) from error
            raise
        return copy

    def _fill(self, copy: IO[bytes], stream: IO[bytes]) -> None:
        """Copy the stream. Stop at 64 GiB or half the free disk space, so that an endless stream can't fill it."""
        room = shutil.disk_usage(copy.fileno()).free // 2
        most, size = min(_MOST_COPIED, room), 0
        while block := stream.read(_BLOCK):
            size += len(block)
            if size > most:
                limit = "64 GiB" if most == _MOST_COPIED else f"{most / (1 << 30):.3g} GiB, half the free disk space"
                what, expected = f"{self.name} has more than {limit}", "a stream that ends before that"
                raise DataError(what, expected=expected, fix="write it to a file, and pass the file", name=self.name)
            copy.write(block)

    def _no_room(self, why: str | None) -> DataError:
        try:
            folder = tempfile.gettempdir()
        except OSError:  # none of the usual folders is writable
            folder = "a temporary folder"
        what = f"{self.name} can't be copied to {folder}: {why}\n  it is read more than once, so it has to be copied"
        fix = "free some space, or set another folder with TMPDIR=FOLDER"
        return DataError(what, expected="enough free space for all of it", fix=fix, name=self.name)


def inputs(path: "str | Path | Input") -> list[Input]:
    """Return the file itself, or the files of a folder in natural order (part-2 before part-10).

    Hidden files are skipped, and so is _SUCCESS, which some tools write next to their output.

    Raises:
        DataError: the folder has no files, or contains another folder, a pipe or a device.
    """
    if isinstance(path, Input):
        return [path]
    folder = _checked(path)
    if str(path) == STDIN or not is_folder(folder):
        return [Input(path)]
    try:
        seen = [it for it in folder.iterdir() if not it.name.startswith(".") and it.name != "_SUCCESS"]
    except OSError as error:
        raise DataError(f"{path} can't be read: {error.strerror}", name=str(path)) from error
    entries = sorted(seen, key=lambda it: _natural(it.name))
    if not entries or (all(it.is_dir() for it in entries) and not _below(folder)):
        raise DataError(f"{path} is a folder without files", expected="data files in it", name=str(path))
    for entry in entries:
        if entry.is_dir():
            what = f"{path} contains another folder, {entry.name}"
            raise DataError(what, expected="only data files in it", name=str(path))
        if is_stream(entry):  # opening it could block
            what = f"{path} contains a pipe or a device, {entry.name}"
            raise DataError(what, expected="only data files in it", name=str(path))
    return [Input(entry) for entry in entries]


def tree(path: "str | Path | Input") -> list[Input]:
    """Return the file itself, or all files below a folder in natural order.

    Hidden files are skipped. Links are followed, and no folder is read twice.

    Raises:
        DataError: the folder has no files, or can't be read.
    """
    if isinstance(path, Input):
        return [path]
    if str(path) == STDIN or not is_folder(_checked(path)):
        return [Input(path)]
    files = [file for file in _below(Path(path)) if file.is_file()]  # opening a pipe would block
    if not files:
        raise DataError(f"{path} is a folder without files", expected="text files in it", name=str(path))
    return [Input(file) for file in files]


def _checked(path: str | Path) -> Path:
    """Return a Path. Reject an empty one, such as an unset shell variable, which would mean the current folder."""
    if not str(path) or "\0" in str(path):
        raise DataError(f"{str(path)!r} isn't a path", expected="the path of a file or folder", value=str(path))
    return Path(path)


def broken_links(path: "str | Path | Input") -> list[Path]:
    """Return the broken links below a folder."""
    if isinstance(path, Input) or str(path) == STDIN or not is_folder(Path(path)):
        return []
    return [file for file in _below(Path(path)) if not file.exists()]


def _below(path: Path) -> list[Path]:
    """Return everything below a folder except folders, in natural order."""

    def fail(error: OSError) -> None:
        raise DataError(f"{error.filename} can't be read: {error.strerror}", name=str(error.filename)) from error

    found, seen = list[Path](), {os.path.realpath(path)}
    for folder, folders, names in os.walk(path, onerror=fail, followlinks=True):
        # a folder comes before links to it
        below = sorted((Path(folder, it) for it in folders), key=lambda it: (it.is_symlink(), _natural(it.name)))
        folders.clear()
        for it in below:
            if not it.name.startswith(".") and (place := os.path.realpath(it)) not in seen:
                seen.add(place)
                folders.append(it.name)
        found += [Path(folder, name) for name in names if not name.startswith(".")]
    return sorted(found, key=lambda it: [*map(_natural, it.parts)])


def is_folder(path: Path) -> bool:
    """Return whether a path is a folder; False if that can't be determined."""
    try:
        return path.is_dir()
    except (OSError, ValueError):  # reading it will raise a clear error
        return False


def is_stream(path: "str | Path | Input") -> bool:
    """Return whether a path is standard input, a pipe or a device, which can be read only once."""
    if isinstance(path, Input):
        return False
    try:
        return str(path) == STDIN or _is_stream(Path(path))
    except (OSError, ValueError):  # reading it will raise a clear error
        return False


def _is_stream(path: Path) -> bool:
    mode = path.stat().st_mode
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key that compares numbers by value."""
    parts = re.split(r"(\d+)", name)
    return [(int(part), part) if part.isascii() and part.isdigit() else (-1, part) for part in parts]
