"""A process keeps the memory that it frees."""

import ctypes
import os
import platform
import subprocess
import sys

import pytest

from clearhead.training.memory import keep_freed_memory

FAULTS = """
import resource, sys
from clearhead.training.memory import keep_freed_memory
assert sys.argv[1] == "no" or keep_freed_memory()
def faults(n):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(n):
        bytearray(50_000_000)  # as a step that allocates, writes and frees
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults(2)
print(faults(5))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has mallopt")
def test_a_block_that_was_freed_is_handed_out_again_without_page_faults() -> None:
    faults = {
        keep: int(subprocess.run([sys.executable, "-c", FAULTS, keep], stdout=subprocess.PIPE, check=True).stdout)
        for keep in ("yes", "no")
    }
    pages = 5 * 50_000_000 // 4096
    assert faults["yes"] < pages / 100 < faults["no"]


def no_name(name: str) -> str:
    raise ValueError("unrecognized configuration name")


@pytest.mark.parametrize("confstr", [lambda name: "musl 1.2", lambda name: None, no_name, None])
def test_nothing_happens_where_the_c_library_is_another(confstr, monkeypatch) -> None:
    if confstr is None:
        monkeypatch.delattr(os, "confstr")
    else:
        monkeypatch.setattr(os, "confstr", confstr)
    monkeypatch.setattr(ctypes, "CDLL", None)
    monkeypatch.setattr(os, "environ", {})
    assert not keep_freed_memory()


@pytest.mark.parametrize(("own", "expected"), [({}, "24"), ({"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "9"}, "9")])
def test_few_compiled_products_are_kept_unless_somebody_wants_more(own, expected: str, monkeypatch) -> None:
    monkeypatch.setattr(os, "environ", own)
    keep_freed_memory()
    assert own == {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": expected, "LRU_CACHE_CAPACITY": "24"}
