"""`clearhead translate` over many lines, killed as a machine that loses its power or its memory kills it."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from clearhead.cli import main
from clearhead.cli.lines.answering import CAN_FORK

pytestmark = pytest.mark.skipif(not CAN_FORK, reason="worker processes need Linux")
OPTIONS = ["--engine", "torch", "--beam", "1", "--max-len", "4"]
PATIENCE = 120  # seconds


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    words = ["I", "am", "hungry", "She", "sings", "We", "are", "here"]
    lines = [" ".join(words[(n * step) % 8] for step in range(1, 2 + n % 7)) + f" {n}." for n in range(4000)]
    path = tmp_path_factory.mktemp("source") / "in.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def started(folder: Path, source: Path, *more: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "clearhead", "translate", str(folder), *OPTIONS, *map(str, more)]
    with source.open("rb") as file:
        return subprocess.Popen(command, stdin=file, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def ended(process: subprocess.Popen[bytes]) -> bytes:
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (0, b"")
    return out


@pytest.fixture(scope="module")
def alone(model_folder: Path, source: Path) -> bytes:
    """The answers without workers."""
    out = source.with_name("alone.txt")
    with source.open() as file, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", file)
        assert main(["translate", str(model_folder), *OPTIONS, "--workers", "1", "--out", str(out)]) == 0
    return out.read_bytes()


def children(process: subprocess.Popen[bytes]) -> list[int]:
    return [int(it) for it in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def test_workers_give_the_same_lines_and_may_be_killed(model_folder: Path, source: Path, alone: bytes) -> None:
    process, killed = started(model_folder, source, "--workers", 2), set[int]()
    end = time.monotonic() + PATIENCE
    while len(killed) < 3 and process.poll() is None and time.monotonic() < end:
        for child in [it for it in children(process) if it not in killed][:1]:
            time.sleep(0.1)
            with suppress(ProcessLookupError):  # it was done first
                os.kill(child, signal.SIGKILL)
                killed.add(child)
    assert killed
    assert ended(process) == alone


def test_a_run_killed_at_any_moment_is_continued_to_the_same_file(
    model_folder: Path, source: Path, alone: bytes, tmp_path: Path
) -> None:
    out, record, counts = tmp_path / "out.txt", tmp_path / "out.txt.progress", []
    for moment in range(4):
        process = started(model_folder, source, "--workers", 2, "--out", out, "--resume")
        end = time.monotonic() + PATIENCE
        while not out.exists() and time.monotonic() < end:
            time.sleep(0.01)
        before = out.stat().st_size
        while process.poll() is None and out.stat().st_size == before and moment % 2 and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.05 * moment)
        process.kill()
        process.communicate(timeout=PATIENCE)
        if not record.exists():
            break
        counts.append(json.loads(record.read_bytes())["lines"])
    if record.exists():
        ended(started(model_folder, source, "--workers", 2, "--out", out, "--resume"))
    assert counts and counts == sorted(counts)
    assert out.read_bytes() == alone
    assert not record.exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--resume"], "--resume needs --out"),
        (["--workers", "none"], "--workers none isn't valid"),
        (["--workers", "0"], "--workers 0 isn't valid"),
        (["--workers", "2", "--threads", "2"], "a worker has one thread"),
        (["--workers", "2", "--stream"], "--stream can't be combined with --out or --workers"),
    ],
)
def test_options_that_contradict_each_other_are_errors(
    model_folder: Path, source: Path, options: list[str], said: str
) -> None:
    process = started(model_folder, source, *options)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2 and said in err.decode()


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_lines(model_folder: Path, source: Path, tmp_path: Path) -> None:
    def peak(copies: int) -> int:
        path = tmp_path / f"{copies}.txt"
        path.write_bytes(source.read_bytes() * copies)
        code = "import sys, resource\nfrom clearhead.cli import main\ncode = main(sys.argv[1:])\n"
        code += "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)\nsys.exit(code)"
        command = [sys.executable, "-c", code, "translate", str(model_folder), *OPTIONS, "--workers", "2"]
        with path.open("rb") as file:
            done = subprocess.run(command, stdin=file, capture_output=True, check=True)
        assert done.stdout.count(b"\n") == 4000 * copies
        return int(done.stderr)

    assert peak(13) - peak(2) < 16_000  # kB; 52,000 lines against 8,000
