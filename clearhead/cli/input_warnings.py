"""Warnings about input texts that a model can't read properly."""

import os
import re
import shlex
from typing import TYPE_CHECKING

from ..config.messages import say
from .input_lines import Line
from .output import TABLES

_POSITION = 0.04  # seconds of audio

if TYPE_CHECKING:
    from ..apps.answerer import FoundAnswer
    from ..apps.answers import Reading, Result
    from ..tasks.classify.records import ClassRecord
    from ..tasks.fill.fillings import Filled

_FILE_NAME = re.compile(
    r"\S+\.(txt|text|md|rst|tex|csv|tsv|jsonl?|parquet|xml|html?|pdf|docx?|odt|rtf|log|gz|bz2|xz|zip)", re.I
)
_TABLE_NAME = re.compile(rf".+({'|'.join(map(re.escape, (*TABLES, '.ndjson')))})(\.gz|\.xz)?", re.I)


def warn(place: str, line: Line, result: "Reading | Result | ClassRecord | FoundAnswer | Filled") -> None:
    """Warn about damaged bytes, excessive length or unknown words in an input text."""
    for warning in warnings_of(place, line, result):
        say(warning)


def warnings_of(
    place: str, line: Line, result: "Reading | Result | ClassRecord | FoundAnswer | Filled"
) -> tuple[str, ...]:
    """Return warnings about damaged bytes, excessive length or unknown words in an input text."""
    found = [_damaged(place)] if line.damaged else []
    if result.long and not result.cut:
        tokens = f"{result.long:,} tokens"
        found.append(f"{place} has {tokens}, more than any text in training, so the answer may be poor; split it")
    if result.cut:
        tokens = f"{result.cut:,} token{'s' * (result.cut != 1)}"
        found.append(f"{place} is too long for the model, which ignores the last {tokens}; shorten or split it")
    if result.unknown:
        from ..readers.lines import shown

        found.append(f"{place} has words that the model doesn't know: {', '.join(map(shown, result.unknown))}")
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


def warn_of_file_name(place: str, text: str, option: str) -> None:
    """Warn about a text that seems to be the name of a file, and suggest the option that reads it.

    `option` reads text files. Tables are read by `--data`.
    """
    from ..readers.media.media_files import PLURAL, modality_by_name

    is_file = os.path.isfile(text)  # noqa: PTH113 - Path.is_file raises an error for a long text
    kind = modality_by_name(text) if is_file else None
    option = "--data" if _TABLE_NAME.fullmatch(text) else option
    if is_file or _FILE_NAME.fullmatch(text):
        how = f"this model doesn't read {PLURAL[kind]}" if kind else f"to read the file: {option} {shlex.quote(text)}"
        say(f"{place}, {text}, looks like a file name but is read as a text; {how}")
