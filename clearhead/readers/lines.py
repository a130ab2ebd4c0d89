"""The lines of a file: unpacked where it is gzip or xz, which its first bytes tell; a line ends at LF or CR LF only."""

import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from ..errors import DataError
from .files import Input

LOOK = 200  # lines that tell the form of a file
_BLOCK = 1 << 16  # bytes that tell text from other things
_TOGETHER = 1 << 20  # bytes of lines that are read at once
_MARK = b"\xef\xbb\xbf"  # of bytes in UTF-8
_ARCHIVES = {b"PK\x03\x04": "a zip archive", b"BZh": "bzip2", b"(\xb5/\xfd": "zstandard", b"7z\xbc\xaf": "a 7z archive"}


def read_lines(source: Input | Path) -> Iterator[bytes]:
    """The lines without their ends and without a byte order mark; a DataError where the file is no text to be read."""
    with _text(source) as file:
        for number, line in enumerate(file):
            text = line.removesuffix(b"\n").removesuffix(b"\r")
            yield text if number else text.removeprefix(_MARK)


def read_blocks(source: Input | Path) -> Iterator[list[bytes]]:
    """The lines as they are, about a million bytes of them together, without a byte order mark; errors as above."""
    with _text(source) as file:
        lines = [line.removeprefix(_MARK) if not i else line for i, line in enumerate(file.readlines(_TOGETHER))]
        while lines:
            yield lines
            lines = file.readlines(_TOGETHER)


def read_whole(source: Input | Path) -> bytes:
    """All of a file, its line ends as they are, without a byte order mark; a DataError as with `read_lines`."""
    with _text(source) as file:
        return file.read().removeprefix(_MARK)


@contextmanager
def _text(source: Input | Path) -> Iterator[io.BufferedIOBase]:
    """The unpacked bytes of a file of text."""
    source = source if isinstance(source, Input) else Input(source)
    name = source.name
    try:
        with source.open() as raw, io.BufferedReader(cast(io.RawIOBase, _unpacked(raw)), _BLOCK) as file:
            _refuse_what_is_no_text(name, file.peek(_BLOCK))
            yield file
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError) as error:
        raise DataError(
            f"{name} is damaged or cut off: it cannot be unpacked to its end ({error}); expected whole gzip or xz data"
        ) from error


def decode(line: bytes) -> str | None:
    """The text of a line, or None where it is not UTF-8."""
    try:
        return line.decode()
    except UnicodeDecodeError:
        return None


def undecodable(line: bytes) -> str:
    """A line for a message: what is not UTF-8 is written as \\xe9."""
    return line.decode("utf-8", "backslashreplace")


def shown(text: str, width: int = 80) -> str:
    """A text between quotes as a message can hold it: clipped, and what does not print escaped."""
    clipped = text if len(text) <= width else text[: width - 1] + "…"
    return '"' + "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in clipped) + '"'


def one_line(text: str) -> str:
    """The same with every line break, of Unicode's too, as a space: an answer is one line."""
    return " ".join(text.splitlines()) if text.splitlines() != [text] else text


def _unpacked(raw: io.BufferedReader) -> IO[bytes] | io.BufferedIOBase:
    magic = raw.peek(6)
    if magic.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=raw)
    return lzma.LZMAFile(raw) if magic.startswith(b"\xfd7zXZ\0") else raw


def _refuse_what_is_no_text(name: str, block: bytes) -> None:
    if not block:
        raise DataError(f"{name} is empty; expected lines of text")
    for magic, kind in _ARCHIVES.items():
        if block.startswith(magic):
            raise DataError(f"{name} is {kind}; expected text, plain or packed by gzip or xz; unpack it first")
    if block.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{name} is UTF-16; expected UTF-8; to convert: iconv -f UTF-16 -t UTF-8")
    lines = block.splitlines()
    if block.count(0) * 100 > len(block) and 2 * sum(b"\0" in line for line in lines) >= len(lines):
        raise DataError(
            f"{name} is no text ({block.count(0):,} of its first {len(block):,} bytes are NUL); expected UTF-8"
        )
    if b"\n" not in block and b"\r" in block.rstrip(b"\r"):
        raise DataError(f"the lines of {name} end at CR alone; expected LF; to convert: tr '\\r' '\\n'")
