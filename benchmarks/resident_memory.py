"""Measure the resident memory of a training run, minute by minute (Linux only).

    T=$CLEARHEAD_DATA/tatoeba/eng-fra.train.tsv.xz
    python benchmarks/resident_memory.py $T --config tatoeba-15m --out runs/tatoeba-15m

The script passes its arguments to `clearhead train` in another process. It also prints the peak during the first epoch,
after it, and while the final weights are scored and the loss curve is drawn.
"""

import subprocess
import sys
import time
from pathlib import Path

from clearhead.folder.checkpoint import METRICS
from clearhead.training.report.metrics import read_metrics

_EVERY = 2.0  # seconds


def main() -> None:
    arguments = sys.argv[1:]
    if "--out" not in arguments:
        sys.exit(__doc__)
    metrics = Path(arguments[arguments.index("--out") + 1]) / METRICS
    first_epoch: float | None = None  # when it ended, in seconds
    seen: list[tuple[float, float]] = []  # seconds, GB
    begun, clock = time.monotonic(), time.time()
    with subprocess.Popen([sys.executable, "-m", "clearhead", "train", *arguments]) as training:
        while training.poll() is None:
            time.sleep(_EVERY)
            now = time.monotonic() - begun
            if (resident := _resident(training.pid)) is not None:
                seen.append((now, resident / 1e9))
            if first_epoch is None and metrics.exists() and any(it.get("epoch") for it in read_metrics(metrics)[-1:]):
                first_epoch = now
    print(f"\n{time.monotonic() - begun:.0f} seconds from start to end")
    print("\n| minutes | peak GB so far | GB |\n|---|---|---|")
    most = 0.0
    for i, (seconds, resident) in enumerate(seen):
        most = max(most, resident)
        if i + 1 == len(seen) or seconds // 60 != seen[i + 1][0] // 60:
            print(f"| {seconds / 60:.1f} | {most:.2f} | {resident:.2f} |")
    first = [gb for at, gb in seen if first_epoch is not None and at <= first_epoch]
    trained = metrics.stat().st_mtime - clock if metrics.exists() else 0.0  # nothing is logged after the last step
    later = [gb for at, gb in seen if first_epoch is not None and first_epoch < at <= trained]
    if first and later:
        more = 100 * (max(later) / max(first) - 1)
        print(f"\npeak: {max(first):.2f} GB in the first epoch, {max(later):.2f} GB afterwards ({more:+.1f}%)")
        if ending := [gb for at, gb in seen if at > trained]:
            print(f"peak while scoring and drawing at the end: {max(ending):.2f} GB")
    sys.exit(training.returncode)


def _resident(pid: int) -> int | None:
    """Return the resident memory in bytes, or None if the process has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:")), None)


if __name__ == "__main__":
    main()
