"""Laws that exercises must obey, tested on growing inputs: the first input that breaks a law is the smallest."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, TypeAlias

import torch
from torch import Tensor

_TOLERANCE = 1e-4  # float32 leaves differences of about 1e-6 in such small inputs
_SHOWN = 40  # numbers of an input, at most

Work: TypeAlias = Any
"""The functions that a student wrote, as attributes."""

Law: TypeAlias = Callable[[Work], None]
"""Tests a law, whose name is the first line of its docstring. Raises `Broken`."""


class Broken(Exception):  # noqa: N818
    """Says how a law was broken, and by which inputs."""

    def __init__(self, what: str, **inputs: object) -> None:
        super().__init__(what)
        self.what, self.inputs = what, {name: shown(value) for name, value in inputs.items()}


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
    """Raise `Broken` unless the law holds."""
    if not holds:
        raise Broken(what, **inputs)


def differs(found: Tensor, expected: Tensor) -> tuple[int, ...] | None:
    """Return the place of the first number that isn't as expected, or None. NaN never is."""
    wrong = ~((found - expected).abs() <= _TOLERANCE * (1 + expected.abs()))
    return tuple(wrong.nonzero()[0].tolist()) if wrong.any() else None


def expect_shape(found: object, shape: Sequence[int], what: str, **inputs: object) -> None:
    """Raise `Broken` unless a result is a tensor of this shape."""
    is_tensor = isinstance(found, Tensor)
    expect(is_tensor, f"{what} is {_kind(found)}, not a tensor", **inputs)
    assert isinstance(found, Tensor)
    right, wrong = spelled(shape), spelled(found.shape)
    expect(tuple(found.shape) == tuple(shape), f"{what} has the shape {wrong}, not {right}", **inputs)


def expect_equal(found: Tensor, expected: Tensor, what: str, **inputs: object) -> None:
    """Raise `Broken` unless all numbers are as expected. `what` says what they are."""
    expect_shape(found, expected.shape, what, **inputs)
    place = differs(found, expected)
    if place is not None:
        at = f"[{', '.join(map(str, place))}]" if place else ""
        numbers = f"{float(found[place]):.4g}, not {float(expected[place]):.4g}"
        raise Broken(f"{what}{at} is {numbers}", **inputs)


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


def namespace(**values: object) -> SimpleNamespace:
    """Return an object with these attributes, such as the weights of a layer."""
    return SimpleNamespace(**values)


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
