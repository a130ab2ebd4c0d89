"""The memory of a training process."""

import ctypes
import os
import sys
from pathlib import Path

_MXFAST, _TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = 1, -1, -2, -4  # the parameters of mallopt, from malloc.h
_PAD = 64 * 2**20  # bytes
_TUNABLES, _NO_CACHE = "GLIBC_TUNABLES", "glibc.malloc.tcache_count=0"

# oneDNN compiles each product for its shape and keeps 1,024 of these, a quarter of a megabyte each. Batches have many
# shapes, and most of what is kept is for one that does not come back soon; one step needs some twenty.
_ONEDNN = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64"}


def begin_with_one_heap(program: str) -> None:
    """Begin this process again, once, where glibc is to be told something that it only hears at the start.

    glibc keeps small blocks that were freed apart, for the thread that freed them. After a training step they lie
    between the large blocks that were freed, which can therefore not become one again: the next step, whose batch has
    another shape, finds no room among them and takes more from the system. With batches of many shapes a process of
    1.4 GB grows for hours to three times as much; without that cache it stays as it is, and is no slower.

    For the first lines of a program of our own, `program` being its path: whatever it did before, it does again.
    """
    told = os.environ.get(_TUNABLES, "")
    ours = Path(program).name in ("clearhead", "__main__.py")
    if not (ours and _is_glibc()) or "tcache_count" in told:
        return
    environment = {**_ONEDNN, **os.environ, _TUNABLES: ":".join(filter(None, (told, _NO_CACHE)))}
    try:
        os.execve(sys.executable, sys.orig_argv, environment)
    except OSError:  # it goes without
        return


def keep_freed_memory() -> bool:
    """Let the process keep what it frees, instead of giving it back to the system; whether that could be arranged.

    A training step frees every large tensor and asks for as much again a moment later. By default the C library maps
    each of them anew, and the system then hands out zeroed pages one fault at a time: up to half of the time of a step
    of a small model. Here large blocks come from the heap, too (no mmap), the heap never shrinks (no trim), it grows by
    64 MiB at a time, and what was freed becomes one block again with its neighbours (no bins of fast blocks). Call it
    before the first step; it works on glibc, elsewhere nothing happens.
    """
    for name, value in _ONEDNN.items():  # heard until the first product
        os.environ.setdefault(name, value)
    if not _is_glibc():
        return False
    library = ctypes.CDLL(None)
    settings = {_MMAP_MAX: 0, _TRIM_THRESHOLD: -1, _TOP_PAD: _PAD, _MXFAST: 0}
    return all(library.mallopt(parameter, value) == 1 for parameter, value in settings.items())


def _is_glibc() -> bool:
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except (AttributeError, ValueError):  # Windows, and C libraries that do not know the name
        return False


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
