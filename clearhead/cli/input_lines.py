"""Read input texts from standard input, the command line or files, and warn of what a model can't read properly.

Also the lines of output that answer them, and chunks of lines for a worker.
"""

import os
import re
import select
import shlex
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ..config.messages import say
from ..errors import DataError
from .output import TABLES
from .parser import UsageError

if TYPE_CHECKING:
    from ..apps.answerer import FoundAnswer
    from ..apps.answers import Reading, Result
    from ..tasks.classify.records import ClassRecord
    from ..tasks.fill.fillings import Filled

    Problems: TypeAlias = Reading | Result | ClassRecord | FoundAnswer | Filled

STDIN = "-"
_BLOCK = 1 << 18  # bytes per read; a pipe gives at most 64 KiB
LONGEST = 64 << 20  # maximum bytes of a line, as of a data file
_MOST = 2000  # lines per group
_POSITION = 0.04  # seconds of audio
_FILE_NAME = re.compile(
    r"\S+\.(txt|text|md|rst|tex|csv|tsv|jsonl?|parquet|xml|html?|pdf|docx?|odt|rtf|log|gz|bz2|xz|zip)", re.I
)
_TABLE_NAME = re.compile(rf".+({'|'.join(map(re.escape, (*TABLES, '.ndjson')))})(\.gz|\.xz)?", re.I)


@dataclass(frozen=True)
class Line:
    """One line of input, numbered from 1.

    Attributes:
        damaged: True if the line wasn't valid UTF-8. Bytes that couldn't be decoded became U+FFFD.
    """

    number: int
    text: str
    damaged: bool = False


Place: TypeAlias = tuple[str, Line]  # the location of a text, for messages, and the text


@dataclass(frozen=True)
class Printed:
    """The line of output for one line of input, `notes` for stderr, and whether it `failed`: it contains no answer.

    An answer that the model isn't confident of can be `rejected`. For a row of a table, `cells` are the values of its
    new columns.
    """

    text: str
    notes: tuple[str, ...] = ()
    failed: bool = False
    cells: tuple[Any, ...] = ()
    rejected: bool = False


Answer: TypeAlias = Callable[[Sequence[Place]], list[Printed]]


@dataclass(frozen=True)
class Chunk:
    """Lines that are answered together, their indices in their group, and how many workers they have killed."""

    places: Sequence[Place]
    rows: Sequence[int]
    group: Any
    deaths: int = 0

    def halves(self) -> "list[Chunk]":
        """Return the lines as two chunks, or as one if there's a single line, after another death."""
        middle = (len(self.rows) + 1) // 2
        parts = [part for part in (slice(None, middle), slice(middle, None)) if self.rows[part]]
        return [Chunk(self.places[part], self.rows[part], self.group, self.deaths + 1) for part in parts]


def standard_input(verb: str, what: str) -> Iterator[list[Line]]:
    """Yield the lines of standard input in groups, as they arrive. Raise UsageError if it's closed.

    `what` is a noun phrase for a line, such as "a sentence".
    """
    if sys.stdin is None:
        raise UsageError("standard input is closed", fix=f"name {what} on the command line: clearhead {verb} DIR ...")
    if sys.stdin.isatty():
        say(f"type {what} per line; end with Ctrl-D")
    descriptor = sys.stdin.fileno()
    # What a pipe gave in one read is one group, because the program at its other end may wait for all the answers.
    yield from read_groups(descriptor, most=_MOST if stat.S_ISREG(os.fstat(descriptor).st_mode) else _BLOCK)


def reads_stdin(texts: Sequence[str], n_inputs: int | None = None) -> bool:
    """Return whether the input is the lines of standard input: no input is given, or only `-`.

    There are `n_inputs`, if some aren't texts. Raises UsageError if `-` is one of several.
    """
    count = len(texts) if n_inputs is None else n_inputs
    if STDIN in texts and count > 1:
        raise UsageError("- means standard input and can't be one of several texts", fix="use - alone")
    return not count or STDIN in texts


def input_groups(texts: Sequence[str], verb: str, what: str, *, noun: str = "text") -> Iterator[list[Place]]:
    """Yield groups of texts from the command line, or else of lines from standard input, with their locations.

    Args:
        noun: what a text is called in its location, or "" if the location is the text itself, the name of a file.
    """
    piped = reads_stdin(texts)
    typed = [text_of(text, number) for number, text in enumerate(texts, 1)]
    for group in standard_input(verb, what) if piped else [typed]:
        kind = "line" if piped else noun
        yield [(f"{kind} {line.number:,}" if noun else line.text, line) for line in group]


