"""Warnings about input texts that a model can't read properly."""

from typing import TYPE_CHECKING

from ..config.messages import say
from .input_lines import Line

if TYPE_CHECKING:
    from ..apps.answerer import FoundAnswer
    from ..apps.answers import Labelled, Reading, Result


def warn(place: str, line: Line, result: "Reading | Result | Labelled | FoundAnswer") -> None:
    """Warn about damaged bytes, excessive length or unknown words in an input text."""
    warn_of_bytes(place, line)
    if result.long and not result.cut:
        say(f"{place} has {result.long:,} tokens, more than any text in training, so the answer may be poor; split it")
    if result.cut:
        tokens = f"{result.cut:,} token{'s' * (result.cut != 1)}"
        say(f"{place} is too long for the model, which ignores the last {tokens}; shorten or split it")
    if result.unknown:
        from ..readers.lines import shown

        say(f"{place} has words that the model doesn't know: {', '.join(map(shown, result.unknown))}")


def warn_of_bytes(place: str, line: Line) -> None:
    """Warn about an input text that isn't UTF-8."""
    if line.damaged:
        say(f"{place} isn't UTF-8; bytes that can't be decoded are read as U+FFFD")
