"""Define and check settings: dataclass fields with help texts, and range checks."""

import typing
from dataclasses import field
from typing import Any, TypeVar

from ..errors import ConfigError
from .values import read_value, spell

T = TypeVar("T")

POSITIVE, NOT_NEGATIVE, FRACTION = "1 or more", "0 or more", "0 or more, and less than 1"


def setting(default: T, help: str) -> T:
    """Return a dataclass field with a help text for `--help` and the documentation."""
    return field(default=default, metadata={"help": help})


def require(holds: bool, name: str, value: Any, expected: str, *, what: str = "is out of range", fix: str = "") -> None:
    """Raise a ConfigError that reads "name=value what" unless `holds` is true."""
    if not holds:
        raise ConfigError(f"{name}={spell(value)} {what}", expected=expected, fix=fix, name=name, value=value)


def check_types(section: Any, name: str) -> None:
    """Raise ConfigError unless every setting of the section `name` has its declared type. Lists become tuples."""
    for key, kind in typing.get_type_hints(type(section)).items():
        value = getattr(section, key)
        if value is not section.__dataclass_fields__[key].default:
            object.__setattr__(section, key, read_value(value, kind, f"{name}.{key}", parse=False))
