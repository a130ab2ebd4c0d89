"""End a process with its parent, so that none continues alone after its parent was killed."""

import os
import signal
import threading
import time

_PAUSE = 0.5  # seconds between looks


def end_with_parent(parent: int) -> None:
    """Send this process SIGTERM as soon as its parent has ended, or now if it has.

    `parent` is the id that the parent found for itself: once it has ended, a process has another parent.
    Linux could send the signal itself, but does so when the parent's thread ends that started this process.
    """
    if os.name != "nt":  # there, a process never gets another parent
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_PAUSE)
    os.kill(os.getpid(), signal.SIGTERM)
