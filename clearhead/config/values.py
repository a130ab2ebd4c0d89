"""Define settings, check, parse and format their values, and format numbers for JSON."""

import contextlib
import json
import math
import numbers
import re
import types
import typing
from dataclasses import field
from pathlib import Path
from typing import Any, Literal, TypeGuard, TypeVar

from ..errors import ConfigError, suggestion

T = TypeVar("T")

POSITIVE, NOT_NEGATIVE, FRACTION = "1 or more", "0 or more", "0 or more, and less than 1"
_LARGEST_TOML = 1_000_000  # bytes
RECIPES = Path(__file__).parents[1] / "recipes"
_MOST_BITS = 4000  # of a number in a message; Python rejects very long ones


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file, or the recipe of this name, such as "tatoeba-15m".

    Raises:
        ConfigError: it can't be read or isn't valid.
    """
    import tomllib  # imported by few commands

    recipe = RECIPES / f"{path}.toml"
    if path.name == str(path) and not path.exists() and recipe.is_file():
        path = recipe

    def unusable(what: str, expected: str) -> ConfigError:
        return ConfigError(what, expected=expected, name=str(path))

    try:
        if path.exists() and (not path.is_file() or path.stat().st_size > _LARGEST_TOML):
            kind = "too large" if path.is_file() else "a folder" if path.is_dir() else "not a regular file"
            raise unusable(f"{path} is {kind}", "a TOML file of at most 1 MB")
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise unusable(f"{path} has too many nested values", "tables of settings") from error
    except OSError as error:
        names = ", ".join(sorted(it.stem for it in RECIPES.glob("*.toml")))
        what = f"can't read the configuration {path}: {error.strerror}"
        raise unusable(what, f"a TOML file, or one of: {names}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        expected = "sections such as [train] with lines such as steps = 300"
        raise unusable(f"{path} isn't valid TOML: {error}", expected) from error


def read_duration(text: str, name: str = "") -> float:
    """Convert a duration such as 90s, 15m, 1h30m or 2h to seconds. Error messages name the setting `name`."""
    number = r"(\d{1,9}(?:\.\d+)?)"
    found = re.fullmatch(rf"(?:{number}h)?(?:{number}m(?:in)?)?(?:{number}s)?", text.replace(" ", ""))
    seconds = sum(float(n or 0) * unit for n, unit in zip(found.groups(), (3600, 60, 1))) if found else 0.0
    if not seconds:
        what = f"{name}={text!r}" if name else repr(text)
        expected = "hours, minutes or seconds, such as 15m, 1h30m or 90s"
        raise ConfigError(f"{what} isn't a duration", expected=expected, name=name, value=text)
    return seconds


def read_size(text: str, name: str = "") -> int:
    """Convert a size such as 500MB, 4GB or 1.5GiB to bytes. Error messages name the setting `name`."""
    found = re.fullmatch(r"(\d{1,9}(?:\.\d+)?)([MG])(i?)B", text.replace(" ", ""))
    if not found:
        what, expected = f"{name}={text!r}" if name else repr(text), "a number of MB or GB, such as 500MB or 4GB"
        raise ConfigError(f"{what} isn't a size", expected=expected, name=name, value=text)
    number, unit, binary = found.groups()
    return int(float(number) * (1024 if binary else 1000) ** {"M": 2, "G": 3}[unit])


def spell(value: Any) -> str:
    """Format a setting's value as on the command line: true, none, 0.1, 'text' or a.en,b.fr."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or "none"
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return f"a number of {value.bit_length():,} bits"
    return repr(value)


def counted(number: int, nouns: str) -> str:
    """Return a number of things: "1 pair", "2,000 pairs", "1 piece of text"."""
    return f"{number:,} {nouns}" if number != 1 else re.sub(r"s\b", "", f"1 {nouns}", count=1)


def read_value(value: Any, kind: Any, name: str, *, source: str = "", parse: bool = True) -> Any:
    """Convert `value` to `kind`, the type of the setting `name`.

    Args:
        source: where the value comes from; error messages start with it.
        parse: parse strings as on the command line. If False, only values of the right type are accepted.
    """
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        if value is None or (parse and isinstance(value, str) and value == "none"):
            return None
        kind = next(arm for arm in typing.get_args(kind) if arm is not types.NoneType)
    expected, fix = _EXPECTED.get(kind, "a list of strings"), ""
    if typing.get_origin(kind) is Literal:
        choices = typing.get_args(kind)
        if isinstance(value, str) and value in choices:
            return value
        expected = f"one of {', '.join(choice or repr(choice) for choice in choices)}"
        fix = suggestion(str(value), choices) if isinstance(value, str) else ""
    elif (found := _converted(value, kind, parse)) is not None:
        return found
    elif kind is int and _is_whole(_parsed(value) if parse and isinstance(value, str) else _number(value)):
        expected = "a whole number below 2^63"
    elif kind is str and isinstance(value, str):
        expected = "text without NUL characters or lone surrogates"
    shown = repr(value) if isinstance(value, list | tuple) else spell(value)
    error = ConfigError(f"{name}={shown} isn't valid", expected=expected, fix=fix, name=name, value=value)
    raise within(source, error)


