"""Parse and format values: settings from TOML files and the command line, and numbers for JSON."""

import math
import re
import types
import typing
from pathlib import Path
from typing import Any, Literal, TypeVar

from ..errors import ConfigError, suggestion

T = TypeVar("T", int, float)


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file. Raise ConfigError if it can't be read or isn't valid."""
    import tomllib  # imported by few commands

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"can't read the configuration {path}: {error.strerror}", expected="a TOML file", name=str(path)
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} isn't valid TOML: {error}", name=str(path)) from error


def read_duration(text: str, name: str = "") -> float:
    """Convert a duration such as 90s, 15m, 1h30m or 2h to seconds. Error messages name the setting `name`."""
    number = r"(\d+(?:\.\d+)?)"
    found = re.fullmatch(rf"(?:{number}h)?(?:{number}m(?:in)?)?(?:{number}s)?", text.replace(" ", ""))
    seconds = sum(float(n or 0) * unit for n, unit in zip(found.groups(), (3600, 60, 1))) if found else 0.0
    if not seconds:
        what = f"{name}={text!r}" if name else repr(text)
        expected = "hours, minutes or seconds, such as 15m, 1h30m or 90s"
        raise ConfigError(f"{what} isn't a duration", expected=expected, name=name, value=text)
    return seconds


def read_size(text: str, name: str = "") -> int:
    """Convert a size such as 500MB, 4GB or 1.5GiB to bytes. Error messages name the setting `name`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([MG])(i?)B", text.replace(" ", ""))
    if not found:
        what, expected = f"{name}={text!r}" if name else repr(text), "a number of MB or GB, such as 500MB or 4GB"
        raise ConfigError(f"{what} isn't a size", expected=expected, name=name, value=text)
    number, unit, binary = found.groups()
    return int(float(number) * (1024 if binary else 1000) ** {"M": 2, "G": 3}[unit])


def spell(value: Any) -> str:
    """Format a setting's value for a message: true, none, 0.1, 'text' or a.en b.fr."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return " ".join(map(str, value)) or "none"
    return repr(value)


def read_value(value: Any, kind: Any, name: str, *, source: str = "") -> Any:
    """Convert `value` to `kind`, the type of the setting `name`. Strings are parsed as on the command line.

    Error messages start with `source`, where the value comes from, if given.
    """
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        if value is None or value == "none":
            return None
        kind = next(arm for arm in typing.get_args(kind) if arm is not types.NoneType)
    if typing.get_origin(kind) is Literal:
        choices = typing.get_args(kind)
        if value in choices:
            return value
        expected = f"one of {', '.join(choice or repr(choice) for choice in choices)}"
        raise _mismatch(source, name, value, expected, fix=suggestion(str(value), choices))
    if typing.get_origin(kind) is tuple:
        items = value.split(",") if isinstance(value, str) else value
        if isinstance(items, list | tuple) and all(isinstance(item, str) for item in items):
            return tuple(items)
    elif kind is bool:
        spellings = {"true": True, "false": False, "yes": True, "no": False, "1": True, "0": False}
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in spellings:
            return spellings[value.lower()]
    elif kind is float and type(value) in (int, float):
        if math.isfinite(value):
            return float(value)
    elif isinstance(value, kind) and not isinstance(value, bool):
        return value
    elif kind in (int, float) and type(value) in (str, float):
        if kind is int and (whole := _whole(value)) is not None:
            return whole
        if kind is float and (number := _parsed(value, float)) is not None and math.isfinite(number):
            return number
    words = {int: "a whole number", float: "a finite number", bool: "true or false", str: "a string"}
    raise _mismatch(source, name, value, words.get(kind, "a list of strings"))


def _mismatch(source: str, name: str, value: Any, expected: str, fix: str = "") -> ConfigError:
    shown = repr(value) if isinstance(value, list | tuple) else spell(value)
    return within(source, ConfigError(f"{name}={shown} isn't {expected}", fix=fix, name=name, value=value))


def within(source: str, error: ConfigError) -> ConfigError:
    """Return the error with `source`, if given, in front of its message."""
    return error.within(source) if source else error


def _whole(value: str | float) -> int | None:
    """Parse a whole number, including notation such as 1e5. Return None if it isn't one."""
    exact = _parsed(value, int) if isinstance(value, str) else None
    number = _parsed(value, float) if exact is None else None
    return int(number) if number is not None and number.is_integer() else exact


def _parsed(value: str | float, kind: type[T]) -> T | None:
    try:
        return kind(value)
    except ValueError:
        return None


def finite(value: Any) -> Any:
    """Replace NaN and infinity, which JSON can't represent, with None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value
