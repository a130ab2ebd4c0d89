"""Measure how fast data is prepared for training, and the peak memory of training (Linux only).

    python benchmarks/store.py --pairs 5000000 --tokens 14
    python benchmarks/store.py --text 1024                # MiB of running text, for a language model
    python benchmarks/store.py --pairs 200000 --again     # a second run reuses the tokens of the first

The script generates the data. Memory is that of the process and all its children; shared memory counts once.
"""

import argparse
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

FEW = ["--preset", "nano", "--data.batch_tokens=1024", "--train.steps=20", "--train.eval_sentences=50"]


def write_pairs(path: Path, n_pairs: int, n_tokens: int, seed: int = 0) -> None:
    """Write distinct pairs of about `n_tokens` words per side, with realistic word lengths and frequencies."""
    rng = random.Random(seed)
    text = words(rng)
    with path.open("w", encoding="utf-8") as file:
        for number in range(n_pairs):
            length = max(1, n_tokens - 3 + number % 7)
            start = rng.randrange(len(text) - 2 * length)
            middle = start + length
            file.write(f"{' '.join(text[start:middle])} {number}\t{' '.join(text[middle : middle + length])}\n")


def write_text(path: Path, size: int, seed: int = 0) -> None:
    """Write `size` bytes of such words, in lines as long as a paragraph."""
    rng = random.Random(seed)
    text = words(rng)
    with path.open("w", encoding="utf-8") as file:
        while size > 0:
            start = rng.randrange(len(text) - 100)
            size -= file.write(f"{' '.join(text[start : start + rng.randrange(1, 100)])}\n")


def words(rng: random.Random) -> list[str]:
    """Draw a million words with realistic lengths and frequencies."""
    letters = "etaoinshrdlucmfwypvbgk"
    known = ["".join(rng.choices(letters, k=rng.randint(2, 9))) for _ in range(20_000)]
    weights = [1 / (rank + 3) for rank in range(len(known))]
    return rng.choices(known, weights, k=1 << 20)


class Training:
    """Run a few steps of `clearhead train`, and measure the time to prepare the data and the peak memory."""

    def __init__(self, data: Path, task: str, run: Path, store: Path) -> None:
        files = [str(data), "--task", task, "--out", str(run), f"--data.store={store}"]
        command = [sys.executable, "-m", "clearhead", "train", *files, *FEW]
        self.ready = self.peak = self.peak_preparing = 0.0  # seconds, and bytes
        begun = time.monotonic()
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
            assert process.stderr is not None
            reader = threading.Thread(target=self._listen, args=(process.stderr, begun))
            reader.start()
            while process.poll() is None:
                self.peak = max(self.peak, occupied(process.pid))
                if not self.ready:
                    self.peak_preparing = self.peak
                time.sleep(0.2)
            reader.join()
        if process.returncode:
            sys.exit(f"training ended with {process.returncode}")

    def _listen(self, lines, begun: float) -> None:
        for line in lines:
            print(f"  {line}", end="", file=sys.stderr)
            if not self.ready and re.match(r"[\d,]+ parameters; ", line):  # the last line before the first step
                self.ready = time.monotonic() - begun


def occupied(session: int) -> int:
    """Return the memory of all processes of a session in bytes; shared memory is divided among them."""
    total = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if int((process / "stat").read_text().rpartition(")")[2].split()[3]) == session:
                values = (process / "smaps_rollup").read_text().partition("\nPss:")[2].split()
                total += int(values[0]) * 1024
        except (OSError, IndexError):  # the process has ended
            continue
    return total


def main() -> None:
    """Generate the data, train on it, and print the rate and the peak memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5_000_000)
    parser.add_argument("--tokens", type=int, default=14, help="words per side")
    parser.add_argument("--text", type=int, metavar="MIB", help="use this much running text instead of pairs")
    parser.add_argument("--again", action="store_true", help="train a second time with the stored tokens")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.text:
            data, task, count, unit = folder / "text.txt", "generate", options.text, "MiB"
            write_text(data, options.text << 20)
        else:
            data, task, count, unit = folder / "pairs.tsv", "translate", options.pairs, "pairs"
            write_pairs(data, options.pairs, options.tokens)
        size = data.stat().st_size / 2**20
        for turn in range(2 if options.again else 1):
            found = Training(data, task, folder / f"run-{turn}", folder / "store")
            print(
                f"{task}: {count:,} {unit} ({size:,.0f} MiB) ready in {found.ready:.1f} s: "
                f"{count / found.ready:,.1f} {unit}/s; peak {found.peak_preparing / 2**20:,.0f} MiB so far, "
                f"{found.peak / 2**20:,.0f} MiB overall"
            )


if __name__ == "__main__":
    main()
