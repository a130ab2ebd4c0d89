"""Atomic writes of files and folders, and the lock that gives a folder one writer.

The process can be killed, or the disk can fill up, at any point. Readers always find the complete old or new content.
A killed process can leave files such as `.model.safetensors.partial`, which the next run removes.
"""

import errno
import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from io import BufferedWriter, FileIO
from pathlib import Path
from typing import TypeAlias

from ..errors import TrainingError

Content: TypeAlias = bytes | Callable[[Path], object]  # of a file, or what writes it to a path
BUNDLED = Path(__file__).resolve().parents[1] / "demo/models/demo"  # the model in the package, which stays as it is
_LOCK = ".lock"
# errors from flock (msvcrt on Windows) while another process holds the lock
_BUSY = (errno.EAGAIN, errno.EACCES, errno.EDEADLK)


def cache_folder() -> Path:
    """Return the user's cache folder: $XDG_CACHE_HOME/clearhead, or ~/.cache/clearhead.

    A user without a home folder has none: the path can't be created.
    """
    home = os.path.expanduser("~")  # noqa: PTH111 - unlike pathlib's, it doesn't fail without one
    cache = os.environ.get("XDG_CACHE_HOME") or f"{os.devnull if home == '~' else home}/.cache"
    return Path(cache) / "clearhead"


def write_file(path: Path, data: bytes) -> None:
    """Replace a file atomically. If an OSError occurs, the old content is kept.

    If the path is a symbolic link, the file it points to is replaced. Devices and pipes are written to directly. A pipe
    without a reader is an OSError, because waiting for a reader could take forever.
    """
    if path.exists() and not path.is_file():
        with open(path, "wb", opener=without_waiting) as file:
            file.write(data)
        return
    path = Path(os.path.realpath(path))
    partial = partial_path(path)
    with _discarding_on_error(partial):
        _write_synced(partial, data)
        partial.replace(path)
        _sync_folder(path.parent)


def write_files(folder: Path, files: Mapping[str, bytes], *, before_moving: tuple[str, bytes]) -> None:
    """Replace several files of a folder, each atomically.

    Args:
        folder: the folder of the files.
        files: the contents by file name. They're written under temporary names, and renamed when all are complete.
        before_moving: name and content of a file that's replaced just before the others are renamed.
    """
    with _discarding_on_error(*(partial_path(folder / name) for name in files)):
        for name, data in files.items():
            _write_synced(partial_path(folder / name), data)
        write_file(folder / before_moving[0], before_moving[1])
        move_into_place(folder, files)


def move_into_place(folder: Path, names: Iterable[str]) -> None:
    """Rename files that were written under temporary names."""
    for name in names:
        partial_path(folder / name).replace(folder / name)
    _sync_folder(folder)


def write_folder(target: Path, files: Iterable[tuple[str, Content]]) -> None:
    """Write a folder of `files` that appears in one step, replacing an older folder of the same name.

    `files` can be a generator, so that only one file at a time is in memory, and a function can write a large one.
    """
    partial = partial_path(target)
    shutil.rmtree(partial, ignore_errors=True)
    with _discarding_on_error(partial):
        partial.mkdir(parents=True)
        for name, data in files:
            (partial / name).parent.mkdir(parents=True, exist_ok=True)
            _write_synced(partial / name, data)
        _sync_folder(partial)
        replaced = _retire(target) if target.exists() else None
        partial.replace(target)
        _sync_folder(target.parent)
    if replaced is not None:
        shutil.rmtree(replaced, ignore_errors=True)


def remove_folder(path: Path) -> None:
    """Delete a folder. It's renamed first, so that it disappears in one step."""
    shutil.rmtree(_retire(path), ignore_errors=True)


def remove_partials(folder: Path) -> None:
    """Remove unfinished files that a killed process left in a folder."""
    for path in folder.glob(".*.partial"):
        _discard(path)


@contextmanager
def writing(
    folder: Path,
    *,
    again: str = "run the command again (to continue training, with `resume=True`)",
    instead: str = "choose another one",
) -> Iterator[None]:
    """Turn an OSError while writing to a folder into a TrainingError that says what to do.

    Args:
        folder: the folder being written to.
        again: advice for when the disk has room again.
        instead: advice for when the folder can't be written to.
    """
    if Path(os.path.abspath(folder)).is_relative_to(BUNDLED):  # noqa: PTH100 - resolving links would read the disk
        what, fix = "the model in the package isn't changed", f"copy the folder {BUNDLED}, and use the copy"
        raise TrainingError(what, fix=fix, name="folder", value=folder)
    try:
        yield
    except OSError as error:
        expected, reason = "", error.strerror or str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
            free = shutil.disk_usage(there).free / 2**20
            reason += f" ({free:,.0f} MiB are free)"
            fix = f"make room and {again}; everything saved before is intact"
        elif isinstance(error, FileNotFoundError):
            expected, fix = "a folder that exists", f"create it, or {instead}"
        elif isinstance(error, (FileExistsError, NotADirectoryError)):
            expected, fix = "a folder, not a file", f"move the file, or {instead}"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            expected, fix = "a folder with write permission", f"change its permissions, or {instead}"
        elif error.errno == errno.EFBIG:
            expected, fix = "no limit on the size of files (ulimit -f)", f"raise the limit and {again}"
        else:
            expected, fix = "a folder on a disk that can be written to", f"fix that and {again}, or {instead}"
        raise TrainingError(f"can't write to {folder}: {reason}", expected=expected, fix=fix, value=folder) from error


