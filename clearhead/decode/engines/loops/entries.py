"""The functions of the loops that are called from Python, with arguments of the types that they're compiled for.

Machine code gets its arguments as one array of 64-bit numbers: the address and the dimensions of each array, the
address of each record, and each number itself.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .beam_loops import search, write_prompt
from .equations import Stack
from .hypotheses import AnswerArrays, Jobs, Ruling
from .stacks import CacheArrays, project, remember, write_states
from .weight_arrays import SHAPE


class Entries(NamedTuple):
    """Functions with the arguments of `search`, `remember` and so on. They return nothing."""

    search: Callable[..., None]
    remember: Callable[..., None]
    write_prompt: Callable[..., None]
    write_states: Callable[..., None]
    project: Callable[..., None]


AS_PYTHON = Entries(search, remember, write_prompt, write_states, project)


def examples() -> dict[str, tuple[Any, ...]]:
    """Return small arguments of each function, which show their types."""
    ints, floats = np.zeros(1, np.int64), np.zeros((1, 1), np.float32)
    grid, cube, doubles, flags = ints.reshape(1, 1), ints.reshape(1, 1, 1), np.zeros((1, 1)), np.zeros(1, np.bool_)
    stack = Stack(np.rec.array(np.zeros(1, SHAPE))[0], floats[0], cube, doubles[0], np.zeros(1, np.int8))
    memory = np.zeros((2, 1, 1, 1, 1), np.float32)
    cache = CacheArrays(memory, grid, memory, grid, ints)
    jobs = Jobs(ints, ints, ints, ints, ints, ints, grid)
    ruling = Ruling(0, 1, 0.0, 1, flags, flags, 1)
    found = AnswerArrays(cube, memory[0, 0], grid, doubles, doubles, flags.reshape(1, 1), ints, ints)
    return {
        "search": (stack, stack, jobs, ruling, 1, 1, found),
        "remember": (stack, stack, ints, 0, cache),
        "write_prompt": (stack, ints, 0, cache, floats),
        "write_states": (stack, grid, cache, floats),
        "project": (floats, stack, floats),
    }


def leaves(values: tuple[Any, ...]) -> Iterator[Any]:
    """Yield the arrays, records and numbers of nested tuples, in order."""
    for value in values:
        if isinstance(value, tuple):
            yield from leaves(value)
        else:
            yield value


def kind(value: Any) -> Any:
    """Return what an argument has in common with every other of its type."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.ndim
    return value.dtype if isinstance(value, np.void) else isinstance(value, float)


def packed(values: tuple[Any, ...], kinds: list[Any]) -> NDArray[np.int64]:
    """Return the numbers that stand for arguments of these kinds.

    Raises:
        TypeError: an argument is of another kind, or an array's numbers don't follow one another.
    """
    found: list[int] = []
    for value, expected in zip(leaves(values), kinds, strict=True):
        if kind(value) != expected:
            raise TypeError(f"the loops are compiled for {expected}, and got {kind(value)}")
        if isinstance(value, np.ndarray):
            if not value.flags.c_contiguous:
                raise TypeError("the loops are compiled for arrays whose numbers follow one another")
            found += (value.ctypes.data, *value.shape)
        elif isinstance(value, np.void):
            found.append(np.frombuffer(value, np.uint8).ctypes.data)
        else:
            found.append(int(np.float64(value).view(np.int64)) if isinstance(value, float) else int(value))
    return np.array(found, np.int64)
