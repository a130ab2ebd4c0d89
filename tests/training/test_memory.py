"""A process keeps the memory that it frees."""

import ctypes
import mmap
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from clearhead.training import memory
from clearhead.training.memory import begin_with_one_heap, keep_freed_memory, resident_bytes

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


@pytest.mark.parametrize("confstr", [lambda name: "musl 1.2", lambda name: None, lambda name: {}[name], None])
def test_nothing_happens_where_the_c_library_is_another(confstr, monkeypatch) -> None:
    def told(name: str) -> str | None:
        try:
            return confstr(name)
        except KeyError as error:
            raise ValueError("unrecognized configuration name") from error

    if confstr is None:
        monkeypatch.delattr(os, "confstr")
    else:
        monkeypatch.setattr(os, "confstr", told)
    monkeypatch.setattr(ctypes, "CDLL", None)
    monkeypatch.setattr(os, "execve", None)
    assert not keep_freed_memory()
    begin_with_one_heap("/bin/clearhead")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has the setting")
def test_training_begins_once_more_without_the_cache_of_small_blocks(tmp_path: Path) -> None:
    look = "import os, sys; print(os.getpid(), os.environ.get('GLIBC_TUNABLES'), sys.argv[1:], sys.flags.optimize)"
    code = "from clearhead.training.memory import begin_with_one_heap as begin; import sys; begin(sys.argv[0]); " + look
    (tmp_path / "clearhead").write_text(code)
    (tmp_path / "another").write_text(code)

    def seen(name: str, **environment: str) -> tuple[bool, str]:
        command = [sys.executable, "-O", str(tmp_path / name), "train", "a b"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | environment) as process:
            assert process.stdout is not None
            pid, _, rest = process.stdout.read().partition(" ")
        return int(pid) == process.pid, rest.strip()

    off, rest = "glibc.malloc.tcache_count=0", "['train', 'a b'] 1"
    assert seen("clearhead") == (True, f"{off} {rest}")
    assert seen("clearhead", GLIBC_TUNABLES="glibc.malloc.mxfast=0") == (True, f"glibc.malloc.mxfast=0:{off} {rest}")
    assert seen("clearhead", GLIBC_TUNABLES="glibc.malloc.tcache_count=3") == (
        True,
        f"glibc.malloc.tcache_count=3 {rest}",
    )
    assert seen("another") == (True, f"None {rest}")


def test_where_it_cannot_begin_again_it_goes_on(monkeypatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "confstr", lambda name: "glibc 2.36")
    monkeypatch.setattr(os, "execve", refused)
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    begin_with_one_heap("/bin/clearhead")


def test_resident_memory_grows_with_what_is_written() -> None:
    before = resident_bytes()
    with mmap.mmap(-1, 50_000_000) as block:  # from the system, whatever freed memory the process has kept
        block[:: mmap.PAGESIZE] = b"x" * len(range(0, len(block), mmap.PAGESIZE))
        assert 45_000_000 < resident_bytes() - before < 60_000_000


def test_without_proc_the_most_so_far_is_told(monkeypatch) -> None:
    now = resident_bytes()
    monkeypatch.setattr(memory, "Path", lambda name: Path("/nowhere") / name.lstrip("/"))
    assert resident_bytes() >= now // 2
