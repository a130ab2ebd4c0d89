"""The memory of a training process."""

import ctypes
import os
import sys
from contextlib import suppress
from pathlib import Path

_MXFAST, _TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = 1, -1, -2, -4  # the parameters of mallopt, from malloc.h
_PAD = 64 * 2**20  # bytes
_TUNABLES, _NO_CACHE = "GLIBC_TUNABLES", "glibc.malloc.tcache_count=0"
_BEGAN = "CLEARHEAD_BEGAN"  # holds the number of a process that has begun again, which stays the same

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
    has_begun = os.environ.pop(_BEGAN, "") == str(os.getpid())  # whatever became of the rest of the environment
    told, path = os.environ.get(_TUNABLES, ""), Path(program)
    ours = path.name == "clearhead" or (path.name == "__main__.py" and path.parent.name == "clearhead")
    if has_begun or not ours or not _is_glibc() or "tcache_count" in told:
        return
    environment = {**_ONEDNN, **os.environ, _BEGAN: str(os.getpid())}
    environment[_TUNABLES] = ":".join(filter(None, (told, _NO_CACHE)))
    with suppress(OSError):  # then it goes without
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)


def keep_freed_memory() -> bool:
    """Let the process keep what it frees, instead of giving it back to the system; whether that could be arranged.

    A training step frees every large tensor and asks for as much again a moment later. By default the C library maps
    each of them anew, and the system then hands out zeroed pages one fault at a time: up to half of the time of a step
    of a small model. Here large blocks come from the heap, too (no mmap), the heap shrinks only when told (no trim), it
    grows by 64 MiB at a time, and what was freed becomes one block again with its neighbours (no bins of fast blocks).
    Call it before the first step; it works on glibc, elsewhere nothing happens.
    """
    for name, value in _ONEDNN.items():  # heard until the first product
        os.environ.setdefault(name, value)
    if not _is_glibc():
        return False
    library = ctypes.CDLL(None)
    settings = {_MMAP_MAX: 0, _TRIM_THRESHOLD: -1, _TOP_PAD: _PAD, _MXFAST: 0}
    return all(library.mallopt(parameter, value) == 1 for parameter, value in settings.items())


def give_back_freed_memory() -> None:
    """Give the pages that nothing lies on back to the system; what is needed again costs a page fault each.

    What a step leaves free is cut up by the little that stays, and by something else every time, so that in the course
    of hours every page is used once. A minute apart this costs nothing that could be measured.
    """
    if _is_glibc():
        ctypes.CDLL(None).malloc_trim(0)


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
