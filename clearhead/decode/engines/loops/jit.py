"""Compile plain loops with numba, and keep the machine code on disk.

Without numba, or with NUMBA_DISABLE_JIT=1, the same functions run as Python: slowly, but with equal results.
"""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

try:
    import numba as _numba

    numba: Any = _numba
except ImportError:
    numba = None

# Sums may be reordered, so that they fit wide registers. Infinity and NaN keep their meaning.
_FAST = {"reassoc", "contract", "nsz", "arcp"}


def enabled() -> bool:
    """Return whether functions are compiled."""
    return numba is not None and not numba.config.DISABLE_JIT


def compiled(function: F) -> F:
    """Compile a function of arrays and numbers on its first call. It runs without Python's lock."""
    if not enabled():
        return function
    numba.config.CACHE_DIR = str(_CACHE)
    made: Any = numba.njit(nogil=True, cache=True, fastmath=_FAST, error_model="numpy")(function)
    template = made.get_call_template
    # By default, a function called with ten constants is compiled ten times.
    made.get_call_template = lambda args, kws: template([numba.types.unliteral(arg) for arg in args], kws)
    return cast(F, made)


def _cache() -> Path:
    """Return the folder for machine code, which depends on the source: numba only looks at a function's own file."""
    source = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "clearhead" / f"loops-{hashlib.sha256(source).hexdigest()[:16]}"


_CACHE = _cache()


def has(feature: str) -> bool:
    """Return whether functions are compiled, and the processor has a feature, by LLVM's name."""
    if not enabled():
        return False
    from llvmlite.binding import get_host_cpu_features

    return bool(get_host_cpu_features().get(feature, False))