_EXPECTED: dict[Any, str] = {int: "a whole number", float: "a finite number", bool: "true or false", str: "a string"}
_EXPECTED |= {tuple[int, ...]: "a list of whole numbers", tuple[float, ...]: "a list of numbers"}
_BOOLEANS = {"true": True, "false": False, "yes": True, "no": False, "1": True, "0": False}


def _converted(value: Any, kind: Any, parse: bool) -> Any:
    """Return `value` as a bool, int, float, str, or tuple of str or int, or None if it isn't one."""
    text = value if parse and isinstance(value, str) else None
    if typing.get_origin(kind) is tuple:
        items = text.split(",") if text is not None else value
        of = typing.get_args(kind)[0]
        found = [_converted(item, of, parse) for item in items] if isinstance(items, list | tuple) else [None]
        return None if None in found else tuple(found)
    if kind is str:
        return value if is_text(value) else None
    if kind is bool:
        return value if isinstance(value, bool) else _BOOLEANS.get((text or "").lower())
    number = _number(value) if text is None else _parsed(text)
    if kind is int:
        return int(number) if _is_whole(number) and abs(number) < 2**63 else None
    try:
        return None if number is None else float(number)
    except OverflowError:
        return None


def is_text(value: object) -> bool:
    """Return whether a value can be the name of a file, which may have bytes that aren't UTF-8."""
    try:
        return isinstance(value, str) and b"\0" not in value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a lone surrogate
        return False


def _parsed(text: str) -> int | float | None:
    """Parse a finite number. Notation such as 1e5 can be a whole number, too."""
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return _number(kind(text))
    return None


def _number(value: object) -> int | float | None:
    """Return a finite number of Python or NumPy as an int or a float, or None for anything else."""
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return int(value)
    return (
        float(value)
        if isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
        else None
    )


def _is_whole(number: int | float | None) -> TypeGuard[int | float]:
    return number is not None and number == int(number)


def within(source: str, error: ConfigError) -> ConfigError:
    """Return the error with `source`, if given, in front of its message."""
    return error.within(source) if source else error


def finite(value: Any) -> Any:
    """Replace NaN and infinity, which JSON can't represent, with None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value


def to_json(value: Any) -> str:
    """Return strictly valid JSON on one line. NaN and infinity become null.

    Of the characters outside ASCII, only U+0085, U+2028 and U+2029 are escaped, because some programs treat them as
    line breaks.
    """
    text = json.dumps(finite(value), ensure_ascii=False, allow_nan=False)
    return text.translate({code: f"\\u{code:04x}" for code in (0x85, 0x2028, 0x2029)})


def setting(default: T, help: str) -> T:
    """Return a dataclass field with a help text for `--help` and the documentation."""
    return field(default=default, metadata={"help": help})


def fact(default: T, help: str) -> T:
    """Return a field like a setting's for what the data or an imported vocabulary decide. No help shows it."""
    return field(default=default, metadata={"help": help, "fact": True})


def require(holds: bool, name: str, value: Any, expected: str, *, what: str = "is out of range", fix: str = "") -> None:
    """Raise a ConfigError that reads "name=value what" unless `holds` is true.

    Args:
        holds: the condition.
        name: dotted name of the setting.
        value: its value, which the message spells as a user would.
        expected: which values are valid.
        what: what is wrong, following the name and the value.
        fix: what to do instead (default: nothing else than the expected value).
    """
    if not holds:
        raise invalid(name, value, what, expected=expected, fix=fix)


def invalid(name: str, value: Any, what: str, *, expected: str = "", fix: str = "") -> ConfigError:
    """Return a ConfigError that reads "name=value what".

    Args:
        name: dotted name of the setting.
        value: its value, which the message spells as a user would.
        what: what is wrong, following the value. A phrase that starts with ":" follows without a space.
        expected: which values are valid.
        fix: what to do instead.
    """
    space = "" if what.startswith(":") else " "
    return ConfigError(f"{name}={spell(value)}{space}{what}", expected=expected, fix=fix, name=name, value=value)


def none_is_empty(section: Any, key: str) -> None:
    """Let ("none",), as in TOML and on the command line, stand for an empty list in a setting of a section."""
    if getattr(section, key) == ("none",):
        object.__setattr__(section, key, ())


def check_types(section: Any, name: str) -> None:
    """Raise ConfigError unless every setting of the section `name` has its declared type. Lists become tuples."""
    for key, kind in typing.get_type_hints(type(section)).items():
        value = getattr(section, key)
        if value is not section.__dataclass_fields__[key].default:
            object.__setattr__(section, key, read_value(value, kind, f"{name}.{key}", parse=False))
