"""What a trial is, how one is run in a child process, and what its output must not contain."""

import contextlib
import json
import os
import random
import re
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Protocol

PATIENCE = 120.0  # seconds; a trial that takes longer hangs
_TOGETHER = 40  # trials of one child process
# What no user should ever see. Warnings come from libraries that were given what they don't expect.
_FORBIDDEN = re.compile(r"internal error|Traceback \(most recent|panicked at|[A-Z]\w+Warning:|core dumped")


class WrongError(AssertionError):
    """A trial ended in a way that it must not."""


@dataclass(frozen=True)
class Outcome:
    """The end of one trial: right, wrong, traceback, crash or hang."""

    kind: str
    number: int
    verdict: str
    detail: str = ""
    seconds: float = 0.0
    count: int = 1  # kills in it, or inputs

    def line(self) -> str:
        return json.dumps(vars(self))


class Kind(Protocol):
    """One kind of trial. Trial n of a seed is always the same."""

    name: str
    counts: str  # the column that it counts in
    weight: float  # its share of the time

    def prepare(self, folder: Path) -> str:
        """Make what all trials share. Return why there can be none on this machine, or ""."""

    def trials(self, numbers: Iterable[int], seed: int) -> Iterator[Outcome]:
        """Run some trials."""


def dice(kind: str, number: int, seed: int) -> random.Random:
    """The random numbers of one trial."""
    return random.Random(f"{seed} {kind} {number}")


def verdict_of(code: int, output: str) -> None:
    """Raise WrongError if a command ended in a way that no command may end."""
    if found := _FORBIDDEN.search(output):
        raise WrongError(f"{found.group()} in: {output[max(0, found.start() - 300) :][:900]}")
    if code not in (0, 1, 2):
        raise WrongError(f"exit code {code}: {output[-600:]}")
    if code and "error:" not in output:
        raise WrongError(f"exit code {code} without an error: {output[-600:]}")


@dataclass(frozen=True)
class Called:
    """What a command line did."""

    code: int
    out: bytes
    err: str

    def checked(self) -> "Called":
        verdict_of(self.code, self.err)
        return self


def call(*arguments: object, stdin: bytes = b"") -> Called:
    """Run a command line in this process. Its streams are files, so that what C and Rust print is seen, too."""
    from clearhead.cli import main

    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
        streams[0].write(stdin)
        streams[0].seek(0)
        kept = [os.dup(number) for number in range(3)]
        python = sys.stdin, sys.stdout, sys.stderr
        try:
            for number, stream in enumerate(streams):
                os.dup2(stream.fileno(), number)
            sys.stdin, sys.stdout, sys.stderr = (
                os.fdopen(os.dup(number), mode, encoding="utf-8", errors="surrogateescape")
                for number, mode in enumerate(("r", "w", "w"))
            )
            code = main(list(map(str, arguments)))
            for stream in (sys.stdin, sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, ValueError):
                    stream.close()
        finally:
            sys.stdin, sys.stdout, sys.stderr = python
            for number, descriptor in enumerate(kept):
                os.dup2(descriptor, number)
                os.close(descriptor)
        for stream in streams:
            stream.seek(0)
        return Called(code, streams[1].read(), streams[2].read().decode("utf-8", "replace"))


class InProcess:
    """Trials that run one after the other in a child process, which is replaced when it dies or hangs."""

    name = ""
    counts = "hostile inputs"
    weight = 1.0
    folder: Path

    def prepare(self, folder: Path) -> str:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        return ""

    def trial(self, rng: random.Random, room: Path) -> None:
        """Run one trial in an empty folder, which is the current one. Raise WrongError if something is wrong."""
        raise NotImplementedError

    def trials(self, numbers: Iterable[int], seed: int) -> Iterator[Outcome]:
        left, waiting = iter(numbers), list[int]()
        while waiting or (waiting := list(islice(left, _TOGETHER))):
            done = 0
            for outcome in _forked(self, waiting, seed):
                done += 1
                yield outcome
            waiting = waiting[done:]


