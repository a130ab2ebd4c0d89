"""The errors that Clearhead raises, with their parts as fields.

ClearheadError
├── ConfigError     a setting is unknown, has an invalid value, or contradicts another
├── DataError       a file can't be read, or holds nothing usable
├── ModelError      a model folder, its weights, or the shapes given to a model don't fit
└── TrainingError   training can't start or continue

An error carries its parts as fields, so that a program can act on them. Its text is put together here and nowhere else:

    train.best='bleu' isn't a score for "classify"
      expected: loss, accuracy or macro_f1
      set train.best to one of them
"""

import difflib
from collections.abc import Iterable
from typing import Any, Self, TypeVar

E = TypeVar("E", bound="ClearheadError")


class ClearheadError(Exception):
    """The root of all errors; catch this to catch them all. The command line prints the text and exits with 1 or 2.

    Args:
        what: what is wrong, with the offending name and value; further lines give evidence, such as a line of a file.
        expected: what would have been right, as a noun phrase.
        fix: what to do, as an imperative.
        name: the setting, option, file, part or tensor at fault.
        value: its value.
        line: the line of the file, counted from 1.
    """

    def __init__(
        self,
        what: str,
        *,
        expected: str = "",
        fix: str = "",
        name: str = "",
        value: Any = None,
        line: int | None = None,
    ) -> None:
        super().__init__(what)
        self.what, self.expected, self.fix = what, expected, fix
        self.name, self.value, self.line = name, value, line

    def __str__(self) -> str:
        rows = [self.what, f"expected: {self.expected}" if self.expected else "", self.fix]
        return "\n  ".join(row for row in rows if row)

    def __reduce__(self) -> tuple[Any, ...]:  # keyword arguments survive pickling, between processes
        return _restore, (type(self), self.args, self.__dict__)

    def within(self, place: str) -> Self:
        """Return the same error with `place: ` in front of what is wrong."""
        return _restore(type(self), (f"{place}: {self.what}",), self.__dict__ | {"what": f"{place}: {self.what}"})


class ConfigError(ClearheadError):
    """A setting is unknown, has an invalid value, or contradicts another."""


class DataError(ClearheadError):
    """A file can't be read, or holds nothing usable."""


class ModelError(ClearheadError):
    """A model folder, its weights, or the shapes given to a model don't fit."""


class TrainingError(ClearheadError):
    """Training can't start or continue."""


def _restore(kind: type[E], args: tuple[str, ...], fields: dict[str, Any]) -> E:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(fields)
    return error


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the known word most like `word`, or "" if none is close."""
    return next(iter(difflib.get_close_matches(word, list(known), n=1)), "")


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return `did you mean 'x'?`, the `fix` of an unknown word, or "" if no known word is close."""
    found = nearest(word, known)
    return f"did you mean {found!r}?" if found else ""
