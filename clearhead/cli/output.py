"""Output as JSON or in pieces, a progress line for terminals, and argparse types for output files."""

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Self, TextIO

from ..config.values import to_json as to_json
from ..errors import ConfigError

TABLES = (".csv", ".tsv", ".jsonl", ".parquet")  # endings of the tables that are written
PACKED = (".gz", ".xz")  # endings of compressed files, which are only read
_CLEAR = "\r\x1b[K"  # go to the start of the line and erase it


def print_pieces(pieces: Iterable[str]) -> None:
    """Print a line piece by piece, as its text is generated."""
    for piece in pieces:
        print(piece, end="", flush=True)
    print(flush=True)


class ProgressLine:
    """One line that shows the current step, the progress and the time left, on a terminal: `line(what, done, total)`.

    It's rewritten in place, and erased at the end of the `with` block.

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
        """Rewrite the line with the number of lines done, and their share of the input, if known."""
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


def new_file(name: str) -> Path:
    """Check the name of an output file before any work is done (argparse type).

    Raises ArgumentTypeError if it's empty, -, a folder or compressed, the file can't be created, or stdin or stdout is
    redirected to it.
    """
    path = Path(name)
    if not name.strip():
        raise argparse.ArgumentTypeError("the file name is empty; name a file to write")
    if name == "-":
        raise argparse.ArgumentTypeError("- isn't a file; to write a file with this name: ./-")
    if path.suffix.lower() in PACKED:
        what = f"{name} is the name of a compressed file, but it isn't written compressed"
        raise argparse.ArgumentTypeError(f"{what}; leave out {path.suffix}")
    if path.is_dir() or not path.name:
        raise argparse.ArgumentTypeError(f"{name} is a folder; name a file to write")
    above = next(folder for folder in path.absolute().parents if folder.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        what = "no permission to write to" if above.is_dir() else "this isn't a folder:"
        raise argparse.ArgumentTypeError(f"can't write {name}: {what} {above}; choose another folder")
    for stream, what in enumerate(("stdin is read from", "stdout already goes to")):
        with contextlib.suppress(OSError):  # it doesn't exist yet, or the stream is closed
            if path.is_file() and os.path.samestat(path.stat(), os.fstat(stream)):
                raise argparse.ArgumentTypeError(f"{what} {name}; choose another file")
    return path


def expect_new(outputs: Sequence[Path], inputs: Iterable[Path]) -> None:
    """Raise a ConfigError if an output is an input, is in a folder that's read, or is another output."""
    read = [*inputs]
    for place, path in enumerate(outputs):
        for other in (*read, *outputs[:place]):
            if path.resolve().is_relative_to(other.resolve()):
                is_new = other.is_dir() and not path.exists()
                what = f"{path} {f'is in {other}, which is read' if is_new else 'would be overwritten'}"
                raise ConfigError(what, expected="a new file", fix="name another file", name="out", value=str(path))


def new_regular_file(name: str) -> Path:
    """Check the name of an output file that's written bit by bit (argparse type). It can't be a device or a pipe."""
    path = new_file(name)
    if path.exists() and not path.is_file():
        raise argparse.ArgumentTypeError(f"{name} isn't a regular file; name one, or leave the option out")
    return path


def new_file_of(ending: str) -> Callable[[str], Path]:
    """Return an argparse type for an output file with the given extension, such as png."""

    def checked(name: str) -> Path:
        path = new_file(name)
        if path.suffix.lower() != f".{ending}":
            raise argparse.ArgumentTypeError(
                f"{name} doesn't end in .{ending}; add the extension or use another option"
            )
        return path

    return checked
