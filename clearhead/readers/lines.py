"""Read the lines of a file. gzip, xz and UTF-16 are recognised by their first bytes. Lines end at LF or CR LF only."""

import gzip
import io
import lzma
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

from ..config.values import counted
from ..errors import DataError
from ..folder.archive import display_name
from .files import Input

HEAD_LINES = 200  # number of lines used to detect the format of a file
_BLOCK = 1 << 16  # bytes inspected to tell text from binary
_LOOKED_AT, _READINGS = 10_000, 6  # lines that decide on an encoding, and encodings shown
_EXCERPT = 60  # bytes shown in each
_IN_WORDS = 0.3  # maximum share of the bytes beyond ASCII that are next to each other in a language with accents
_TOGETHER = 1 << 20  # bytes read at once by `read_blocks`
MOST_BYTES = 64 << 20  # maximum length of a line
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # of UTF-8
_UTF_16, _UTF_32 = (b"\xff\xfe", b"\xfe\xff"), (b"\xff\xfe\0\0", b"\0\0\xfe\xff")  # their byte order marks
# Encodings of text files that aren't UTF-8, most frequent first; iconv knows these names.
_ENCODINGS = (
    "WINDOWS-1252", "WINDOWS-1251", "GB18030", "SHIFT_JIS", "WINDOWS-1250", "EUC-KR", "BIG5", "KOI8-R", "EUC-JP",
    "WINDOWS-1253", "WINDOWS-1254", "WINDOWS-1256",
)  # fmt: skip
_CONTROLS = re.compile("[\x80-\x9f]")  # control characters that no text needs
_FORMATS = {  # first bytes: (kind of file, advice)
    rb"PK\x03\x04.{26}(mimetypeapplication/vnd.oasis|\[Content_Types\]|_rels/|word/|xl/|ppt/)": (
        "an office document (docx, xlsx, odt ...)", "export it as plain text or CSV"
    ),
    rb"PK\x03\x04.{26}mimetypeapplication/epub": ("an EPUB book", "convert it to plain text"),
    rb"PK[\x03\x05]": ("a zip archive", "unpack it first: unzip FILE"),
    rb"BZh[1-9](1AY&SY|\x17rE8P)": ("packed with bzip2", "unpack it first: bunzip2 FILE"),
    rb"\(\xb5/\xfd": ("packed with zstandard", "unpack it first: unzstd FILE"),
    rb"7z\xbc\xaf\x27": ("a 7z archive", "unpack it first: 7z x FILE"),
    rb"Rar!\x1a": ("a RAR archive", "unpack it first"),
    rb".{257}ustar": ("a tar archive", "unpack it first: tar xf FILE"),
    rb"%PDF-": ("a PDF document", "extract its text first: pdftotext FILE"),
    rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": ("an old office document (doc, xls, ppt)", "export it as plain text or CSV"),
    rb"\{\\rtf": ("an RTF document", "export it as plain text"),
    rb"\x89PNG\r\n\x1a\n": ("a PNG image", ""),
    rb"\xff\xd8\xff": ("a JPEG image", ""),
    rb"GIF8[79]a": ("a GIF image", ""),
    rb"RIFF.{4}WEBP": ("a WebP image", ""),
    rb"RIFF.{4}WAVE|fLaC\0|OggS\0|ID3[\x02-\x04]\0": ("an audio file", ""),
    rb"SQLite format 3\0": ("an SQLite database", "export a table as CSV"),
    rb"PAR1\x15": ("a Parquet file", "read it with pandas or polars, and pass the DataFrame or write CSV"),
    rb"\x93NUMPY": ("a NumPy array", ""),
    rb"\x7fELF": ("a program", ""),
}  # fmt: skip


def read_lines(source: Input | Path) -> Iterator[bytes]:
    """Yield the lines without their ends and without a byte order mark. Raises the errors of `whole_lines`."""
    for number, line in enumerate(whole_lines(source)):
        text = line.removesuffix(b"\n").removesuffix(b"\r")
        yield text if number else text.removeprefix(_BYTE_ORDER_MARK)


def whole_lines(source: Input | Path) -> Iterator[bytes]:
    """Yield the lines with their ends. The first one includes the byte order mark.

    Raises:
        DataError: the file isn't text, can't be read, or has a line of 64 MB or more.
    """
    with _text(source) as file:
        for number, line in enumerate(iter(partial(file.readline, MOST_BYTES), b""), 1):
            if len(line) == MOST_BYTES:
                raise too_long(source, number)
            yield line


