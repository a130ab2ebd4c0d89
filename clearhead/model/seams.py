"""Modules chosen by a setting: a built-in one by its name, or your own class as `package.module:Class`.

The model passes only the arguments that the class's `__init__` names. Custom and built-in modules are treated alike.
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
    """A replaceable module of the model.

    Attributes:
        setting: the setting that chooses the class.
        known: the built-in classes, by name.
        base: the base class of custom classes.
        example: a built-in class; the `methods` of a custom class must accept the same calls.
        methods: names of these methods. Those that `base` lacks are optional.
    """

    setting: str
    known: Mapping[str, type[P]]
    base: type[P]
    example: type[P]
    methods: tuple[str, ...]

    def make(self, name: str, offered: Mapping[str, Any]) -> P:
        """Build the named module with the arguments that its `__init__` names."""
        kind = self.find(name, offered)
        return kind(**{asked: offered[asked] for asked in inspect.signature(kind).parameters if asked in offered})

    def find(self, name: str, offered: Mapping[str, Any]) -> type[P]:
        """Return the named class.

        Raises:
            ConfigError: the class doesn't exist, a method has the wrong parameters, or `__init__` requires an argument
                that isn't offered.
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
                what = f": its __init__ requires {asked.name!r}, which the model doesn't offer"
                expected = f"any of {', '.join(offered)}, by name"
                raise self._error(name, what, expected, f"give {asked.name!r} a default")
        return kind

    def _error(self, part: str, what: str, expected: str, fix: str = "") -> ConfigError:
        where = f"{self.setting}={part!r}"
        return ConfigError(f"{where}{what}", expected=expected, fix=fix, name=self.setting, value=part)


def _callable_like(method: Any, example: Any) -> bool:
    """Return True if a method accepts the arguments of another one."""
    given = inspect.signature(example).parameters.values()
    by_name = {it.name: None for it in given if it.kind is it.KEYWORD_ONLY}
    try:
        inspect.signature(method).bind(*[None] * (len(given) - len(by_name)), **by_name)
    except TypeError:
        return False
    return True


def _signature(method: Any) -> str:
    """Return a method's parameters without types, such as (self, q, k, v, *, mask=None, bias=None)."""
    signature = inspect.signature(method)
    bare = [it.replace(annotation=it.empty) for it in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=signature.empty))
