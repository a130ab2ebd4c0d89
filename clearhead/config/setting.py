"""Define and check settings: dataclass fields with help texts, and range checks."""

from dataclasses import field
from typing import Any, TypeVar

from ..errors import ConfigError
from .values import spell

T = TypeVar("T")

POSITIVE, NOT_NEGATIVE, FRACTION = "1 or more", "0 or more", "0 or more, and less than 1"


def setting(default: T, help: str) -> T:
    """Return a dataclass field with a help text for `--help` and the documentation."""
    return field(default=default, metadata={"help": help})


def require(holds: bool, name: str, value: Any, expected: str, *, what: str = "is out of range", fix: str = "") -> None:
    """Raise a ConfigError that reads "name=value what" unless `holds` is true."""
    if not holds:
        raise ConfigError(f"{name}={spell(value)} {what}", expected=expected, fix=fix, name=name, value=value)
