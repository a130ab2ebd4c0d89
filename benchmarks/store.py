"""How fast pairs are made ready for training, and how much memory that takes at its peak.

.venv/bin/python benchmarks/store.py --pairs 5000000 --tokens 14
.venv/bin/python benchmarks/store.py --pairs 200000 --again     # and once more, with the tokens of the first time
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

PREPARE = """
import json, resource, sys, time
begun = time.perf_counter()
from pathlib import Path
from clearhead.config import Config, chosen
from clearhead.training.checkpoint import RunFolder
from clearhead.training.prepare import prepare

imported = time.perf_counter()
start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
config = Config().override({"data.train": [sys.argv[1]], "data.store": sys.argv[3], "train.threads": 2})
with RunFolder.create(Path(sys.argv[2])) as folder:
    prepared = prepare(folder, config, set(), lambda message: print("  " + message, file=sys.stderr))
    ready = time.perf_counter()
    config = prepared.config
    epoch = prepared.examples.batches(chosen(config.data.batch_tokens), config.train.seed).epoch(0)
    for rows in epoch[:: max(len(epoch) // 1000, 1)]:
        prepared.task.batch(prepared.examples, rows)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"pairs": len(prepared.examples), "seconds": ready - imported, "import_kib": start, "peak_kib": peak}))
"""


def write_pairs(path: Path, n_pairs: int, n_tokens: int, seed: int = 0) -> None:
    """Distinct pairs of about `n_tokens` words a side, as frequent and as long as words are."""
    rng = random.Random(seed)
    letters = "etaoinshrdlucmfwypvbgk"
    words = ["".join(rng.choices(letters, k=rng.randint(2, 9))) for _ in range(20_000)]
    weights = [1 / (rank + 3) for rank in range(len(words))]
    text = rng.choices(words, weights, k=1 << 20)
    with path.open("w", encoding="utf-8") as file:
        for number in range(n_pairs):
            length = max(1, n_tokens - 3 + number % 7)
            start = rng.randrange(len(text) - 2 * length)
            middle = start + length
            file.write(f"{' '.join(text[start:middle])} {number}\t{' '.join(text[middle : middle + length])}\n")


def measure(data: Path, run: Path, store: Path) -> dict[str, float]:
    """Prepare the pairs of a file in a process of its own."""
    command = [sys.executable, "-c", PREPARE, str(data), str(run), str(store)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def main() -> None:
    """Make the file, prepare it, and print pairs a second and the peak of resident memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5_000_000)
    parser.add_argument("--tokens", type=int, default=14, help="words a side")
    parser.add_argument("--again", action="store_true", help="prepare a second time, which finds the store")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_pairs(folder / "pairs.tsv", options.pairs, options.tokens)
        size = (folder / "pairs.tsv").stat().st_size / 2**20
        for turn in range(2 if options.again else 1):
            found = measure(folder / "pairs.tsv", folder / f"run-{turn}", folder / "store")
            print(
                f"{found['pairs']:,.0f} pairs ({size:,.0f} MiB) ready in {found['seconds']:.1f} s: "
                f"{found['pairs'] / found['seconds']:,.0f} pairs/s; peak {found['peak_kib'] / 1024:,.0f} MiB, "
                f"{found['import_kib'] / 1024:,.0f} MiB of them for the imports"
            )


if __name__ == "__main__":
    main()
