"""How fast pairs or running text are made ready for training, and how much memory a training takes at its peak.

python benchmarks/store.py --pairs 5000000 --tokens 14
python benchmarks/store.py --text 1024                # MiB of running text, for a language model
python benchmarks/store.py --pairs 200000 --again     # and once more, with the tokens of the first time

Memory is that of the process and of all that it begins, what they share counted once (Linux).
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
    """Distinct pairs of about `n_tokens` words a side, as frequent and as long as words are."""
    rng = random.Random(seed)
    text = words(rng)
    with path.open("w", encoding="utf-8") as file:
        for number in range(n_pairs):
            length = max(1, n_tokens - 3 + number % 7)
            start = rng.randrange(len(text) - 2 * length)
            middle = start + length
            file.write(f"{' '.join(text[start:middle])} {number}\t{' '.join(text[middle : middle + length])}\n")


def write_text(path: Path, size: int, seed: int = 0) -> None:
    """Lines of such words, as long as a paragraph, until there are so many bytes."""
    rng = random.Random(seed)
    text = words(rng)
    with path.open("w", encoding="utf-8") as file:
        while size > 0:
            start = rng.randrange(len(text) - 100)
            size -= file.write(f"{' '.join(text[start : start + rng.randrange(1, 100)])}\n")


def words(rng: random.Random) -> list[str]:
    """A million of them, as frequent and as long as words are."""
    letters = "etaoinshrdlucmfwypvbgk"
    known = ["".join(rng.choices(letters, k=rng.randint(2, 9))) for _ in range(20_000)]
    weights = [1 / (rank + 3) for rank in range(len(known))]
    return rng.choices(known, weights, k=1 << 20)


class Training:
    """`clearhead train` on a file, a few steps of it, looked at from outside."""

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
            if not self.ready and re.match(r"[\d,]+ parameters; ", line):  # the last that is said before the first step
                self.ready = time.monotonic() - begun


def occupied(session: int) -> int:
    """Bytes of all processes of a session; of memory that several share each has its part."""
    total = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if int((process / "stat").read_text().rpartition(")")[2].split()[3]) == session:
                values = (process / "smaps_rollup").read_text().partition("\nPss:")[2].split()
                total += int(values[0]) * 1024
        except (OSError, IndexError):  # it is gone
            continue
    return total


def main() -> None:
    """Make the file, train on it, and print pairs or MiB a second and the peak of memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5_000_000)
    parser.add_argument("--tokens", type=int, default=14, help="words a side")
    parser.add_argument("--text", type=int, metavar="MIB", help="running text instead, so much of it")
    parser.add_argument("--again", action="store_true", help="prepare a second time, which finds the store")
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
                f"{task}: {count:,} {unit} (a file of {size:,.0f} MiB) ready in {found.ready:.1f} s: "
                f"{count / found.ready:,.1f} {unit}/s; peak {found.peak_preparing / 2**20:,.0f} MiB until then, "
                f"{found.peak / 2**20:,.0f} MiB in all"
            )


if __name__ == "__main__":
    main()
