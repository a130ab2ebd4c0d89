"""The functions of the loops that are called from Python, in Python or as machine code.

LLVM loads the machine code, without numba. Its arguments are one array of 64-bit numbers: the address and the
dimensions of each array, the address of each record, and each number itself.
"""

import ctypes
import hashlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .beam_loops import AnswerArrays, Jobs, Ruling, search, write_prompt
from .equations import Stack
from .jit import SYMBOL
from .linear_layers import BLOCK
from .stack_parts import PROJECTION, PROJECTION_BIAS, SLOPES
from .stacks import CacheArrays, project, remember, write_states
from .weight_arrays import SHAPE

_Call = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
_DIGEST = 32  # bytes of SHA-256
_engines: list[Any] = []  # they own the loaded code


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


def _leaves(values: tuple[Any, ...]) -> Iterator[Any]:
    """Yield the arrays, records and numbers of nested tuples, in order."""
    for value in values:
        if isinstance(value, tuple):
            yield from _leaves(value)
        else:
            yield value


def _kind(value: Any) -> Any:
    """Return what an argument has in common with every other of its type."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.ndim
    return value.dtype if isinstance(value, np.void) else isinstance(value, float)


def _packed(values: tuple[Any, ...], kinds: list[Any]) -> NDArray[np.int64]:
    """Return the numbers that stand for arguments of these kinds.

    Raises:
        TypeError: an argument is of another kind, or an array's numbers don't follow one another.
    """
    found: list[int] = []
    for value, expected in zip(_leaves(values), kinds, strict=True):
        if _kind(value) != expected:
            raise TypeError(f"the loops are compiled for {expected}, and got {_kind(value)}")
        if isinstance(value, np.ndarray):
            if not value.flags.c_contiguous:
                raise TypeError("the loops are compiled for arrays whose numbers follow one another")
            found += (value.ctypes.data, *value.shape)
        elif isinstance(value, np.void):
            found.append(np.frombuffer(value, np.uint8).ctypes.data)
        else:
            found.append(int(np.float64(value).view(np.int64)) if isinstance(value, float) else int(value))
    return np.array(found, np.int64)


@cache
def loaded(path: Path) -> Entries:
    """Return the compiled functions of a file, which has the digest of the code, and then the code.

    Raises:
        OSError: the file can't be read, or is damaged.
    """
    content = path.read_bytes()
    code = content[_DIGEST:]
    if hashlib.sha256(code).digest() != content[:_DIGEST]:
        raise OSError(f"{path} is damaged")
    return functions_of(code)


def functions_of(code: bytes) -> Entries:
    """Return the compiled functions of an object file."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    call = _Call(engine.get_function_address(SYMBOL))
    arguments = examples()
    functions = (_function(call, i, arguments[name]) for i, name in enumerate(Entries._fields))
    return Entries(*functions)


def _function(call: Any, which: int, example: tuple[Any, ...]) -> Callable[..., None]:
    kinds = [_kind(value) for value in _leaves(example)]

    def function(*arguments: Any) -> None:
        numbers, result, problem = _packed(arguments, kinds), ctypes.c_void_p(), ctypes.c_void_p()
        if call(ctypes.byref(result), ctypes.byref(problem), which, numbers.ctypes.data):
            raise MemoryError("there's too little memory for the search")

    return function


def check(code: bytes) -> None:
    """Raise RuntimeError if an object file doesn't compute a linear layer."""
    x, stack, _ = examples()["project"]
    floats, places = np.linspace(-2, 2, 2 * BLOCK, dtype=np.float32), np.zeros((1, SLOPES + 1, 3), np.int64)
    places[0, PROJECTION], places[0, PROJECTION_BIAS] = (0, BLOCK, 1), (BLOCK, 1, BLOCK)
    found, stack.shape["logit_scale"] = np.empty((1, BLOCK), np.float32), 1
    functions_of(code).project(x + np.float32(0.3), stack._replace(floats=floats, places=places), found)
    if not np.allclose(found[0], 0.3 * floats[:BLOCK] + floats[BLOCK:], atol=1e-5):
        raise RuntimeError("the compiled loops compute something else")