def save_file(path: Path, data: bytes, again: str = "run the command again") -> None:
    """Write a file that the user named, in a new folder if need be. Raise TrainingError if it can't be written.

    Args:
        path: where to write; an existing file is replaced.
        data: the content.
        again: advice for when the disk has room again.
    """
    with writing(path.parent, again=again):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, data)


@contextmanager
def replacing(paths: Sequence[Path]) -> Iterator[list[BufferedWriter]]:
    """Open files that the user named, to write them bit by bit, in new folders if need be.

    They replace older files when all of them are complete. If an error occurs, nothing changes. Of a symbolic link, the
    file it points to is replaced.

    Raises:
        TrainingError: they can't be written.
    """
    targets = [Path(os.path.realpath(it)) for it in paths]
    partials = [*map(partial_path, targets)]
    with _discarding_on_error(*partials), writing(targets[0].parent):
        with ExitStack() as opened:
            yield [opened.enter_context(_new_file(it)) for it in partials]
        for partial, target in zip(partials, targets):
            partial.replace(target)


def _new_file(path: Path) -> BufferedWriter:
    with writing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("wb")


@contextmanager
def _discarding_on_error(*partials: Path) -> Iterator[None]:
    """Remove partial files if they aren't completed, for example because the disk is full."""
    try:
        yield
    except BaseException:
        for path in partials:
            with suppress(OSError):
                _discard(path)
        raise


def _discard(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def partial_path(path: Path) -> Path:
    """Return the temporary name of a file that is being written."""
    return path.with_name(f".{path.name}.partial")


def _retire(path: Path) -> Path:
    """Rename a folder to a name that `remove_partials` deletes, and return the new path."""
    retired = path.with_name(f".{path.name}.old.partial")
    shutil.rmtree(retired, ignore_errors=True)
    return path.replace(retired)


def without_waiting(path: str, flags: int) -> int:
    """Open a file for `open`. A pipe without another end doesn't block that, as it does by default."""
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    if os.name != "nt":
        os.set_blocking(descriptor, True)  # a slow reader is waited for
    return descriptor


def _write_synced(path: Path, data: Content) -> None:
    if path.exists() and not path.is_file():  # opening a pipe would block
        _discard(path)
    if not isinstance(data, bytes):
        data(path)
    with path.open("wb" if isinstance(data, bytes) else "r+b") as file:  # Windows syncs only what may be written
        if isinstance(data, bytes):
            file.write(data)
            file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut. Does nothing on Windows, which can't open folders."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class FolderLock:
    """Lock on a folder, held from creation until `release` or the end of the process."""

    def __init__(
        self,
        folder: Path,
        *,
        say: Callable[[str], None],
        advice: str = "wait for it, stop it, or choose another folder with `out`",
    ) -> None:
        """Take the lock.

        Args:
            say: receives a warning if the file system doesn't support locks.
            advice: what to do if another run holds the lock.

        Raises:
            TrainingError: another run holds the lock.
            OSError: the folder can't be written to.
        """
        self._path = folder / _LOCK
        self._file = self._path.open("a+b", buffering=0)
        while not self._acquire(folder, say, advice):
            self._file = self._path.open("a+b", buffering=0)
        with suppress(OSError):  # shown in the error message of other processes
            self._file.truncate(0)
            self._file.write(f"process {os.getpid()} on {socket.gethostname()}\n".encode())

    def release(self) -> None:
        """Release the lock and remove its file."""
        try:
            with suppress(OSError):  # Windows can't remove open files; a leftover file is harmless
                self._path.unlink()
        finally:
            self._file.close()

    def _acquire(self, folder: Path, say: Callable[[str], None], advice: str) -> bool:
        """Try to take the lock. Return False if its previous holder removed the file after we opened it."""
        try:
            _lock(self._file)
        except OSError as error:
            if error.errno in _BUSY:
                holder = self._holder()
                self._file.close()
                what = f"{folder} is in use by another run ({holder})"
                raise TrainingError(what, fix=advice, name="folder", value=folder) from error
            say(f"can't lock {folder} ({error.strerror}); make sure that no other run writes to it")
        try:
            ours = os.path.samestat(os.fstat(self._file.fileno()), self._path.stat())
        except FileNotFoundError:
            ours = False
        if not ours:
            self._file.close()
        return ours

    def _holder(self) -> str:
        self._file.seek(0)
        return self._file.read().decode(errors="replace").strip() or "another process"


if sys.platform == "win32":
    import msvcrt

    def _lock(file: FileIO) -> None:
        file.seek(1 << 30)  # far past the text, so that others can read it
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(file: FileIO) -> None:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
