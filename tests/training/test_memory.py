"""A process keeps the memory that it frees."""

import ctypes
import mmap
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from clearhead.cli import entry
from clearhead.training import memory
from clearhead.training.memory import (
    begin_with_one_heap,
    give_back_freed_memory,
    keep_freed_memory,
    resident_bytes,
)

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


HOLES = """
from clearhead.training.memory import give_back_freed_memory, keep_freed_memory, resident_bytes
keep_freed_memory()
blocks = [bytearray(b"x" * 100_000) for _ in range(2000)]
del blocks[::2]
before = resident_bytes()
give_back_freed_memory()
print(before - resident_bytes())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has malloc_trim")
def test_what_was_freed_between_other_blocks_can_be_given_back() -> None:
    given_back = int(subprocess.run([sys.executable, "-c", HOLES], stdout=subprocess.PIPE, check=True).stdout)
    assert given_back > 0.8 * 1000 * 100_000


def no_name(name: str) -> str:
    raise ValueError("unrecognized configuration name")


@pytest.mark.parametrize("confstr", [lambda name: "musl 1.2", lambda name: None, no_name, None])
def test_nothing_happens_where_the_c_library_is_another(confstr, monkeypatch) -> None:
    if confstr is None:
        monkeypatch.delattr(os, "confstr")
    else:
        monkeypatch.setattr(os, "confstr", confstr)
    monkeypatch.setattr(ctypes, "CDLL", None)
    monkeypatch.setattr(os, "execve", None)
    monkeypatch.setattr(os, "environ", {})
    assert not keep_freed_memory()
    give_back_freed_memory()
    begin_with_one_heap("/bin/clearhead")


@pytest.mark.parametrize(("own", "expected"), [({}, "64"), ({"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "9"}, "9")])
def test_few_compiled_products_are_kept_unless_somebody_wants_more(own, expected: str, monkeypatch) -> None:
    monkeypatch.setattr(os, "environ", own)
    keep_freed_memory()
    assert own["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == expected


OFF = "glibc.malloc.tcache_count=0"
LOOK = """
import os, sys
from clearhead.training.memory import begin_with_one_heap
begin_with_one_heap(sys.argv[0])
print(os.getpid(), os.environ.get("GLIBC_TUNABLES"), sys.argv[1:], sys.flags.optimize, "CLEARHEAD_BEGAN" in os.environ)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has the setting")
@pytest.mark.parametrize(
    ("name", "told", "then"),
    [
        ("clearhead", None, OFF),
        ("clearhead", "glibc.malloc.mxfast=0", f"glibc.malloc.mxfast=0:{OFF}"),
        ("clearhead", "glibc.malloc.tcache_count=3", "glibc.malloc.tcache_count=3"),
        ("another", None, None),
        ("__main__.py", None, None),
    ],
)
def test_training_begins_once_more_without_the_cache_of_small_blocks(tmp_path, name: str, told, then) -> None:
    (tmp_path / name).write_text(LOOK)
    environment = {key: value for key, value in os.environ.items() if key != "GLIBC_TUNABLES"}
    environment |= {"GLIBC_TUNABLES": told} if told else {}
    command = [sys.executable, "-O", str(tmp_path / name), "train", "a b"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.read() == f"{process.pid} {then} ['train', 'a b'] 1 False\n"


def test_it_begins_again_once_whatever_becomes_of_its_environment(monkeypatch) -> None:
    begun: list[dict[str, str]] = []
    monkeypatch.setattr(os, "confstr", lambda name: "glibc 2.36")
    monkeypatch.setattr(os, "environ", {"HOME": "/"})
    monkeypatch.setattr(os, "execve", lambda path, arguments, environment: begun.append(environment))
    begin_with_one_heap("/bin/clearhead")
    assert begun[0]["GLIBC_TUNABLES"] == OFF and begun[0]["HOME"] == "/"
    os.environ.update({name: value for name, value in begun[0].items() if name != "GLIBC_TUNABLES"})
    begin_with_one_heap("/bin/clearhead")
    assert len(begun) == 1 and "CLEARHEAD_BEGAN" not in os.environ


def test_where_it_cannot_begin_again_it_goes_on(monkeypatch) -> None:
    asked: list[str] = []

    def refused(path: str, *_: object) -> None:
        asked.append(path)
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "confstr", lambda name: "glibc 2.36")
    monkeypatch.setattr(os, "environ", {})
    monkeypatch.setattr(os, "execve", refused)
    begin_with_one_heap("/bin/clearhead")
    assert asked == [sys.executable]


@pytest.mark.parametrize(
    ("arguments", "again"),
    [(["train", "a.tsv"], True), (["demo"], True), (["train", "--help"], False), (["info", "x"], False), ([], False)],
)
def test_the_command_line_begins_again_for_training(arguments: list[str], again: bool, monkeypatch) -> None:
    begun: list[str] = []
    monkeypatch.setattr(entry, "begin_with_one_heap", begun.append)
    monkeypatch.setattr(entry, "_end_at_signals", lambda: None)
    monkeypatch.setattr(entry, "_run", lambda arguments: 0)
    monkeypatch.setattr(sys, "argv", ["/bin/clearhead", *arguments])
    assert entry.main() == 0
    assert begun == (["/bin/clearhead"] if again else [])


def test_resident_memory_grows_with_what_is_written() -> None:
    before = resident_bytes()
    with mmap.mmap(-1, 50_000_000) as block:  # from the system, whatever freed memory the process has kept
        block[:: mmap.PAGESIZE] = b"x" * len(range(0, len(block), mmap.PAGESIZE))
        assert 45_000_000 < resident_bytes() - before < 60_000_000


def test_without_proc_the_most_so_far_is_told(monkeypatch) -> None:
    now = resident_bytes()
    monkeypatch.setattr(memory, "Path", lambda name: Path("/nowhere") / name.lstrip("/"))
    assert resident_bytes() >= now // 2
