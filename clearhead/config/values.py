"""Plain values: those of settings, as TOML files and the command line write them, and those that JSON can hold."""

import math
import re
import tomllib
import types
import typing
from pathlib import Path
from typing import Any, Literal, TypeVar

from ..errors import ConfigError, did_you_mean

T = TypeVar("T", int, float)


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file; a file that is absent or no TOML is a ConfigError."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error


def read_duration(text: str) -> float:
    """Seconds of a time as people write it: 90s, 15m, 1h30m, 2h; anything else is a ConfigError."""
    number = r"(\d+(?:\.\d+)?)"
    found = re.fullmatch(rf"(?:{number}h)?(?:{number}m(?:in)?)?(?:{number}s)?", text.replace(" ", ""))
    seconds = sum(float(n or 0) * unit for n, unit in zip(found.groups(), (3600, 60, 1))) if found else 0.0
    if not seconds:
        raise ConfigError(f"{text!r} is no time; expected hours, minutes or seconds, such as 15m, 1h30m or 90s")
    return seconds


def read_value(value: Any, kind: Any, where: str) -> Any:
    """`value` as the type of a setting; strings are parsed, since the command line has nothing else.

    A ConfigError that begins with `where` says what cannot be read so.
    """
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        if value is None or value == "none":
            return None
        kind = next(arm for arm in typing.get_args(kind) if arm is not types.NoneType)
    if typing.get_origin(kind) is Literal:
        choices = typing.get_args(kind)
        if value in choices:
            return value
        named = ", ".join(choice or "'' (nothing)" for choice in choices)
        raise ConfigError(f"{where} = {value!r} is not one of {named}{did_you_mean(str(value), choices)}")
    if typing.get_origin(kind) is tuple:
        items = value.split(",") if isinstance(value, str) else value
        if isinstance(items, list | tuple) and all(isinstance(item, str) for item in items):
            return tuple(items)
    elif kind is bool:
        spoken = {"true": True, "false": False, "yes": True, "no": False, "1": True, "0": False}
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in spoken:
            return spoken[value.lower()]
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
    words = {int: "a whole number", float: "a finite number", bool: "true or false", str: "a text"}
    raise ConfigError(f"{where} = {value!r} is not {words.get(kind, 'a list of texts')}")


def _whole(value: str | float) -> int | None:
    """A whole number however it is written: 300, or 1e5, which is a fine way to write 100000."""
    exact = _parsed(value, int) if isinstance(value, str) else None
    number = _parsed(value, float) if exact is None else None
    return int(number) if number is not None and number.is_integer() else exact


def _parsed(value: str | float, kind: type[T]) -> T | None:
    try:
        return kind(value)
    except ValueError:
        return None


def finite(value: Any) -> Any:
    """The same as every reader of JSON knows it: NaN and infinity are null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value
