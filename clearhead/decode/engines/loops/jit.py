"""Compile plain loops with numba, and keep the machine code on disk.

Without numba, or with NUMBA_DISABLE_JIT=1, the same functions run as Python: slowly, but with equal results.
"""

import importlib
import importlib.util
import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

from .machine_code import machine_code_folder

F = TypeVar("F", bound=Callable[..., Any])

try:
    import numba as _numba

    numba: Any = _numba
except ImportError:
    numba = None

_BLAS = "scipy.linalg"


def _skip_scipy() -> None:
    """Import the part of numba that looks for BLAS in SciPy, but without SciPy, which takes 0.1 s to import.

    The loops don't need BLAS. Other functions still find it when they're compiled.
    """
    if numba is None or _BLAS in sys.modules or importlib.util.find_spec("scipy") is None:
        return
    cast(Any, sys.modules)[_BLAS] = None
    try:
        found: Any = importlib.import_module("numba.np.arraymath")
    finally:
        del sys.modules[_BLAS]
    found._HAVE_BLAS = True


_skip_scipy()

_KNOWN = "0.68."  # the version of numba whose internals are used below

# Sums may be reordered, so that they fit wide registers. Infinity and NaN keep their meaning.
_FAST = {"reassoc", "contract", "nsz", "arcp"}


def enabled() -> bool:
    """Return whether functions are compiled."""
    return numba is not None and not numba.config.DISABLE_JIT


def compiled(function: F) -> F:
    """Compile a function of arrays and numbers on its first call. It runs without Python's lock."""
    if not enabled():
        return function
    numba.config.CACHE_DIR = str(machine_code_folder())
    made: Any = numba.njit(nogil=True, cache=True, fastmath=_FAST, error_model="numpy")(function)
    template = made.get_call_template
    # By default, a function called with ten constants is compiled ten times.
    made.get_call_template = lambda args, kws: template([numba.types.unliteral(arg) for arg in args], kws)
    if numba.__version__.startswith(_KNOWN):
        _load_directly(made._cache)
        made._cache._cache_file._source_stamp = None  # the name of the folder depends on the sources already
    return cast(F, made)


def _load_directly(cache: Any) -> None:
    """Let machine code be loaded without numba's knowledge of types, which takes 0.3 s to prepare.

    It's only needed to compile, and the compiler prepares it itself. Machine code needs numba's memory management.
    """

    def load_overload(signature: Any, target: Any) -> Any:
        importlib.import_module("numba.core.runtime").rtsys.initialize(target)
        with cache._guard_against_spurious_io_errors():
            return cache._load_overload(signature, target)

    cache.load_overload = load_overload


def has(feature: str) -> bool:
    """Return whether functions are compiled, and the processor has a feature, by LLVM's name."""
    if not enabled():
        return False
    from llvmlite.binding import get_host_cpu_features

    return bool(get_host_cpu_features().get(feature, False))
