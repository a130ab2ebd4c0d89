"""Full disks: commands that write to a file system without enough room."""

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from .inputs import trained
from .kills import contents, run_to_its_end
from .models import data_files, train_options
from .trials import PATIENCE, Outcome, WrongError, dice, verdict_of

_MOUNTED = 'mount -t tmpfs -o size="$1" none "$2" && shift 2 && "$@"; code=$?; cp -r "$0/." "$KEPT"; exit $code'


class FullDisks:
    """Training and translation with the output on a file system that fills up."""

    name, counts, weight = "full-disks", "hostile inputs", 2.0

    def prepare(self, folder: Path) -> str:
        if not shutil.which("unshare") or subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
            return "this user can't mount file systems (unshare -rm)"
        self.folder, self.model = folder, trained("translate", folder)
        self.files = data_files(folder / "data")
        self.arguments = train_options("translate", self.files)
        shutil.rmtree(folder / "whole", ignore_errors=True)
        run_to_its_end([*self.arguments, "--out", str(folder / "whole")], folder / "whole.log")
        self.expected = contents(folder / "whole")["model.safetensors"]
        self.size = sum(it.stat().st_size for it in (folder / "whole").rglob("*") if it.is_file())
        return ""

    def trials(self, numbers: Iterable[int], seed: int) -> Iterator[Outcome]:
        for number in numbers:
            begun, verdict, detail = time.monotonic(), "right", ""
            room = self.folder / f"disk-{number}"
            shutil.rmtree(room, ignore_errors=True)
            (room / "disk").mkdir(parents=True)
            (room / "kept").mkdir()
            try:
                self._trial(dice(self.name, number, seed), room)
                shutil.rmtree(room)
            except WrongError as error:
                verdict, detail = "wrong", str(error)
            yield Outcome(self.name, number, verdict, detail, time.monotonic() - begun)

    def _trial(self, rng: random.Random, room: Path) -> None:
        size = rng.randint(1, 2 * self.size // 4096) * 4096
        out = room / "disk" / "out"
        command = [*self.arguments, "--out", str(out)]
        done = self._on_a_small_disk(command, size, room)
        kept = room / "kept" / "out"
        if done.returncode:
            if not (kept / "config.json").exists():
                return
            run_to_its_end([*self.arguments, "--out", str(kept), "--resume"], room / "log")
        if contents(kept)["model.safetensors"] != self.expected:
            raise WrongError(f"other weights after a disk of {size:,} bytes was full")

    def _on_a_small_disk(self, command: list[str], size: int, room: Path) -> "subprocess.CompletedProcess[str]":
        disk, kept = str(room / "disk"), str(room / "kept")
        arguments = [
            "unshare",
            "-rm",
            "sh",
            "-c",
            _MOUNTED,
            disk,
            str(size),
            disk,
            sys.executable,
            "-m",
            "clearhead",
            *command,
        ]
        done = subprocess.run(
            arguments,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            errors="replace",
            env={**os.environ, "KEPT": kept},
        )
        verdict_of(done.returncode, done.stderr)
        return done
