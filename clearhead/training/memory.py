"""The memory of a training process."""

import ctypes
import sys
from pathlib import Path

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # the parameters of mallopt, from malloc.h
_PAD = 64 * 2**20  # bytes


def keep_freed_memory() -> bool:
    """Let the process keep what it frees, instead of giving it back to the system; whether that could be arranged.

    A training step frees every large tensor and asks for as much again a moment later. By default the C library maps
    each of them anew, and the system then hands out zeroed pages one fault at a time: up to half of the time of a step
    of a small model. Here large blocks come from the heap, too (no mmap), the heap never shrinks (no trim), and it
    grows by 64 MiB at a time. Call it before the first step; it works on glibc, elsewhere nothing happens.
    """
    if not sys.platform.startswith("linux"):
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):  # musl, bionic
        return False
    settings = {_MMAP_MAX: 0, _TRIM_THRESHOLD: -1, _TOP_PAD: _PAD}
    return all(library.mallopt(parameter, value) == 1 for parameter, value in settings.items())


def resident_bytes() -> int:
    """How much memory the process occupies now, in bytes; where the system only tells the most so far, that."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    if sys.platform == "win32":
        return 0
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
