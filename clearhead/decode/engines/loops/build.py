"""Compile the loops in a process of its own: `python -m clearhead.decode.engines.loops.build FILE wait`."""

import os
import sys
import time
from pathlib import Path

from ....errors import TrainingError
from ....folder.lock import FolderLock

_LOW = 5  # priority: next to busy processes, it gets a quarter of a core


def build(path: Path, other: str) -> None:
    """Compile the loops to a file, if it doesn't exist. If another process does, "wait" until it has, or "yield".

    While they're compiled, and after that has failed, there's a file with the suffix `.begun`.
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
    try:
        if path.exists():
            return
        path.with_suffix(".begun").touch()
        if other == "yield" and hasattr(os, "nice"):
            os.nice(_LOW)
        from .compiler import object_code

        new = path.with_suffix(".new")
        new.write_bytes(object_code())

        from .native import check  # only now, since importing the loops marks what's to compile

        check(new)
        new.replace(path)
        path.with_suffix(".begun").unlink()
    finally:
        lock.release()


if __name__ == "__main__":
    build(Path(sys.argv[1]), sys.argv[2])
