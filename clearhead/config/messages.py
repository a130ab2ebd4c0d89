"""What a person is told beside the results, on stderr."""

import contextlib
import os
import sys


def say(message: str) -> None:
    """Tell the user something; that nobody can hear it, since stderr is closed, is no reason to stop."""
    if sys.stderr is not None:  # print would take None for stdout
        with contextlib.suppress(OSError, ValueError):  # nobody reads it any more; it was closed
            print(message, file=sys.stderr, flush=True)


def say_within_a_handler(message: str) -> None:
    """The same where a signal arrived: not by print, which it may have interrupted."""
    with contextlib.suppress(OSError):
        os.write(2, f"{message}\n".encode())
