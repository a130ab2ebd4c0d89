"""SIGKILL at random moments of training and of `translate --out --resume`: the result is that of an undisturbed run."""

import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from .models import RUNS, data_files, train_options
from .trials import PATIENCE, Outcome, WrongError, dice, ended, spawned, verdict_of

_TIMES = ("seconds", "tokens_per_second", "time", "wall", "elapsed", "per_second")  # in the metrics of a step
_ORPHANS = 20.0  # seconds after which no process of a killed run may be left


def contents(folder: Path) -> dict[str, str]:
    """Return a digest of each file, without the times in the metrics and what follows from them."""
    found = {}
    for path in sorted(it for it in folder.rglob("*") if it.is_file()):
        name, content = str(path.relative_to(folder)), path.read_bytes()
        if name in ("manifest.json", "README.md", "loss.png") or name.startswith("checkpoints"):
            content = b""  # they hold digests, times or pictures of the others
        if name == "metrics.jsonl":
            rows = [json.loads(line) for line in content.splitlines()]
            content = json.dumps([_without_times(row) for row in rows]).encode()
        found[name] = hashlib.sha256(content).hexdigest()
    return found


def _without_times(row: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in row.items() if not any(it in key for it in _TIMES)}


def run_to_its_end(arguments: list[str], log: Path, stdin: str = os.devnull, seconds: float = PATIENCE) -> None:
    """Run a command that must succeed."""
    child = spawned(arguments, log, stdin)
    code = ended(child, seconds)
    if code is None:
        os.killpg(child, signal.SIGKILL)
        ended(child, PATIENCE)
        raise WrongError(f"it hung after {seconds:.0f} s: {' '.join(arguments)}\n{_tail(log)}")
    verdict_of(code, _tail(log))
    if code:
        raise WrongError(f"exit code {code}: {' '.join(arguments)}\n{_tail(log)}")


def _tail(log: Path) -> str:
    return log.read_text("utf-8", "replace")[-1500:] if log.exists() else ""


class TrainingKills:
    """SIGKILL at one to three moments of a training run, each followed by --resume."""

    counts = "kills"
    stdin = os.devnull
    killed = 0  # processes in this trial

    def __init__(self, name: str, run: str, weight: float = 1.0, **changes: object) -> None:
        self.name, self.run, self.weight, self.changes = f"kill-{name}", run, weight, changes
        self.processes = int(str(changes.pop("processes", 1)))

    def prepare(self, folder: Path) -> str:
        self.folder = folder
        self.arguments = train_options(self.run, data_files(folder / "data"), **self.changes)
        if self.processes > 1:
            self.arguments.append(f"--processes={self.processes}")
        if (folder / "reference").exists():
            shutil.rmtree(folder / "reference")
        begun = time.monotonic()
        run_to_its_end([*self.arguments, "--out", str(folder / "reference")], folder / "reference.log")
        self.seconds = time.monotonic() - begun
        self.expected = contents(folder / "reference")
        return ""

    def trials(self, numbers: Iterable[int], seed: int) -> Iterator[Outcome]:
        for number in numbers:
            begun, verdict, detail, self.killed = time.monotonic(), "right", "", 0
            room = self.folder / f"trial-{number}"
            shutil.rmtree(room, ignore_errors=True)
            room.mkdir()
            try:
                self._trial(dice(self.name, number, seed), room)
                shutil.rmtree(room)
            except WrongError as error:
                verdict, detail = "wrong", str(error)
            yield Outcome(self.name, number, verdict, detail, time.monotonic() - begun, self.killed)

    def _trial(self, rng: random.Random, room: Path) -> None:
        out, log = room / "run", room / "log"
        for _ in range(rng.choice((1, 1, 2, 3))):
            self._kill(self._started(out), out, log, rng.uniform(0.02, 1.1) * self.seconds)
            self._expect_no_orphan(out)
        run_to_its_end(self._started(out), log)
        found = contents(out)
        if differing := {name for name in {*found, *self.expected} if found.get(name) != self.expected.get(name)}:
            raise WrongError(f"after --resume these files differ: {', '.join(sorted(differing))}\n{_tail(log)}")

    def _started(self, out: Path) -> list[str]:
        """Return the command that begins or continues a run. Without its configuration, there's nothing to continue."""
        has_begun = (out / "config.json").exists() or (out / "checkpoints").exists()
        return [*self.arguments, "--out", str(out), *(["--resume"] if has_begun else [])]

    def _kill(self, arguments: list[str], out: Path, log: Path, seconds: float) -> None:
        child = spawned(arguments, log, self.stdin)
        code = ended(child, seconds)
        if code is None:
            os.kill(child, signal.SIGKILL)  # this process alone: its workers have to notice
            self.killed += ended(child, PATIENCE) == -signal.SIGKILL
        elif code:
            raise WrongError(f"exit code {code}: {' '.join(arguments)}\n{_tail(log)}")

    def _expect_no_orphan(self, out: Path) -> None:
        end = time.monotonic() + _ORPHANS
        while left := _processes(str(out)):
            if time.monotonic() > end:
                for pid in left:
                    with contextlib.suppress(OSError):
                        os.kill(pid, signal.SIGKILL)
                raise WrongError(f"processes {left} live on {_ORPHANS:.0f} s after the one that started them")
            time.sleep(0.05)


