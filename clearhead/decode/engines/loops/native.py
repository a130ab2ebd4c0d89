"""Call the machine code of the loops. It's loaded by LLVM, without numba."""

import ctypes
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
_engines: list[Any] = []  # they own the loaded code


@cache
def loaded(path: Path) -> Entries:
    """Return the compiled functions of a file."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(path.read_bytes()))
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


def check(path: Path) -> None:
    """Raise RuntimeError if the code of a file doesn't compute a linear layer."""
    x, stack, _ = examples()["project"]
    floats, places = np.linspace(-2, 2, 2 * BLOCK, dtype=np.float32), np.zeros((1, SLOPES + 1, 3), np.int64)
    places[0, PROJECTION], places[0, PROJECTION_BIAS] = (0, BLOCK, 1), (BLOCK, 1, BLOCK)
    found, stack.shape["logit_scale"] = np.empty((1, BLOCK), np.float32), 1
    loaded(path).project(x + np.float32(0.3), stack._replace(floats=floats, places=places), found)
    if not np.allclose(found[0], 0.3 * floats[:BLOCK] + floats[BLOCK:], atol=1e-5):
        raise RuntimeError("the compiled loops compute something else")
