"""Texts as a command line gives them, and what is said of those that could not be read as they should."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ..config.messages import say
from ..errors import DataError
from .stdin import Line, line_of

if TYPE_CHECKING:
    from ..apps.answers import Labelled, Reading, Result


def text_of(argument: str, number: int = 1) -> Line:
    """A text of the command line as a line: its bytes that are no UTF-8 are treated as those of a file."""
    return line_of(number, os.fsencode(argument))


def warn(place: str, line: Line, result: "Reading | Result | Labelled") -> None:
    """Say what of a line or text could not be read as it should; blank ones have nothing to be said."""
    warn_of_bytes(place, line)
    if result.long and not result.cut:
        say(
            f"{place} has {result.long:,} tokens, more than any sentence in training: expect a poor answer, or split it"
        )
    if result.cut:
        say(f"{place} is too long for the model: its last {result.cut:,} tokens are left out; shorten or split it")
    if result.unknown:
        from ..readers.lines import shown

        words = ", ".join(shown(word) for word in result.unknown)
        say(f"{place} has words that the model does not know: {words}")


def warn_of_bytes(place: str, line: Line) -> None:
    """Say that a line or text was not UTF-8."""
    if line.damaged:
        say(f"{place} is not UTF-8; what could not be read was taken as U+FFFD")


def whole_text(name: str) -> str:
    """All of a file, or of standard input; a DataError where that is no text."""
    from ..readers.files import STDIN, Input
    from ..readers.lines import read_whole

    source = Input(name if name == STDIN else Path(name))
    try:
        content = read_whole(source)
    finally:
        source.close()
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{source.name} is not UTF-8 (line {line:,}, byte {error.start:,}); to convert: iconv -f LATIN1 -t UTF-8"
        ) from error
