"""Lines of a stream in groups: all that has arrived, be it one line of a dialogue or a thousand of a file."""

import os
import select
from collections.abc import Iterator
from dataclasses import dataclass

from ..errors import DataError

_BLOCK = 1 << 16  # bytes a read: what a pipe holds
_MOST = 1000  # lines a group


@dataclass(frozen=True)
class Line:
    """One line of the input, from 1. `damaged`: it was not UTF-8, and what could not be read became U+FFFD."""

    number: int
    text: str
    damaged: bool = False


def read_groups(descriptor: int, *, most: int = _MOST) -> Iterator[list[Line]]:
    """The lines of a file descriptor, at most `most` together, read only when all before them have been taken.

    A read gives what has arrived and waits only where nothing has, so that a program which writes one line and waits
    for its answer gets it, and one that writes many is served many at a time. A line ends at LF or CR LF only.
    """
    number, parts = 0, [b""]  # of a line whose end has not arrived
    while block := _read(descriptor):
        parts.append(block)
        if b"\n" not in block:
            continue
        *lines, rest = b"".join(parts).split(b"\n")
        parts = [rest]
        for start in range(0, len(lines), most):
            group = [line_of(number + i, line) for i, line in enumerate(lines[start : start + most], 1)]
            number += len(group)
            yield group
    if rest := b"".join(parts):
        yield [line_of(number + 1, rest)]


def line_of(number: int, data: bytes) -> Line:
    """A line from its bytes, without CR at its end and without a byte order mark at the start of the first."""
    data = data.removesuffix(b"\r")
    if number == 1:
        data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        return Line(number, data.decode())
    except UnicodeDecodeError:
        return Line(number, data.decode(errors="replace"), damaged=True)


def _read(descriptor: int) -> bytes:
    try:
        try:
            return os.read(descriptor, _BLOCK)
        except BlockingIOError:  # the descriptor came to us in a mode in which reading does not wait
            select.select([descriptor], [], [])
            return os.read(descriptor, _BLOCK)
    except OSError as error:
        raise DataError(f"standard input cannot be read: {error.strerror}; expected lines of text") from error
