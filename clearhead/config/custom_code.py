"""Custom parts: classes that a setting names as `package.module:Class`.

Naming one on the command line or in a TOML file counts as consent to run its code. A model folder can come from
anywhere, so the classes it names are imported only with the user's explicit consent.
"""

import importlib
import inspect
import re
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, TypeVar

from ..errors import ModelError, nearest, suggestion
from .values import invalid

T = TypeVar("T")

SETTINGS = ("model.front", "model.attention", "model.positions", "model.feed_forward", "model.norm", "train.task")


class Settings(Protocol):
    """Settings by dotted name: a `Config`, which imports this module."""

    def value(self, name: str) -> Any:
        """Return the value of a setting."""


def is_custom(name: object) -> bool:
    """Return whether the value of a setting names a custom class."""
    return isinstance(name, str) and ":" in name


def custom_parts(config: Settings) -> dict[str, str]:
    """Return the custom parts of a configuration, keyed by setting: {"model.norm": "own_parts:ScaleNorm"}."""
    return {setting: config.value(setting) for setting in SETTINGS if is_custom(config.value(setting))}


def check_consent(config: Settings, origin: object, allowed: bool | Collection[str]) -> None:
    """Raise ModelError if a configuration names a custom part that isn't allowed. Imports nothing.

    Args:
        origin: the file or folder it was read from, for the error message.
        allowed: True to allow all parts, or the names of the allowed ones.
    """
    if allowed is True:
        return
    for setting, part in custom_parts(config).items():
        if not allowed or part not in allowed:
            what = f"{origin} names custom code: {setting}={part!r}"
            raise ModelError(what, fix="if you trust it, pass `allow_custom_code=True`", name=setting, value=part)


def import_class(setting: str, name: str, base: type[T]) -> type[T]:
    """Return the class that a setting names as `package.module:Class`.

    The current folder is searched last. Model folders are never searched.

    Args:
        setting: dotted name of the setting, for messages.
        name: its value, such as "own_parts:ScaleNorm".
        base: the class that it must be derived from.

    Raises:
        ConfigError: the name is malformed, the module can't be imported, or it has no subclass of `base` by that name.
    """
    module, _, attribute = name.partition(":")
    if not re.fullmatch(r"\w+(\.\w+)*:\w+", name) or module.endswith(".py"):
        spelling = re.sub(r"\.py(?=:)", "", name).replace("/", ".").strip(".")
        fix = suggestion(name, [spelling])
        raise invalid(setting, name, "isn't a class name", expected="package.module:Class", fix=fix)
    source = _import(module, setting, name)
    found = getattr(source, attribute, None)
    if not inspect.isclass(found):
        classes = [key for key, it in vars(source).items() if inspect.isclass(it) and issubclass(it, base)]
        near = nearest(attribute, classes)
        what = f": {getattr(source, '__file__', module)} has no class {attribute!r}"
        fix = f"did you mean {module}:{near}?" if near else ""
        raise invalid(setting, name, what, expected=", ".join(classes), fix=fix)
    if not issubclass(found, base):
        full = f"{base.__module__.removesuffix('.modules.module')}.{base.__name__}"
        raise invalid(setting, name, f"isn't a subclass of {full}", expected=f"class {attribute}({full})")
    return found


def _import(module: str, setting: str, name: str) -> ModuleType:
    try:
        with _current_folder_last():
            return importlib.import_module(module)
    except Exception as error:  # a module can raise anything while it's imported
        if isinstance(error, ModuleNotFoundError) and error.name and f"{module}.".startswith(f"{error.name}."):
            file = f"{error.name.replace('.', '/')}.py"
            expected = f"a file {file} in the current folder, or its folder in PYTHONPATH"
            raise invalid(setting, name, f": there is no module {error.name}", expected=expected) from error
        what = f": importing {module} raised {type(error).__name__}: {error}"
        raise invalid(setting, name, what, fix=f"run python -c 'import {module}' to see the full traceback") from error


@contextmanager
def _current_folder_last() -> Iterator[None]:
    before, searched = list(sys.path), _search_path(sys.path)
    importlib.invalidate_caches()  # the file may be newer than Python's import cache
    sys.path[:] = searched
    try:
        yield
    finally:
        added = [place for place in sys.path if place not in searched]  # paths that the module itself added
        sys.path[:] = before + added


def _search_path(places: Iterable[str]) -> list[str]:
    here = str(Path.cwd())
    return [place for place in [*(it for it in places if it not in ("", here)), here] if not _is_model_folder(place)]


def _is_model_folder(place: str) -> bool:
    return all((Path(place) / name).exists() for name in ("config.json", "manifest.json"))