def read_head(source: Input | Path) -> list[bytes]:
    """Return the first lines, to detect what the file holds. The last one is cut off if it's very long."""
    found = list[bytes]()
    with _text(source) as file:
        for line in islice(iter(partial(file.readline, MOST_BYTES), b""), HEAD_LINES):
            found.append(line.removesuffix(b"\n").removesuffix(b"\r"))
            if len(line) == MOST_BYTES:
                break
    return [*(line.removeprefix(_BYTE_ORDER_MARK) for line in found[:1]), *found[1:]]


def read_blocks(source: Input | Path) -> Iterator[list[bytes]]:
    """Yield lists of lines with their ends, of about a million bytes each. Lines of running text have no limit."""
    with _text(source) as file:
        lines = file.readlines(_TOGETHER)
        lines[:1] = [line.removeprefix(_BYTE_ORDER_MARK) for line in lines[:1]]
        while lines:
            yield lines
            lines = file.readlines(_TOGETHER)


def read_whole(source: Input | Path) -> bytes:
    """Return the whole file without a byte order mark. Raises the errors of `read_lines`."""
    with _text(source) as file:
        return file.read().removeprefix(_BYTE_ORDER_MARK)


@contextmanager
def _text(source: Input | Path) -> Iterator[io.BufferedIOBase]:
    """Open the decompressed bytes of a text file."""
    source = source if isinstance(source, Input) else Input(source)
    name = source.name
    try:
        with source.open() as raw, io.BufferedReader(cast(io.RawIOBase, _decompressed(raw)), _BLOCK) as file:
            block = file.peek(_BLOCK)
            if block.startswith(_UTF_16) and not block.startswith(_UTF_32):
                file = io.BufferedReader(_AsUtf8(file), _BLOCK)
                block = file.peek(_BLOCK)
            _expect_text(name, block)
            yield file
    except UnicodeDecodeError as error:  # half of a UTF-16 unit; other faults cost only their own line
        raise DataError(f"{name} is damaged or cut off: {error}", expected="complete UTF-16", name=name) from error
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError) as error:
        what = f"{name} is damaged or cut off: it can't be decompressed to its end ({error})"
        raise DataError(what, expected="complete gzip or xz data", name=name) from error


class _AsUtf8(io.RawIOBase):
    """UTF-16 with a byte order mark, read as UTF-8. Half of a surrogate pair becomes bytes that aren't UTF-8."""

    def __init__(self, file: Any) -> None:
        self._text = io.TextIOWrapper(file, "utf-16", errors="surrogatepass", newline="")
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._rest:
            self._rest = self._text.read(_BLOCK).encode("utf-8", "surrogatepass")
        part, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)


def too_long(source: Input | Path, line: int) -> DataError:
    """Return the error for a line that is too long to be a line of text."""
    name = source.name if isinstance(source, Input) else str(source)
    what = f"{name} line {line:,} has more than {MOST_BYTES >> 20} MB"
    fix = "break it into shorter lines, for example with: fold -s -w 10000 FILE"
    return DataError(what, expected=f"lines of at most {MOST_BYTES >> 20} MB", fix=fix, name=name, line=line)


def decode(line: bytes) -> str | None:
    """Return the text of a line, or None if it isn't UTF-8."""
    try:
        return line.decode()
    except UnicodeDecodeError:
        return None


def has_surrogate(text: str) -> bool:
    """Return whether a text has half of a surrogate pair, which UTF-8 can't encode. JSON's escapes can."""
    return not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text)


def undecodable(line: bytes) -> str:
    r"""Decode a line for a message. Bytes that aren't UTF-8 are written as \xe9."""
    return line.decode("utf-8", "backslashreplace")


def shown(text: str, width: int = 80) -> str:
    """Format a text for a message: quoted, clipped, with unprintable characters escaped."""
    text = display_name(text)
    clipped = text if len(text) <= width else text[: width - 1] + "…"
    return '"' + "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in clipped) + '"'


def one_line(text: str) -> str:
    """Replace every line break of a text, including Unicode's, with a space."""
    return " ".join(text.splitlines()) if text.splitlines() != [text] else text


