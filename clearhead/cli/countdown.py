"""How far a long job is: one line of a terminal that is written over again. Elsewhere nothing is said."""

import contextlib
import os
import sys
import time
from collections.abc import Callable
from typing import Self, TextIO

_CLEAR = "\r\x1b[K"  # to the start of the line, and away with what stands there


class Countdown:
    """`countdown(what, done, total)` says what comes next, how much is done, and how long the rest will take.

    Nothing of it is left on the terminal at the end of `with`.
    """

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """On `stream`, stderr unless told."""
        stream = stream or sys.stderr
        movable = stream is not None and stream.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")
        self._stream, self._clock, self._begun = stream if movable else None, clock, clock()

    def __call__(self, what: str, done: int, total: int) -> None:
        """Write the line anew; nothing is known of the time left before something is done."""
        self._write(f"{_CLEAR}{done:,} of {total:,}{self._left(done, total)}  {what}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._write(_CLEAR)

    def _left(self, done: int, total: int) -> str:
        if not done or done == total:
            return ""
        minutes, seconds = divmod(round((self._clock() - self._begun) / done * (total - done)), 60)
        hours, minutes = divmod(minutes, 60)
        return f"  {hours}:{minutes:02}:{seconds:02} left" if hours else f"  {minutes}:{seconds:02} left"

    def _write(self, text: str) -> None:
        if self._stream is not None:
            with contextlib.suppress(OSError, ValueError):  # nobody reads it any more; it was closed
                self._stream.write(text)
                self._stream.flush()
