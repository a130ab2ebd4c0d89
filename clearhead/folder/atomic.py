"""Files that are whole or not there.

A process may be killed between any two instructions here, and the disk may be full at any of them; what is read
afterwards is the old content or the new, never half of one. What a killed process left behind has a name like
`.model.safetensors.partial` and is removed by the next run.
"""

import errno
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import TrainingError


def write_file(path: Path, data: bytes) -> None:
    """Replace a file by `data` in one step; an OSError leaves the earlier content.

    A link stays, and what it leads to is replaced. What is no regular file (a device, a pipe) cannot be replaced: it
    gets the data.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            file.write(data)
        return
    path = Path(os.path.realpath(path))
    partial = _partial(path)
    with _discarding_on_error(partial):
        _write_synced(partial, data)
        partial.replace(path)
        _sync_folder(path.parent)


def write_files(folder: Path, files: Mapping[str, bytes], *, before_moving: tuple[str, bytes]) -> None:
    """Write all `files` aside, then the one file `before_moving`, then give each of `files` its name."""
    with _discarding_on_error(*(_partial(folder / name) for name in files)):
        for name, data in files.items():
            _write_synced(_partial(folder / name), data)
        write_file(folder / before_moving[0], before_moving[1])
        for name in files:
            _partial(folder / name).replace(folder / name)
        _sync_folder(folder)


def write_folder(target: Path, files: Iterable[tuple[str, bytes]]) -> None:
    """Make a folder of `files` appear in one step; one of the same name is replaced.

    `files` may be a generator, so that only one content at a time is held.
    """
    partial = _partial(target)
    shutil.rmtree(partial, ignore_errors=True)
    with _discarding_on_error(partial):
        partial.mkdir(parents=True)
        for name, data in files:
            _write_synced(partial / name, data)
        _sync_folder(partial)
        replaced = _retire(target) if target.exists() else None
        partial.replace(target)
        _sync_folder(target.parent)
    if replaced is not None:
        shutil.rmtree(replaced, ignore_errors=True)


def remove_folder(path: Path) -> None:
    """Delete a folder such that a half deleted one is never seen under its name."""
    shutil.rmtree(_retire(path), ignore_errors=True)


def remove_partials(folder: Path) -> None:
    """Remove what a killed process left half written in a folder of ours."""
    for path in folder.glob(".*.partial"):
        _discard(path)


@contextmanager
def writing(
    folder: Path, *, again: str = "give the command again, a training with --resume", instead: str = "give another one"
) -> Iterator[None]:
    """Turn an OSError while something in `folder` is written into a TrainingError that says what to do.

    That is, once there is room on the disk, `again`; and where the folder is not to be written to, `instead`.
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
            free = shutil.disk_usage(there).free / 2**20
            advice = f"{free:,.0f} MiB are free: make room and {again}; what was saved before is intact"
        elif isinstance(error, (FileExistsError, NotADirectoryError)):
            advice = f"expected a folder where a file is: move the file or {instead}"
        else:
            advice = f"expected a folder that this user may write to: change its rights or {instead}"
        raise TrainingError(f"cannot write to {folder}: {reason}; {advice}") from error


@contextmanager
def _discarding_on_error(*partials: Path) -> Iterator[None]:
    """Leave nothing half written behind where writing fails, least of all on a full disk."""
    try:
        yield
    except OSError:
        for path in partials:
            with suppress(OSError):
                _discard(path)
        raise


def _discard(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.partial")


def _retire(path: Path) -> Path:
    """Rename a folder to a name that the next run removes, and return that name."""
    retired = path.with_name(f".{path.name}.old.partial")
    shutil.rmtree(retired, ignore_errors=True)
    return path.replace(retired)


def _write_synced(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut, where the system can (Windows cannot open a folder)."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