def read_groups(descriptor: int, *, most: int = _MOST) -> Iterator[list[Line]]:
    """Yield the lines of a file descriptor in groups of at most `most`.

    Each group contains the lines that have arrived so far. A program that sends a single line gets its answer at once,
    and many lines are answered as a batch. Lines end with LF or CR LF.
    """
    number, parts, size = 0, [b""], 0  # pieces of an unfinished line, and its bytes
    while block := _read(descriptor):
        parts.append(block)
        size += len(block)
        if b"\n" not in block:
            if size > LONGEST:
                raise too_long(number + 1)
            continue
        *lines, rest = b"".join(parts).split(b"\n")
        parts, size = [rest], len(rest)
        for start in range(0, len(lines), most):
            group = [line_of(number + i, line) for i, line in enumerate(lines[start : start + most], 1)]
            number += len(group)
            yield group
    if rest := b"".join(parts):
        yield [line_of(number + 1, rest)]


def too_long(number: int) -> DataError:
    """Return the error for a line of standard input with more than `LONGEST` bytes."""
    from ..readers.files import Input
    from ..readers.lines import too_long

    return too_long(Input(STDIN), number)


def line_of(number: int, data: bytes) -> Line:
    """Decode a line without its final CR. On the first line, also remove a byte order mark."""
    data = data.removesuffix(b"\r")
    if number == 1:
        data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        return Line(number, data.decode())
    except UnicodeDecodeError:
        return Line(number, data.decode(errors="replace"), damaged=True)


def text_of(argument: str, number: int = 1) -> Line:
    """Decode a command-line argument like a line of a file."""
    return line_of(number, os.fsencode(argument))


def whole_file(name: str) -> tuple[str, Line]:
    """Read a file or standard input as one text. Return its name and content."""
    from ..readers.files import Input
    from ..readers.lines import read_whole

    with closing(Input(name)) as file:
        return file.name, line_of(1, read_whole(file))


def whole_text(name: str) -> str:
    """Return the content of a file or of standard input. Raise DataError if the content isn't UTF-8."""
    from ..readers.files import Input
    from ..readers.lines import read_whole, to_utf8

    with closing(Input(name if name == STDIN else Path(name))) as source:
        content = read_whole(source)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        what = f"{source.name} isn't UTF-8 (byte {error.start:,})"
        raise DataError(what, fix=to_utf8(content.split(b"\n")), name=str(source.name), line=line) from error


def _read(descriptor: int) -> bytes:
    try:
        try:
            return os.read(descriptor, _BLOCK)
        except BlockingIOError:  # the caller opened the descriptor in non-blocking mode
            select.select([descriptor], [], [])
            return os.read(descriptor, _BLOCK)
    except OSError as error:
        raise DataError(f"can't read standard input: {error.strerror}", expected="lines of text", name=STDIN) from error


# --- warnings


def warn(place: Place, result: "Problems") -> None:
    """Warn about damaged bytes, excessive length or unknown words in an input text."""
    for warning in warnings_of(place, result):
        say(warning)


def warnings_of(place: Place, result: "Problems") -> tuple[str, ...]:
    """Return warnings about damaged bytes, excessive length or unknown words in an input text."""
    where, line = place
    found = [_damaged(where)] if line.damaged else []
    if result.long and not result.cut:
        tokens = f"{result.long:,} tokens"
        found.append(f"{where} has {tokens}, more than any text in training, so the answer may be poor; split it")
    if result.cut:
        tokens = f"{result.cut:,} token{'s' * (result.cut != 1)}"
        found.append(f"{where} is too long for the model, which ignores the last {tokens}; shorten or split it")
    if result.unknown:
        from ..readers.lines import shown

        found.append(f"{where} has words that the model doesn't know: {', '.join(map(shown, result.unknown))}")
    return tuple(found)


def warnings_of_cut(name: str, result: "Reading | Result | ClassRecord") -> tuple[str, ...]:
    """Return a warning about a recording that is too long, or nothing."""
    if not result.cut:
        return ()
    seconds = f"{result.cut * _POSITION:.1f} seconds"
    return (f"{name} is too long for the model, which ignores the last {seconds}; split it",)


def warn_of_bytes(place: str, line: Line) -> None:
    """Warn about an input text that isn't UTF-8."""
    if line.damaged:
        say(_damaged(place))


def _damaged(place: str) -> str:
    return f"{place} isn't UTF-8; bytes that can't be decoded are read as U+FFFD"


def warn_of_file_names(texts: Sequence[str], option: str) -> None:
    """Warn about texts that seem to be names of files, and suggest the option that reads them.

    `option` reads text files. Tables are read by `--data`.
    """
    from ..readers.media.media_files import PLURAL, modality_by_name

    for number, text in enumerate(texts, 1):
        is_file = os.path.isfile(text)  # noqa: PTH113 - Path.is_file raises an error for a long text
        if is_file or _FILE_NAME.fullmatch(text):
            kind = modality_by_name(text) if is_file else None
            how = f"to read the file: {'--data' if _TABLE_NAME.fullmatch(text) else option} {shlex.quote(text)}"
            how = f"this model doesn't read {PLURAL[kind]}" if kind else how
            say(f"text {number:,}, {text}, looks like a file name but is read as a text; {how}")
