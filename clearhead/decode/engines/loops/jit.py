"""Mark the loops that are compiled to machine code.

They stay plain Python functions here, which give the same results, slowly. `compiler` compiles them in a process of its
own, so that using the machine code needs no numba.
"""

import importlib.util
import os
from collections.abc import Callable
from typing import Any, TypeVar

SYMBOL = "clearhead_loops"  # the name of the compiled function
F = TypeVar("F", bound=Callable[..., Any])

decorators: list[Callable[[Any], Any]] = []
"""Decorators for the functions that numba compiles: one in the process of `compiler`, and none elsewhere."""


def compiled(function: F) -> F:
    """Mark a function of arrays and numbers. It runs without Python's lock."""
    for decorate in decorators:
        function = decorate(function)
    return function


def is_disabled() -> bool:
    """Return whether the loops run as Python, by NUMBA_DISABLE_JIT."""
    return (os.environ.get("NUMBA_DISABLE_JIT") or "0") != "0"


def has(feature: str) -> bool:
    """Return whether the loops are compiled for a processor that has a feature, by LLVM's name."""
    if is_disabled() or importlib.util.find_spec("llvmlite") is None:
        return False
    from llvmlite.binding import get_host_cpu_features

    return bool(get_host_cpu_features().get(feature, False))
