"""Where text is read from: files, folders of them, standard input and pipes, each as often as it is wanted."""

import errno
import hashlib
import io
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from ..errors import DataError

_BLOCK = 1 << 20
STDIN = "-"


class Input:
    """One file that can be read again and again. What can be read only once, standard input ("-") and pipes, is copied
    first to a file without a name, which is gone when the process ends, however it ends. One reading at a time.
    """

    def __init__(self, path: str | Path) -> None:
        self.name = "standard input" if str(path) == STDIN else str(path)
        self._path = None if str(path) == STDIN else Path(path)
        self._copy: IO[bytes] | None = None

    @contextmanager
    def open(self) -> Iterator[io.BufferedReader]:
        """The bytes from the beginning; a DataError where they cannot be had."""
        try:
            if self._copy is None and self._flows():
                self._copy = self._copied()
            with self._opened() as file:
                yield file
        except FileNotFoundError as error:
            raise DataError(f"{self.name} does not exist; expected a file of text") from error
        except IsADirectoryError as error:
            raise DataError(f"{self.name} is a folder; expected a file of text") from error
        except OSError as error:
            if error.strerror is None:  # of a library that unpacks: it is known better there
                raise
            raise DataError(f"{self.name} cannot be read: {error.strerror}") from error

    def close(self) -> None:
        """Remove the copy, if there is one."""
        if self._copy is not None:
            self._copy.close()
            self._copy = None

    def _flows(self) -> bool:
        return self._path is None or not (stat.S_ISREG(mode := self._path.stat().st_mode) or stat.S_ISDIR(mode))

    def _opened(self) -> io.BufferedReader:
        if self._copy is None:
            assert self._path is not None
            return self._path.open("rb")
        file = os.fdopen(os.dup(self._copy.fileno()), "rb")
        file.seek(0)
        return file

    def _copied(self) -> IO[bytes]:
        if self._path is None and not sys.stdin:  # Python's name for a closed one is None
            raise DataError("standard input is closed; expected text on it, or a file in the place of -")
        try:
            copy = tempfile.TemporaryFile()  # noqa: SIM115 - it lives until `close`
        except OSError as error:
            raise self._no_room(error) from error
        try:
            if self._path is None:
                shutil.copyfileobj(sys.stdin.buffer, copy, _BLOCK)
            else:
                with self._path.open("rb") as pipe:
                    shutil.copyfileobj(pipe, copy, _BLOCK)
            copy.flush()
        except BaseException as error:
            with suppress(OSError):  # it would like to write the rest
                copy.close()
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise self._no_room(error) from error
            raise
        return copy

    def _no_room(self, error: OSError) -> DataError:
        try:
            folder = tempfile.gettempdir()
        except OSError:  # of all that are usual none can be written to
            folder = "a temporary folder"
        return DataError(
            f"{self.name} cannot be copied to {folder}, as it is read more than once: {error.strerror}; "
            "expected room for all of it: make some, or name another folder with TMPDIR=FOLDER"
        )


def inputs(path: "str | Path | Input") -> list[Input]:
    """The file itself, or the files of a folder in natural order: part-2 before part-10. Hidden ones are passed over,
    and _SUCCESS, which says that the others are whole.

    A folder that holds no file, or another folder, is a DataError.
    """
    if isinstance(path, Input):
        return [path]
    folder = _expect_path(path)
    if str(path) == STDIN or not is_folder(folder):
        return [Input(path)]
    try:
        seen = [it for it in folder.iterdir() if not it.name.startswith(".") and it.name != "_SUCCESS"]
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    entries = sorted(seen, key=lambda it: _natural(it.name))
    if not entries:
        raise DataError(f"{path} is a folder without files; expected files of pairs in it")
    for entry in entries:
        if entry.is_dir():
            raise DataError(f"{path} holds the folder {entry.name}; expected nothing but files of pairs in it")
    return [Input(entry) for entry in entries]


def tree(path: "str | Path | Input") -> list[Input]:
    """The file itself, or all files of a folder and of those in it, in natural order; hidden ones are passed over.
    Links are followed, and no folder is read twice.

    A folder without files is a DataError, and one that cannot be read.
    """
    if isinstance(path, Input):
        return [path]
    if str(path) == STDIN or not is_folder(_expect_path(path)):
        return [Input(path)]
    files = [file for file in _below(Path(path)) if file.is_file()]  # a pipe would be waited for
    if not files:
        raise DataError(f"{path} is a folder without files; expected files of text in it")
    return [Input(file) for file in files]


def _expect_path(path: str | Path) -> Path:
    """It as such; a DataError where it is none. An empty one, as shells make of a name that is not set, would be the
    folder that one is in."""
    if not str(path) or "\0" in str(path):
        raise DataError(f"{str(path)!r} names no file; expected the path of one, or of a folder")
    return Path(path)


def dangling(path: "str | Path | Input") -> list[Path]:
    """The links in a folder, and in those in it, that lead nowhere."""
    if isinstance(path, Input) or str(path) == STDIN or not is_folder(Path(path)):
        return []
    return [file for file in _below(Path(path)) if not file.exists()]


def _below(path: Path) -> list[Path]:
    """All that is in a folder and in those in it but folders, in natural order."""

    def refuse(error: OSError) -> None:
        raise DataError(f"{error.filename} cannot be read: {error.strerror}") from error

    found, seen = list[Path](), {os.path.realpath(path)}
    for folder, folders, names in os.walk(path, onerror=refuse, followlinks=True):
        # a folder before the links to it
        below = sorted((Path(folder, it) for it in folders), key=lambda it: (it.is_symlink(), _natural(it.name)))
        folders.clear()
        for it in below:
            if not it.name.startswith(".") and (place := os.path.realpath(it)) not in seen:
                seen.add(place)
                folders.append(it.name)
        found += [Path(folder, name) for name in names if not name.startswith(".")]
    return sorted(found, key=lambda it: [*map(_natural, it.parts)])


def bytes_digest(files: Iterable[Sequence[Input]]) -> str:
    """SHA-256 of the bytes of all files, as they lie there."""
    whole = hashlib.sha256()
    for side in files:
        whole.update(b"side")
        for each in side:
            with each.open() as file:
                whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()


def expect_digest(files: Iterable[Sequence[Input]], digest: str, paths: Iterable[str]) -> None:
    """A DataError that names the `paths` where the files hold other bytes by now than those of an earlier digest."""
    if bytes_digest(files) != digest:
        raise DataError(f"{' and '.join(paths)} changed while being read: other bytes first, then these; read again")


def is_folder(path: Path) -> bool:
    """Whether it is one; what cannot be looked at is none."""
    try:
        return path.is_dir()
    except (OSError, ValueError):  # reading it will say what is wrong
        return False


def _natural(name: str) -> list[tuple[int, str]]:
    """Numbers by their value, the rest by its letters."""
    parts = re.split(r"(\d+)", name)
    return [(int(part), part) if part.isascii() and part.isdigit() else (-1, part) for part in parts]