def _forked(kind: InProcess, numbers: list[int], seed: int) -> Iterator[Outcome]:
    """Run trials in one child process, until one kills it."""
    read, write = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if not child:
        os.close(read)
        _work(kind, numbers, seed, write)
        os._exit(0)
    os.close(write)
    begun = time.monotonic()
    with os.fdopen(read, "rb", buffering=0) as lines:
        rest = b""
        for number in numbers:
            while b"\n" not in rest:
                ready = select.select([lines], [], [], max(0.0, begun + PATIENCE - time.monotonic()))[0]
                block = lines.read(1 << 16) if ready else b""
                if not block:
                    os.kill(child, signal.SIGKILL)
                    status = os.waitpid(child, 0)[1]
                    end = os.waitstatus_to_exitcode(status)
                    verdict, detail = ("crash", f"ended with {end}") if ready else ("hang", f"{PATIENCE:.0f} s")
                    yield Outcome(kind.name, number, verdict, detail, time.monotonic() - begun)
                    return
                rest += block
            line, _, rest = rest.partition(b"\n")
            begun = time.monotonic()
            yield Outcome(**json.loads(line))
    os.waitpid(child, 0)


def _work(kind: InProcess, numbers: list[int], seed: int, write: int) -> None:
    os.setpgid(0, 0)
    for number in numbers:
        begun, verdict, detail = time.monotonic(), "right", ""
        with tempfile.TemporaryDirectory() as room:
            os.chdir(room)
            try:
                kind.trial(dice(kind.name, number, seed), Path(room))
            except WrongError as error:
                verdict, detail = "wrong", str(error)
            except BaseException:
                verdict, detail = "traceback", traceback.format_exc()[-1500:]
            os.chdir("/")
        outcome = Outcome(kind.name, number, verdict, detail, time.monotonic() - begun)
        os.write(write, f"{outcome.line()}\n".encode())


def spawned(arguments: list[str], log: Path, stdin: str = os.devnull) -> int:
    """Fork a child that runs a command line, with its messages in a file and a process group of its own."""
    from clearhead.cli import main

    sys.stdout.flush()
    child = os.fork()
    if child:
        with contextlib.suppress(OSError):  # the child may have done it, or ended
            os.setpgid(child, child)
        return child
    code = 99
    try:
        os.setpgid(0, 0)
        with log.open("ab") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        os.dup2(os.open(stdin, os.O_RDONLY), 0)
        sys.stdin = os.fdopen(0, closefd=False)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", closefd=False, buffering=1)
        code = main(arguments)
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def ended(child: int, seconds: float) -> int | None:
    """Wait for a child, at most so long. Return its exit code, or None if it's still running."""
    end = time.monotonic() + seconds
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= end:
            return None
        time.sleep(0.002)


# --- material


ODD = (
    "", " ", "-1", "0", "1", "2", "00", "1e400", "-1e400", "nan", "inf", "-inf", "1e-400", "0.5", "1_2", "0x10",
    "1e3", "½", "٣", "9" * 400, "true", "None", "null", "[]", "{}", "[1, 2]", "a", "a=b", "a,b", ".", "..", "-", "--",
    "\t", "\n", "🎉", "a" * 10_000, "\x1b[2J", "%s", "{0}", "../x", "1:2", "é", "\u202e", "-0.0",
    "18446744073709551616",
)  # fmt: skip

ODD_VALUES = (
    None, True, False, 0, 1, -1, 3, 2**63, 10**400, 0.5, float("nan"), float("inf"), -1e308, "", "a", "\ud800", "\0",
    b"a", [], [1], ["a"], (), {}, {"a": 1}, {1: 2}, set(), object(), int, [[]], [None], "x" * 100_000, 1j, range(3),
)  # fmt: skip

_BLOCKS = (
    b"\0", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\t", b",", b";", b"|", b'"', b'""', b"\n", b"\r", b"\r\n", b"{",
    b"}", b"[", b"]", b":", b"\\", b"\\ud800", b"1e999", b"NaN", b"null", b"\x1b[31m", b"\xc2\x85", b"\xe2\x80\xa8",
    b"PK\x03\x04", b"\x1f\x8b", b"\xfd7zXZ\0", b"<|endoftext|>", b"\xf0\x9f\x8e\x89", b"A" * 300, b"\t" * 300,
    b"[" * 2000,
)  # fmt: skip


def mutated(content: bytes, rng: random.Random) -> bytes:
    """Change some content in one to four places."""
    whole = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        place = rng.randrange(len(whole) + 1)
        length = min(rng.choice((1, 1, 4, 30, 200)), len(whole) - place)
        match rng.randrange(7):
            case 0 if place < len(whole):
                whole[place] ^= 1 << rng.randrange(8)
            case 1:
                del whole[place : place + length]
            case 2:
                whole[place:place] = rng.choice(_BLOCKS)
            case 3:
                whole[place : place + length] = rng.choice(_BLOCKS)
            case 4:
                whole[place:place] = whole[place : place + length] * rng.choice((1, 3, 20))
            case 5:
                del whole[place:]
            case _:
                whole[place:place] = rng.randbytes(length)
    return bytes(whole)
