"""Compile the loops in a process of its own, which `machine_code` starts."""

import hashlib
import os
import shutil
import sys
import time
from contextlib import suppress
from pathlib import Path

from ....errors import TrainingError
from ....folder.atomic import FolderLock, write_file

_LOW = 5  # priority: next to busy processes, it gets a quarter of a core
_UNUSED = 30 * 24 * 3600  # seconds, until a folder is removed


def build(path: Path, other: str) -> None:
    """Compile the loops to a file, if it doesn't exist. If another process does, "wait" until it has, or "yield".

    While they're compiled, there's an empty file with the suffix `.begun`. After that has failed, it has the reason.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        try:
            lock = FolderLock(path.parent, say=lambda _: None)
            break
        except TrainingError:
            if other == "yield":
                return
            time.sleep(0.1)
    begun = path.with_suffix(".begun")
    try:
        if path.exists():
            return
        begun.write_text("")
        if other == "yield" and hasattr(os, "nice"):
            os.nice(_LOW)
        from .compiler import object_code

        code = object_code()

        from .native import check  # only now, since importing the loops marks what's to compile

        check(code)
        write_file(path, hashlib.sha256(code).digest() + code)
        begun.unlink()
        _remove_unused(path.parent)
    except KeyboardInterrupt:
        begun.unlink(missing_ok=True)
        raise
    except Exception as error:
        begun.write_text(f"{type(error).__name__}: {error}", encoding="utf-8", errors="replace")
        raise
    finally:
        lock.release()


def _remove_unused(own: Path) -> None:
    """Remove the machine code of other versions and environments that nothing has used for a month."""
    for folder in own.parent.glob("loops-*"):
        with suppress(OSError):
            if folder != own and time.time() - folder.stat().st_mtime > _UNUSED:
                shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Build the file that's the first argument. The second one is "wait" or "yield"."""
    build(Path(sys.argv[1]), sys.argv[2])
