"""Modules chosen by a setting: a built-in one by its name, or your own class as `package.module:Class`.

The model passes only the arguments that the class's `__init__` names. Custom and built-in modules are treated alike.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from ..config.custom_code import import_class, is_custom
from ..errors import ConfigError, nearest

P = TypeVar("P", bound=nn.Module)

_B, _T, _S = 2, 3, 5  # batch size, queries and keys of a trial call


class TrialCall(NamedTuple):
    """A call of a custom module's method with small random arguments, and the shape it must return.

    A method may also return None where `optional`, and what broadcasts to the shape. -1 stands for any size.
    """

    arguments: tuple[Tensor, ...]
    shape: tuple[int, ...]
    axes: str
    optional: bool = False

    def fault(self, returned: Any) -> str:
        """Return what is wrong with a result, or ""."""
        if returned is None and self.optional:
            return ""
        for it in returned if isinstance(returned, tuple) and self.optional else (returned,):
            if not isinstance(it, Tensor):
                return f"a {type(it).__name__}"
            missing = len(self.shape) - it.dim()
            sizes = ((1,) * missing if self.optional else ()) + tuple(it.shape)
            one = 1 if self.optional else None
            if len(sizes) != len(self.shape) or any(
                found not in (size, one) for found, size in zip(sizes, self.shape) if size >= 0
            ):
                return f"shape {tuple(it.shape)}"
        return ""


def of_vectors(offered: Mapping[str, Any]) -> dict[str, TrialCall]:
    """Return the trials of a norm or a feed-forward network."""
    shape = (_B, _T, offered["d_model"])
    return {"forward": TrialCall((torch.randn(shape),), shape, "(B, T, D)")}


def of_heads(offered: Mapping[str, Any]) -> dict[str, TrialCall]:
    """Return the trials of an attention module."""
    shape = (_B, offered["n_heads"])
    q, k, v = (torch.randn(*shape, n, offered["d_head"]) for n in (_T, _S, _S))
    return {
        "forward": TrialCall((q, k, v), (*shape, _T, offered["d_head"]), "(B, H, T, K)"),
        "weights": TrialCall((q, k), (*shape, _T, _S), "(B, H, T, S)"),
    }


def of_positions(offered: Mapping[str, Any]) -> dict[str, TrialCall]:
    """Return the trials of a position scheme."""
    queries, keys = torch.arange(_T)[None], torch.arange(_T)[None]
    shape, heads = (_B, _T, offered["d_model"]), offered["n_heads"]
    return {
        "embed": TrialCall((torch.randn(shape), queries), shape, "(B, T, D)"),
        "rotation": TrialCall((queries,), (1, 1, _T, offered["d_head"]), "(B, 1, T, K), twice", optional=True),
        "bias": TrialCall((queries, keys), (1, heads, _T, _T), "(B, H, T, S)", optional=True),
    }


def of_tokens(offered: Mapping[str, Any]) -> dict[str, TrialCall]:
    """Return the trials of a front end for tokens. What others read isn't known."""
    if offered["image_size"] or offered["sample_rate"] or not offered["vocab_size"]:
        return {}
    ids = torch.zeros(_B, _T, dtype=torch.long)
    return {"forward": TrialCall((ids,), (_B, -1, offered["d_model"]), "(B, S, D)")}


@dataclass(frozen=True)
class ModuleChoice(Generic[P]):
    """A replaceable module of the model.

    Attributes:
        setting: the setting that chooses the class.
        known: the built-in classes, by name.
        base: the base class of custom classes.
        example: a built-in class; the `methods` of a custom class must accept the same calls.
        methods: names of these methods. Those that `base` lacks are optional.
        trials: returns the calls that a class of the user's own is tried with.
    """

    setting: str
    known: Mapping[str, type[P]]
    base: type[P]
    example: type[P]
    methods: tuple[str, ...]
    trials: Callable[[Mapping[str, Any]], Mapping[str, TrialCall]]

    def make(self, name: str, offered: Mapping[str, Any]) -> P:
        """Build the named module with the arguments that its `__init__` names."""
        kind = self.find(name, offered)
        made = kind(**{asked: offered[asked] for asked in inspect.signature(kind).parameters if asked in offered})
        if not kind.__module__.startswith(f"{__package__}."):
            self._try(name, made, offered)
        return made

    def _try(self, name: str, made: P, offered: Mapping[str, Any]) -> None:
        """Raise ConfigError if a module returns wrong shapes. The state of torch's random numbers is unchanged."""
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            made.eval()
            for method, trial in self.trials(offered).items():
                if not callable(call := made if method == "forward" else getattr(made, method, None)):
                    continue
                try:
                    returned = call(*trial.arguments)
                except NotImplementedError:  # on the meta device, which computes nothing
                    continue
                except Exception as error:
                    if self.setting == "model.front":  # it may read something else
                        continue
                    raise self._error(
                        name, f": its {method} raised {type(error).__name__}: {error}", trial.axes
                    ) from error
                if found := trial.fault(returned):
                    sizes = ", ".join("S" if size == -1 else str(size) for size in trial.shape)
                    given = " and ".join(str(tuple(it.shape)) for it in trial.arguments)
                    what = f": its {method} returned {found} for arguments of shape {given}"
                    raise self._error(name, what, f"{trial.axes} = ({sizes})")
            made.train()

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
