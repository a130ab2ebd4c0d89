"""End a process with its parent, so that none continues alone after its parent was killed."""

import os
import signal
import threading
import time

_PAUSE = 0.5  # seconds between looks


def end_with_parent() -> None:
    """Send this process SIGTERM as soon as its parent has ended.

    Linux could send the signal itself, but does so when the parent's thread ends that started this process.
    """
    if os.name != "nt":  # there, a process never gets another parent
        threading.Thread(target=_watch, args=(os.getppid(),), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_PAUSE)
    os.kill(os.getpid(), signal.SIGTERM)
