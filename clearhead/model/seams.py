"""Parts that a setting chooses: a built-in one by its name, or your own class as `package.module:Class`.

The model passes the arguments that a part's `__init__` asks for by name. After that, nothing distinguishes your part
from a built-in one.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from torch import nn

from ..config.custom_code import import_class, is_custom
from ..errors import ConfigError, nearest

P = TypeVar("P", bound=nn.Module)


@dataclass(frozen=True)
class Seam(Generic[P]):
    """A place in the model that a part can fill.

    Attributes:
        setting: the setting that names the part.
        known: the built-in parts, by name.
        base: the class that a part derives from.
        example: a built-in part; the `methods` of a custom part must accept the same calls.
        methods: names of these methods. Those that the base lacks are optional.
    """

    setting: str
    known: Mapping[str, type[P]]
    base: type[P]
    example: type[P]
    methods: tuple[str, ...]

    def make(self, name: str, offered: Mapping[str, Any]) -> P:
        """Return the named part, built from the arguments it asks for."""
        kind = self.find(name, offered)
        return kind(**{asked: offered[asked] for asked in inspect.signature(kind).parameters if asked in offered})

    def find(self, name: str, offered: Mapping[str, Any]) -> type[P]:
        """Return the named class.

        Raises:
            ConfigError: There is no such class, a method can't be called as it will be, or `__init__` asks for
                something that isn't offered.
        """
        if name not in self.known and not is_custom(name):
            suggestion = nearest(name, self.known)
            fix = f"did you mean {suggestion!r}?" if suggestion else ""
            raise self._error(name, " is unknown", f"{', '.join(self.known)} or package.module:Class", fix)
        kind = self.known[name] if name in self.known else import_class(self.setting, name, self.base)
        for method in self.methods:
            if hasattr(kind, method) and not _callable_like(getattr(kind, method), getattr(self.example, method)):
                expected = _signature(getattr(self.example, method))
                raise self._error(name, f": its {method} takes {_signature(getattr(kind, method))}", expected)
        for asked in inspect.signature(kind).parameters.values():
            by_name = asked.kind in (asked.POSITIONAL_OR_KEYWORD, asked.KEYWORD_ONLY)
            optional = asked.default is not asked.empty or asked.kind in (asked.VAR_POSITIONAL, asked.VAR_KEYWORD)
            if not optional and not (by_name and asked.name in offered):
                what = f": its __init__ asks for {asked.name!r}, which the model doesn't offer"
                expected = f"any of {', '.join(offered)}, by name"
                raise self._error(name, what, expected, f"give {asked.name!r} a default")
        return kind

    def _error(self, part: str, what: str, expected: str, fix: str = "") -> ConfigError:
        where = f"{self.setting}={part!r}"
        return ConfigError(f"{where}{what}", expected=expected, fix=fix, name=self.setting, value=part)


def _callable_like(method: Any, example: Any) -> bool:
    """Return whether a method takes the arguments of another one."""
    given = inspect.signature(example).parameters.values()
    by_name = {it.name: None for it in given if it.kind is it.KEYWORD_ONLY}
    try:
        inspect.signature(method).bind(*[None] * (len(given) - len(by_name)), **by_name)
    except TypeError:
        return False
    return True


def _signature(method: Any) -> str:
    """The parameters of a method, without types: (self, q, k, v, *, mask=None, bias=None)"""
    signature = inspect.signature(method)
    bare = [it.replace(annotation=it.empty) for it in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=signature.empty))
