"""A process keeps the memory that it frees."""

import ctypes
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from clearhead.training import memory
from clearhead.training.memory import keep_freed_memory, memory_in_use, peak_memory, release_freed_memory

CPU = torch.device("cpu")

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


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells the memory of a process")
def test_the_peak_of_a_call_is_measured_even_after_a_larger_one() -> None:
    size = 200_000_000

    def takes(n: int) -> int:
        release_freed_memory()
        before = memory_in_use(CPU)
        peak = peak_memory(CPU, lambda: bytearray(n).count(1))
        assert before is not None and peak is not None
        return peak - before

    assert takes(2 * size) == pytest.approx(2 * size, rel=0.1)
    assert takes(size) == pytest.approx(size, rel=0.1)


def test_other_systems_do_not_tell(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(memory, "_STATUS", tmp_path / "none" / "status")
    monkeypatch.setattr(memory, "_CLEAR", tmp_path / "none" / "clear_refs")
    assert memory_in_use(CPU) is None
    assert peak_memory(CPU, lambda: None) is None


def test_the_memory_of_a_gpu_is_what_torch_has_reserved(monkeypatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 7)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: calls.append("reset"))
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda device: 9)
    gpu = torch.device("cuda")
    assert (memory_in_use(gpu), peak_memory(gpu, lambda: calls.append("step"))) == (7, 9)
    assert calls == ["reset", "step"]