def _processes(word: str) -> list[int]:
    """Return the processes whose command line has a word."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if word.encode() in path.read_bytes() and int(path.parent.name) != os.getpid():
                found.append(int(path.parent.name))
    return found


class TranslationKills(TrainingKills):
    """SIGKILL at one to three moments of `translate --out --resume`, with and without workers."""

    def __init__(self, weight: float = 1.0) -> None:
        super().__init__("lines", "translate", weight)

    def prepare(self, folder: Path) -> str:
        self.folder = folder
        files = data_files(folder / "data")
        shutil.rmtree(folder / "model", ignore_errors=True)
        run_to_its_end([*train_options("translate", files), "--out", str(folder / "model")], folder / "model.log")
        lines = [
            f"{it.split(chr(9))[0]} {n}" for n in range(20) for it in files["translate"][0].read_text().splitlines()
        ]
        (folder / "in.txt").write_text("\n".join(lines) + "\n")
        begun = time.monotonic()
        self.stdin = str(folder / "in.txt")
        run_to_its_end(self._command(folder / "reference.txt", 1), folder / "reference.log", self.stdin)
        self.seconds = time.monotonic() - begun
        self.expected = (folder / "reference.txt").read_bytes()
        return "" if self.expected.count(b"\n") == len(lines) else "the reference is incomplete"

    def _command(self, out: Path, workers: int) -> list[str]:
        options = ["--engine=torch", "--beam=1", "--max-len=8", f"--workers={workers}", "--resume"]
        return ["translate", str(self.folder / "model"), "--out", str(out), *options]

    def _trial(self, rng: random.Random, room: Path) -> None:
        out, log = room / "out.txt", room / "log"
        for _ in range(rng.choice((1, 1, 2, 3))):
            arguments = self._command(out, rng.choice((1, 2)))
            self._kill(arguments, out, log, rng.uniform(0.05, 1.1) * self.seconds)
            self._expect_no_orphan(out)
        run_to_its_end(self._command(out, rng.choice((1, 2))), log, self.stdin)
        if out.read_bytes() != self.expected:
            raise WrongError("the file differs from that of an undisturbed run")
        if left := [it.name for it in room.iterdir() if it.name not in ("out.txt", "log")]:
            raise WrongError(f"left behind: {', '.join(left)}")


def kills() -> list[TrainingKills]:
    """Return a kind of kill for every task, and for every way to run it."""
    more: Mapping[str, dict[str, object]] = {
        "default": {"train.steps": 220, "train.save_every": 20, "train.threads": None},
        "memory": {"memory": "2GB"},
        "processes": {"processes": 2},
        "sharded": {"processes": 2, "train.shard": "full"},
    }
    tasks = [TrainingKills(run, run) for run in RUNS]
    return [*tasks, *(TrainingKills(name, "translate", 2.0, **it) for name, it in more.items()), TranslationKills()]
