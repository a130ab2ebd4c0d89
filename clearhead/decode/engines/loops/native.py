"""Call the machine code of the loops. It's loaded by LLVM, without numba."""

import ctypes
import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from .entries import Entries, examples, kind, leaves, packed
from .jit import SYMBOL
from .stack_parts import PROJECTION, PROJECTION_BIAS, SLOPES
from .tiles import BLOCK

_Call = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
_DIGEST = 32  # bytes of SHA-256
_engines: list[Any] = []  # they own the loaded code


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
    kinds = [kind(value) for value in leaves(example)]

    def function(*arguments: Any) -> None:
        numbers, result, problem = packed(arguments, kinds), ctypes.c_void_p(), ctypes.c_void_p()
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
