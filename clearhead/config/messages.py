"""Print messages to the user on stderr."""

import contextlib
import os
import sys

# A terminal would obey control characters, which names of files and columns may contain.
_ESCAPED = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"}


def printable(text: str) -> str:
    """Escape control characters, except tabs and line breaks, for a terminal."""
    return text.translate(_ESCAPED)


def say(message: str) -> None:
    """Print a message to stderr, with control characters escaped. A closed stderr is not an error."""
    if sys.stderr is not None:  # print(file=None) writes to stdout
        with contextlib.suppress(OSError, ValueError):
            print(printable(message), file=sys.stderr, flush=True)


def say_within_a_handler(message: str) -> None:
    """Write a message to stderr from a signal handler, which may have interrupted a print."""
    with contextlib.suppress(OSError):
        os.write(2, f"{message}\n".encode())
