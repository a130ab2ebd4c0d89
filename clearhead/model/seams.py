"""Where a part of anybody's can stand: its setting names one of ours, or a class as `package.module:Class`.

A class is found when the model is built, also in the current folder, and is given what its `__init__` asks for by name,
out of what is offered there. From then on nothing asks whose it is.
"""

import importlib
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

from torch import nn

from ..errors import ConfigError, did_you_mean

P = TypeVar("P", bound=nn.Module)


@dataclass(frozen=True)
class Seam(Generic[P]):
    """One such place: the setting that names the part, our `own` parts for it by their names, the `base` of all, and a
    part that is called as all are, by these `methods`, of which the base may lack some."""

    setting: str
    own: Mapping[str, type[P]]
    base: type[P]
    like: type[P]
    methods: tuple[str, ...]

    def make(self, name: str, offered: Mapping[str, Any]) -> P:
        """The part of that name, with what it asks for; a ConfigError where it cannot be had (see `find`)."""
        kind = self.find(name, offered)
        return kind(**{asked: offered[asked] for asked in inspect.signature(kind).parameters if asked in offered})

    def find(self, name: str, offered: Mapping[str, Any]) -> type[P]:
        """The class of that name; a ConfigError where there is none, it does not fit, or it asks for something else."""
        kind = self.own[name] if name in self.own else self._imported(name)
        where = f"{self.setting} = {name!r}"
        if not issubclass(kind, self.base):
            base = f"{'torch.nn' if self.base is nn.Module else self.base.__module__}.{self.base.__name__}"
            raise ConfigError(f"{where} is no subclass of {base}; expected `class {kind.__name__}({base})`")
        for method in self.methods:
            if hasattr(kind, method) and not _takes(getattr(kind, method), getattr(self.like, method)):
                raise ConfigError(
                    f"{where}: its {method} takes {_plain(getattr(kind, method))}; "
                    f"expected {_plain(getattr(self.like, method))}"
                )
        for asked in inspect.signature(kind).parameters.values():
            by_name = asked.kind in (asked.POSITIONAL_OR_KEYWORD, asked.KEYWORD_ONLY)
            optional = asked.default is not asked.empty or asked.kind in (asked.VAR_POSITIONAL, asked.VAR_KEYWORD)
            if not optional and not (by_name and asked.name in offered):
                raise ConfigError(
                    f"{where}: its __init__ asks for {asked.name!r}, which is not offered; expected some of "
                    f"{', '.join(offered)}, by name; give what else it needs a default"
                )
        return kind

    def _imported(self, name: str) -> type[Any]:
        where = f"{self.setting} = {name!r}"
        if ":" not in name:
            raise ConfigError(
                f"{where} is not one of {', '.join(self.own)}, and names no class as package.module:Class does"
                f"{did_you_mean(name, self.own)}"
            )
        if not re.fullmatch(r"\w+(\.\w+)*:\w+", name) or name.partition(":")[0].endswith(".py"):
            spelt = re.sub(r"\.py(?=:)", "", name).replace("/", ".").strip(".")
            raise ConfigError(f"{where} is not spelt as package.module:Class{did_you_mean(name, [spelt])}")
        module, _, attribute = name.partition(":")
        source = _module(module, where)
        found = getattr(source, attribute, None)
        if inspect.isclass(found):
            return found
        there = [key for key, it in vars(source).items() if inspect.isclass(it) and issubclass(it, self.base)]
        raise ConfigError(
            f"{where}: {getattr(source, '__file__', module)} has no class {attribute!r}; expected the name of one "
            f"that it has{did_you_mean(attribute, there)}"
        )


def _module(name: str, where: str) -> ModuleType:
    """The module, of which anything may come while it is imported: all of it is a ConfigError."""
    try:
        with _current_folder():
            return importlib.import_module(name)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name and f"{name}.".startswith(f"{error.name}."):
            raise ConfigError(
                f"{where}: there is no module {error.name} in the current folder or where Python looks; expected a "
                f"file {error.name.replace('.', '/')}.py here, or the folder that has it in PYTHONPATH"
            ) from error
        raise ConfigError(
            f"{where}: {name} cannot be imported: {type(error).__name__}: {error}; "
            f"expected no error of `python -c 'import {name}'`"
        ) from error


@contextmanager
def _current_folder() -> Iterator[None]:
    """Python looks for modules in the current folder, too, where it does not anyway; after all other places."""
    here, importable = str(Path.cwd()), {"", str(Path.cwd())} & {*sys.path}
    importlib.invalidate_caches()  # a file may be newer than Python's last look
    sys.path += [] if importable else [here]
    try:
        yield
    finally:
        if not importable and here in sys.path:
            sys.path.remove(here)


def _takes(method: Any, call: Any) -> bool:
    """Whether a method can be called as another one is."""
    given = inspect.signature(call).parameters.values()
    by_name = {it.name: None for it in given if it.kind is it.KEYWORD_ONLY}
    try:
        inspect.signature(method).bind(*[None] * (len(given) - len(by_name)), **by_name)
    except TypeError:
        return False
    return True


def _plain(method: Any) -> str:
    """What a method takes, without types: (self, q, k, v, *, mask=None, bias=None)"""
    signature = inspect.signature(method)
    bare = [it.replace(annotation=it.empty) for it in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=signature.empty))
