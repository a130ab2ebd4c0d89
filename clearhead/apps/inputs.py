"""Checks on the texts that a caller passes to an app."""

from collections.abc import Iterable, Mapping, Set
from typing import Any

from ..errors import DataError
from ..readers.lines import shown

_WIDTH = 80  # characters of a wrong value in a message


def as_texts(texts: Any, what: str = "text") -> list[str]:
    """Return a collection of texts as a list of plain str.

    Raises:
        DataError: it's a single text, isn't a collection, or holds something else.
    """
    if isinstance(texts, str):  # it would be read as a list of letters
        raise DataError(f"got one {what}, {shown(texts)}", expected=f"a list of {what}s", name=what, value=texts)
    in_order = isinstance(texts, Iterable) and not isinstance(texts, bytes | Mapping | Set)
    if not in_order or len(getattr(texts, "shape", (0,))) != 1:  # a table would give the names of its columns
        raise DataError(f"got {described(texts)}", expected=f"a {what} or a list of {what}s", name=what, value=texts)
    found = list(texts)
    for place, text in enumerate(found):
        if not isinstance(text, str):
            raise DataError(
                f"{what} {place} is {described(text)}", expected="a str", name=f"{what} {place}", value=text
            )
    return [str(text) for text in found]  # a plain str for one of numpy, too


def as_text(text: Any, what: str = "text") -> str:
    """Return a text unchanged.

    Raises:
        DataError: it isn't a str.
    """
    if not isinstance(text, str):
        raise DataError(f"got {described(text)}", expected=f"one {what}, a str", name=what, value=text)
    return text


def described(value: Any) -> str:
    """Return a wrong value, shortened, with its type, for a message."""
    return f"{' '.join(repr(value).split())[:_WIDTH]} ({type(value).__name__})"
