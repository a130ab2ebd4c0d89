"""Every error that Clearhead raises for what a user, a file or a machine can cause.

ClearheadError
├── ConfigError     a setting is unknown, has a wrong value, or contradicts another
├── DataError       a file cannot be read, or holds nothing that can be used
├── ModelError      a model folder, its weights, or the shapes given to a model do not fit
└── TrainingError   training cannot start or go on

A message says what is wrong with its name and value, what was expected, and what to do.
"""

import difflib
from collections.abc import Iterable


class ClearheadError(Exception):
    """The root: catch this to catch all of them. The command line prints the message, and exits with 1, or 2 where it
    was used wrongly."""


class ConfigError(ClearheadError):
    """A setting is unknown, has a wrong value, or contradicts another."""


class DataError(ClearheadError):
    """A file cannot be read, or holds nothing that can be used."""


class ModelError(ClearheadError):
    """A model folder, its weights, or the shapes given to a model do not fit."""


class TrainingError(ClearheadError):
    """Training cannot start or go on."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the nearest known word, or nothing where none is near."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
