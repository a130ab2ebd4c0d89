"""Print messages to the user on stderr."""

import contextlib
import os
import sys


def say(message: str) -> None:
    """Print a message to stderr. A closed stderr is not an error."""
    if sys.stderr is not None:  # print(file=None) writes to stdout
        with contextlib.suppress(OSError, ValueError):
            print(message, file=sys.stderr, flush=True)


def say_within_a_handler(message: str) -> None:
    """Write a message to stderr from a signal handler, which may have interrupted a print."""
    with contextlib.suppress(OSError):
        os.write(2, f"{message}\n".encode())
