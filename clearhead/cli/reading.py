"""Texts as a command line gives them, and what is said of those that could not be read as they should."""

import os
from typing import TYPE_CHECKING

from ..messages import say
from .lines import Line, line_of

if TYPE_CHECKING:
    from ..answers import Labelled, Reading, Result


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
        say(f"{place} is too long for the model: its last {result.cut:,} tokens are left out; split it")
    if result.unknown:
        from ..text.lines import shown

        words = ", ".join(shown(word) for word in result.unknown)
        say(f"{place} has words that the model does not know: {words}")


def warn_of_bytes(place: str, line: Line) -> None:
    """Say that a line or text was not UTF-8."""
    if line.damaged:
        say(f"{place} is not UTF-8; what could not be read was taken as U+FFFD")
