"""Laws that exercises must obey, tested on growing inputs: the first input that breaks a law is the smallest."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType, SimpleNamespace
from typing import Any, TypeAlias

import torch
from torch import Tensor

_TOLERANCE = 1e-4  # float32 leaves differences of about 1e-6 in such small inputs
_SHOWN = 40  # numbers of an input, at most
UNCHANGED = "A function doesn't change its inputs"
REPEATED = "The same inputs give the same outputs"
"""The laws that every call tests."""

Work: TypeAlias = Any
"""The functions that a student wrote, as attributes."""

Law: TypeAlias = Callable[[Work], None]
"""Tests a law, whose name is the first line of its docstring. Raises `Broken`."""


class Broken(Exception):  # noqa: N818
    """Raised when a law is broken: how, by which inputs, and which law if it isn't the one being tested."""

    def __init__(self, what: str, law: str = "", /, **inputs: object) -> None:
        super().__init__(what)
        self.what, self.law, self.inputs = what, law, all_shown(inputs)


class Watched:
    """The functions that a student wrote, as attributes. Calling one raises `Broken` if it changes a tensor in place
    or draws random numbers.

    Attributes:
        inputs: those of the latest call.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self.inputs: Mapping[str, object] = {}

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._work, name)
        return partial(self._call, function) if callable(function) else function

    def _call(self, function: Callable[..., Any], /, *values: object, **named: object) -> Any:
        code = getattr(function, "__code__", None)
        names = code.co_varnames[: code.co_argcount] if code else ()
        given = {names[i] if i < len(names) else f"input {i + 1}": value for i, value in enumerate(values)} | named
        before = {name: [it.detach().clone() for it in _tensors(value)] for name, value in given.items()}
        kept = {name: before[name][0] if isinstance(it, Tensor) else it for name, it in given.items()}
        self.inputs = {name: it for name, it in kept.items() if isinstance(it, Tensor | int | float)}
        drawn = torch.get_rng_state()
        found = function(*values, **named)
        what = code.co_name if code else "the function"
        if not torch.equal(torch.get_rng_state(), drawn):
            raise Broken(f"{what} draws random numbers: is there dropout?", REPEATED)
        for name, value in given.items():
            after = _tensors(value)
            if len(after) != len(before[name]) or not all(map(torch.equal, after, before[name])):
                raise Broken(f"{what} changes its input {name} in place", UNCHANGED)
        return found


def _tensors(value: object) -> list[Tensor]:
    """Return the tensors of an input: its own, or those of a list, a tuple or a layer's weights."""
    if isinstance(value, SimpleNamespace):
        value = list(vars(value).values())
    if isinstance(value, list | tuple):
        return [tensor for it in value for tensor in _tensors(it)]
    return [value] if isinstance(value, Tensor) else []


@dataclass(frozen=True)
class Exercise:
    """An exercise.

    Attributes:
        name: the name of its file, without the ending.
        functions: the names of the functions to write.
        laws: what they have to obey, the most basic ones first.
        picture: computes matrices to draw from the student's functions, by title. (R, C)
    """

    name: str
    functions: Sequence[str]
    laws: Sequence[Law]
    picture: Callable[[Work], Mapping[str, Tensor]]


def name_of(law: Law) -> str:
    """Return the law as a sentence."""
    return (law.__doc__ or "").splitlines()[0].rstrip(".")


def expect(holds: bool, what: str, **inputs: object) -> None:
    """Raise `Broken` unless the law holds.

    Args:
        holds: whether it holds.
        what: what's wrong otherwise.
        inputs: the inputs that show it, by name.
    """
    if not holds:
        raise Broken(what, **inputs)


def differs(found: Tensor, expected: Tensor) -> tuple[int, ...] | None:
    """Return the place of the first number that isn't as expected, or None. NaN is never as expected.

    Raises:
        Broken: it's no tensor, or has another shape.
    """
    expect_shape(found, expected.shape, "the result")
    wrong = ~((found - expected).abs() <= _TOLERANCE * (1 + expected.abs()))
    return tuple(wrong.nonzero()[0].tolist()) if wrong.any() else None


