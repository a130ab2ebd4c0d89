"""One-line progress display for a terminal, rewritten in place. Without a terminal, nothing is shown."""

import contextlib
import os
import sys
import time
from collections.abc import Callable
from typing import Self, TextIO

_CLEAR = "\r\x1b[K"  # go to the start of the line and erase it


class ProgressLine:
    """Show the current step, the progress and the time left: `line(what, done, total)`.

    The line is erased at the end of the `with` block.

    Args:
        stream: where to show it (default: stderr).
    """

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        stream = stream or sys.stderr
        movable = stream is not None and stream.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")
        self._stream, self._clock, self._began = stream if movable else None, clock, clock()

    def __call__(self, what: str, done: int, total: int) -> None:
        """Rewrite the line."""
        self._write(f"{_CLEAR}{done:,} of {total:,}{self._left(done, total)}  {what}")

    def lines(self, done: int, share: float | None) -> None:
        """Rewrite the line with a number of lines done, and the share of the input that they are, if it's known."""
        rest = "" if share is None else f"  {share:.0%}{self._left(share, 1)}"
        self._write(f"{_CLEAR}{done:,} lines{rest}")

    def clear(self) -> None:
        """Erase the line, so that something else can be printed."""
        self._write(_CLEAR)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._write(_CLEAR)

    def _left(self, done: float, total: float) -> str:
        if not done or done == total:
            return ""
        minutes, seconds = divmod(round((self._clock() - self._began) / done * (total - done)), 60)
        hours, minutes = divmod(minutes, 60)
        return f"  {hours}:{minutes:02}:{seconds:02} left" if hours else f"  {minutes}:{seconds:02} left"

    def _write(self, text: str) -> None:
        if self._stream is not None:
            with contextlib.suppress(OSError, ValueError):  # the terminal was closed
                self._stream.write(text)
                self._stream.flush()
