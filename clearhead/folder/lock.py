"""Folder lock that allows one writer. The operating system releases it when the process ends for any reason."""

import errno
import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from io import FileIO
from pathlib import Path

from ..errors import TrainingError

_NAME = ".lock"
# errors from flock (msvcrt on Windows) while another process holds the lock
_BUSY = (errno.EAGAIN, errno.EACCES, errno.EDEADLK)


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
        self._path = folder / _NAME
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
