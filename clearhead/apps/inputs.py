"""Validation of the texts passed to an app."""

from collections.abc import Iterable, Mapping, Set
from typing import Any

from ..errors import DataError
from ..readers.lines import shown

_WIDTH = 80  # maximum number of characters to show of an invalid value


def as_texts(texts: Any, what: str = "text") -> list[str]:
    """Return `texts` as a list of plain str.

    Raises:
        DataError: `texts` is a single str, isn't an ordered collection, or contains anything other than str.
    """
    if isinstance(texts, str):  # iterating over it would give characters
        raise DataError(f"got one {what}, {shown(texts)}", expected=f"a list of {what}s", name=what, value=texts)
    in_order = isinstance(texts, Iterable) and not isinstance(texts, bytes | Mapping | Set)
    if not in_order or len(getattr(texts, "shape", (0,))) != 1:  # a DataFrame would give column names
        raise DataError(
            f"got {describe_value(texts)}", expected=f"a {what} or a list of {what}s", name=what, value=texts
        )
    found = list(texts)
    for place, text in enumerate(found):
        if not isinstance(text, str):
            raise DataError(
                f"{what} {place} is {describe_value(text)}", expected="a str", name=f"{what} {place}", value=text
            )
    return [str(text) for text in found]  # converts numpy's strings to plain str


def as_text(text: Any, what: str = "text") -> str:
    """Return `text` unchanged.

    Raises:
        DataError: `text` isn't a str.
    """
    if not isinstance(text, str):
        raise DataError(f"got {describe_value(text)}", expected=f"one {what}, a str", name=what, value=text)
    return text


def describe_value(value: Any) -> str:
    """Describe an invalid value for an error message: its repr, truncated, and its type."""
    return f"{' '.join(repr(value).split())[:_WIDTH]} ({type(value).__name__})"