def expect_shape(found: object, shape: Sequence[int], what: str, **inputs: object) -> None:
    """Raise `Broken` unless a result is a tensor of this shape.

    Args:
        found: the result.
        shape: the right shape.
        what: a name for the result.
        inputs: what it was computed from, by name.
    """
    is_tensor = isinstance(found, Tensor)
    expect(is_tensor, f"{what} is {_kind(found)}, not a tensor", **inputs)
    assert isinstance(found, Tensor)
    right, wrong = spelled(shape), spelled(found.shape)
    expect(tuple(found.shape) == tuple(shape), f"{what} has the shape {wrong}, not {right}", **inputs)


def expect_equal(found: Tensor, expected: Tensor, what: str, **inputs: object) -> None:
    """Raise `Broken` unless a result has the right shape and numbers, apart from rounding.

    Args:
        found: the result.
        expected: the right one.
        what: a name for the numbers.
        inputs: what they were computed from, by name.
    """
    expect_shape(found, expected.shape, what, **inputs)
    place = differs(found, expected)
    if place is not None:
        at = f"[{', '.join(map(str, place))}]" if place else ""
        numbers = f"{float(found[place]):.4g}, not {float(expected[place]):.4g}"
        raise Broken(f"{what}{at} is {numbers}", **inputs)


def expect_gradients(
    function: Callable[..., Tensor],
    right: Callable[..., Tensor],
    others: Mapping[str, Tensor] = MappingProxyType({}),
    /,
    **inputs: Tensor,
) -> None:
    """Raise `Broken` unless gradients flow back to all inputs, and are those of the right function.

    Args:
        function: the student's function.
        right: a function that computes the same.
        others: more arguments of both, after `inputs`, which aren't shown.
        inputs: the arguments of both, in order.
    """
    every = {**inputs, **others}
    leaves = [it.clone().requires_grad_() for it in every.values()]
    found, expected = (it(*leaves) for it in (function, right))
    slopes = numbers(*expected.shape, seed=9)  # the gradient at the output
    expect(found.requires_grad, "no gradient flows back: is there detach(), no_grad() or NumPy?", **inputs)
    ours = torch.autograd.grad((found * slopes).sum(), leaves, allow_unused=True)
    theirs = torch.autograd.grad((expected * slopes).sum(), leaves, allow_unused=True)
    for name, mine, other in zip(every, ours, theirs):
        if other is not None:
            expect(mine is not None, f"no gradient flows back to {name}", **inputs)
            expect_equal(mine, other, f"the gradient of {name}", **inputs)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    """Return short numbers from -2 to 2, the same ones for the same seed."""
    generator = torch.Generator().manual_seed(seed + 100 * len(shape) + sum(shape))
    return torch.randint(-4, 5, shape, generator=generator).float() / 2


def past_only(n: int) -> Tensor:
    """Return the causal mask of n tokens. -> (T, T)"""
    return torch.ones(n, n, dtype=torch.bool).tril()


def sizes(*limits: int) -> Iterator[tuple[int, ...]]:
    """Yield sizes from 1 to each limit, the smallest ones first, so that no two are the same where that's possible."""
    every: list[tuple[int, ...]] = [()]
    for limit in limits:
        every = [(*some, size) for some in every for size in range(1, limit + 1)]
    yield from sorted(every, key=lambda some: (sum(some), some))


def all_shown(inputs: Mapping[str, object]) -> dict[str, str]:
    """Return inputs as short text, without those that are None."""
    return {name: shown(value) for name, value in inputs.items() if value is not None}


def shown(value: object) -> str:
    """Return an input as short text: tensors as lists."""
    if isinstance(value, Tensor):
        return _rounded(value.tolist()) if value.numel() <= _SHOWN else f"a tensor {spelled(value.shape)}"
    return str(value)


def spelled(shape: Sequence[int]) -> str:
    """Return a shape as in this project's comments: (2, 3)."""
    return f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"


def _rounded(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_rounded, value))}]"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
