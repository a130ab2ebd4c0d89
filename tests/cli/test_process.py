"""What only a process of its own can show: what it imports, pipes, and signals."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

import clearhead

PROGRAM = [sys.executable, "-m", "clearhead"]
PATIENCE = 60  # seconds for what takes one


@contextmanager
def translating(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`clearhead translate` as a co-process, which is ended with the block."""
    command = [*PROGRAM, "translate", str(folder), "--threads", "1"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # A shell starts what it runs in the background with Ctrl-C ignored, and that is inherited.
    with subprocess.Popen(command, **pipes, preexec_fn=_hear_ctrl_c) as process:  # type: ignore[call-overload]
        try:
            yield process
        finally:
            process.kill()


def _hear_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def answer(process: subprocess.Popen[bytes], line: str) -> str:
    """Write a line and wait for the line that answers it."""
    given, told = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
    given.write(line.encode() + b"\n")
    given.flush()
    return told.readline().decode().removesuffix("\n")


def test_help_needs_little_of_the_standard_library_and_nothing_else() -> None:
    # What help costs is what it imports: this much takes less than a quarter of a second on any machine.
    script = "import sys; from clearhead.cli import main; main(['--help']); print(*sys.modules)"
    command = [sys.executable, "-S", "-c", script]  # without site-packages, whose start-up files import modules, too
    done = subprocess.run(command, capture_output=True, check=True, cwd=Path(clearhead.__file__).parents[1], text=True)
    *page, modules = done.stdout.splitlines()
    assert page[0] == "usage: clearhead COMMAND ..."
    imported = set(modules.split())
    assert not imported & {"asyncio", "bz2", "email", "hashlib", "importlib.metadata", "lzma", "multiprocessing"}
    assert not imported & {"shutil", "socket", "subprocess", "tempfile", "typing_extensions", "unittest", "zipfile"}
    rooms = {name.split(".")[1] for name in imported if name.startswith("clearhead.")}
    # two names of views, and the limits of a server
    assert rooms <= {"cli", "config", "errors", "inspection", "serving", "version"}
    assert len(imported) < 200


def test_a_dialogue_line_by_line_is_answered_line_by_line_and_sigterm_ends_it(model_folder: Path) -> None:
    app = clearhead.load(model_folder)
    with translating(model_folder) as process:
        assert answer(process, "I am hungry.") == app("I am hungry.")
        assert answer(process, "") == ""
        assert answer(process, "She sings.") == app("She sings.")
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=PATIENCE)
    assert (process.returncode, said) == (143, b"stopped by SIGTERM\n")


def test_ctrl_c_ends_it_without_a_traceback(model_folder: Path) -> None:
    with translating(model_folder) as process:
        answer(process, "I am hungry.")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE)
    assert (process.returncode, said) == (130, b"stopped by Ctrl-C\n")


def test_a_signal_while_libraries_are_loaded_is_not_lost(model_folder: Path) -> None:
    with translating(model_folder) as process:
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=PATIENCE)  # ends its input, too: a lost signal would end with 0
    assert (process.returncode in (143, -signal.SIGTERM), out) == (True, b"")


def test_the_installed_program_is_the_same_in_any_locale(tmp_path: Path) -> None:
    program = shutil.which("clearhead", path=str(Path(sys.executable).parent))
    command = [program] if program else PROGRAM
    environment = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    file = tmp_path / "run.toml"
    file.write_text('[data]\nname = "é\u2192"\n', encoding="utf-8")
    done = subprocess.run([*command, "train", "--print-config", "--config", file], capture_output=True, env=environment)
    assert done.returncode == 0
    assert 'name = "é\u2192"'.encode() in done.stdout


def test_a_reader_that_left_leaves_no_trace_on_stderr() -> None:
    with subprocess.Popen([*PROGRAM, "train", "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        cast("IO[bytes]", process.stdout).close()
        said = cast("IO[bytes]", process.stderr).read()
    assert (process.returncode, said) == (0, b"")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*PROGRAM, "--help"], stdout=full, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (1, b"error: input or output: No space left on device\n")


def test_messages_that_nobody_reads_leave_the_exit_code_alone(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text('[train]\ntask = "translate"\n')
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [*PROGRAM, "train", "--print-config", "--config", str(tmp_path / "run.toml")]
    with subprocess.Popen(command, **pipes) as process:  # type: ignore[call-overload]
        process.stderr.close()
        assert process.stdout.read().startswith(b"[model]")
    assert process.returncode == 0


def test_closed_streams_are_told_apart() -> None:
    def shell(more: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(["sh", "-c", f"'{sys.executable}' -m clearhead demo --list{more}"], capture_output=True)

    heard, without_stderr, without_stdout, head = map(shell, ("", " 2>&-", " >&-", " | head -n 1"))
    assert (heard.returncode, heard.stderr) == (0, b"")
    assert (without_stderr.returncode, without_stderr.stdout) == (0, heard.stdout)
    assert without_stdout.returncode == 1 and b"standard output" in without_stdout.stderr
    assert (head.returncode, head.stderr, head.stdout) == (0, b"", heard.stdout.splitlines(keepends=True)[0])
