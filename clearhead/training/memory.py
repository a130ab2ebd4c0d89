"""The memory of a training process."""

import ctypes
import os

_MXFAST, _TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = 1, -1, -2, -4  # the parameters of mallopt, from malloc.h
_PAD = 64 * 2**20  # bytes

# Each product is compiled for its shape, a quarter of a megabyte, and 1,024 of them are kept by oneDNN and as many by
# what calls it. Batches have many shapes, and most of what is kept is for one that does not come back soon, but lies
# between the large blocks of a step and cuts up the memory for all later ones. The blocks of a model have the same
# shapes, so that what one has compiled serves the next: the products of one block are all that must be kept.
_ONEDNN = {"LRU_CACHE_CAPACITY": "24", "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "24"}


def keep_freed_memory() -> bool:
    """Let the process keep what it frees, instead of giving it back to the system; whether that could be arranged.

    A training step frees every large tensor and asks for as much again a moment later. By default the C library maps
    each of them anew, and the system then hands out zeroed pages one fault at a time: up to half of the time of a step
    of a small model. Here large blocks come from the heap, too (no mmap), the heap never shrinks (no trim), it
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


def _is_glibc() -> bool:
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except (AttributeError, ValueError):  # Windows, and C libraries that do not know the name
        return False