def to_utf8(lines: Iterable[bytes]) -> str:
    """Return advice on how to convert lines to UTF-8, some of which aren't.

    Bytes from 0x80 to 0x9F are letters or punctuation in WINDOWS-1252, and control characters in LATIN1. If there are
    some, and no words beyond ASCII, the encoding is named. Otherwise, the advice shows what the text would be in
    several encodings.
    """
    strange = [line for line in islice(lines, _LOOKED_AT) if decode(line) is None]
    if not strange:
        return ""
    first, rest = strange[0][:_EXCERPT], b"".join(strange)
    readings = dict[str, str]()
    for encoding in _ENCODINGS:
        try:
            text = rest.decode(encoding)
        except UnicodeDecodeError:
            continue
        if not _CONTROLS.search(text):
            readings.setdefault(first.decode(encoding, "replace"), encoding)
    words = sum(map(len, re.findall(rb"[\x80-\xff]{3,}", rest)))  # as in other scripts
    accents = words < _IN_WORDS * len(re.findall(rb"[\x80-\xff]", rest))
    if accents and "WINDOWS-1252" in readings.values() and re.search(rb"[\x80-\x9f]", rest):
        return _converted("WINDOWS-1252") + f" (then it reads {shown(next(iter(readings)))})"
    shows = "".join(f"\n    {encoding:13} {shown(text)}" for text, encoding in islice(readings.items(), _READINGS))
    return f"find out the file's encoding, then {_converted('ENCODING')}" + (
        shows and f"\n  a line of it in each:{shows}"
    )


def _converted(encoding: str) -> str:
    return f"convert it with: iconv -f {encoding} -t UTF-8"


def count_controls(text: str) -> int:
    """Return 1 if a text has control characters from U+0080 to U+009F, which show a wrong conversion, else 0."""
    return int(not text.isascii() and _CONTROLS.search(text) is not None)


def controls_note(count: int, what: str) -> str:
    """Return a note on the number of texts with such characters."""
    return (
        f"{counted(count, what)} with control characters from U+0080 to U+009F: if the text was converted from LATIN1, "
        "convert the original from WINDOWS-1252 instead"
    )


def _decompressed(raw: io.BufferedReader) -> IO[bytes] | io.BufferedIOBase:
    magic = raw.peek(6)
    if magic.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=raw)
    return lzma.LZMAFile(raw) if magic.startswith(b"\xfd7zXZ\0") else raw


def _expect_text(name: str, block: bytes) -> None:
    """Raise a DataError that names the format if a file isn't text."""
    if not block:
        raise DataError(f"{name} is empty", expected="lines of text", name=name)
    if block.startswith(_UTF_32):
        raise _wrong_encoding(name, "UTF-32")
    for pattern, (kind, fix) in _FORMATS.items():
        if re.match(pattern, block[:400], re.DOTALL):
            raise DataError(f"{name} is {kind}", expected="text, plain or packed with gzip or xz", fix=fix, name=name)
    n_nul = block.count(0)
    lines = block.splitlines()
    if n_nul * 100 > len(block) and 2 * sum(b"\0" in line for line in lines) >= len(lines):
        if encoding := _encoding_without_mark(block):
            raise _wrong_encoding(name, encoding)
        raise DataError(
            f"{name} isn't text: {n_nul:,} of its first {len(block):,} bytes are NUL", expected="UTF-8", name=name
        )
    if b"\n" not in block and b"\r" in block.rstrip(b"\r"):
        what, fix = f"{name} has lines that end at CR alone", "convert it with: tr '\\r' '\\n' < FILE > NEW"
        raise DataError(what, expected="lines that end at LF", fix=fix, name=name)


def _wrong_encoding(name: str, encoding: str) -> DataError:
    return DataError(f"{name} is {encoding}", expected="UTF-8", fix=_converted(encoding), name=name, value=encoding)


def _encoding_without_mark(block: bytes) -> str:
    """Return UTF-32 or UTF-16, in which most Latin text has NULs at fixed positions, or "" for anything else."""
    start = block[: len(block) // 4 * 4]
    for encoding, width, ending in (("UTF-32", 4, "LE"), ("UTF-32", 4, "BE"), ("UTF-16", 2, "LE"), ("UTF-16", 2, "BE")):
        if not start:
            return ""
        low = 0 if ending == "LE" else width - 1
        others = b"".join(start[place::width] for place in range(width) if place != low)
        if others.count(0) > 0.9 * len(others) and start[low::width].count(0) < 0.1 * len(start[low::width]):
            return encoding + ending
    return ""
