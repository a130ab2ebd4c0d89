"""Exceptions that Clearhead raises.

ClearheadError
├── ConfigError     a setting is unknown, has an invalid value, or contradicts another
├── DataError       a file can't be read, or contains no usable data
├── ModelError      a model folder can't be used, or weights or shapes don't fit the model
└── TrainingError   training can't start or continue

The parts of an error are fields, so that programs can act on them. Its message combines them:

    train.best='bleu' isn't a score for "classify"
      expected: loss, accuracy or macro_f1
      set train.best to one of them
"""

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any, Self, TypeVar

E = TypeVar("E", bound="ClearheadError")

_LONG_WORD = re.compile(r"(\S{200})\S{100,}(\S{20})")  # a value that nobody wants to read in full


class ClearheadError(Exception):
    """Base class of all Clearhead errors. The command line prints the message and exits with code 1 or 2.

    Args:
        what: what is wrong, with the offending name and value. More lines can give evidence, such as a line of a file.
        expected: what would be valid, as a noun phrase.
        fix: what to do, as an imperative.
        name: the setting, option, file, component or tensor at fault.
        value: its value.
        line: the line number in the file, starting at 1.
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
        return _LONG_WORD.sub(r"\1…\2", "\n  ".join(row for row in rows if row))

    def __reduce__(self) -> tuple[Any, ...]:  # keyword arguments survive pickling, between processes
        return _restore, (type(self), self.args, self.__dict__)

    def within(self, place: str) -> Self:
        """Return a copy of the error whose message starts with `place`."""
        return _restore(type(self), (f"{place}: {self.what}",), self.__dict__ | {"what": f"{place}: {self.what}"})


class ConfigError(ClearheadError):
    """A setting is unknown, has an invalid value, or contradicts another."""


class DataError(ClearheadError):
    """A file can't be read, or contains no usable data."""


class ModelError(ClearheadError):
    """A model folder can't be used, or weights or shapes don't fit the model."""


class TrainingError(ClearheadError):
    """Training can't start or continue."""


def _restore(kind: type[E], args: tuple[str, ...], fields: dict[str, Any]) -> E:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(fields)
    return error


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the known word closest to `word`, or "" if none is close."""
    return next(iter(difflib.get_close_matches(word, list(known), n=1)), "")


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return "did you mean 'x'?" for the known word closest to `word`, or "" if none is close."""
    found = nearest(word, known)
    return f"did you mean {found!r}?" if found else ""


def unknown(
    what: str, value: Any, known: Iterable[str], name: str, kind: type[ClearheadError] = ConfigError
) -> ClearheadError:
    """Return the error for a value that isn't one of the known ones. It lists them, and suggests the closest.

    Args:
        what: the message's first sentence, which says what's wrong.
        value: the rejected value.
        known: the allowed values.
        name: the setting or argument that has the value.
        kind: the class of the error.
    """
    names = list(known)
    expected = "one of " * (len(names) > 1) + ", ".join(names)
    return kind(what, expected=expected, fix=suggestion(str(value), names), name=name, value=value)


def shortened(names: Sequence[str], most: int = 5) -> str:
    """Return the first names for a message, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def beyond_vocabulary(token: int, size: int) -> ModelError:
    """Return the error for a token id that a model has no embedding of."""
    what, fix = f"token {token} is beyond the vocabulary of {size}", "encode the text with this model's tokenizer"
    return ModelError(what, expected=f"token ids from 0 to {size - 1}", fix=fix, name="tokens", value=token)


def is_out_of_memory(error: BaseException) -> bool:
    """Recognise MemoryError, the RuntimeError that torch raises, and the ImportError of a library without room."""
    text = str(error).lower()
    words = ("out of memory", "allocate memory", "not enough memory", "failed to map segment")
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError | ImportError) and any(word in text for word in words)
    )
