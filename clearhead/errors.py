"""Every error that Clearhead raises for what a user, a file or a machine can cause.

ClearheadError
├── ConfigError     a setting is unknown, has a wrong value, or contradicts another
├── DataError       a file cannot be read, or holds nothing that can be used
├── ModelError      a model folder, its weights, or the shapes given to a model do not fit
└── TrainingError   training cannot start or go on

A message says what is wrong with its name and value, what was expected, and what to do.
"""


class ClearheadError(Exception):
    """The root: catch this to catch all of them. The command line prints the message and exits with 1."""


class ConfigError(ClearheadError):
    """A setting is unknown, has a wrong value, or contradicts another."""


class DataError(ClearheadError):
    """A file cannot be read, or holds nothing that can be used."""


class ModelError(ClearheadError):
    """A model folder, its weights, or the shapes given to a model do not fit."""


class TrainingError(ClearheadError):
    """Training cannot start or go on."""
