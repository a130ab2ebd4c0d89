"""Measure training next to busy programs, with one thread, all threads and the number that a trial chooses.

    python benchmarks/busy_machine.py --preset nano base --busy 0 1 2

Each busy program uses a core for as long as it gets one. Threads wait for each other as the command line lets them, and
as OpenMP does by default. One thread and all threads take turns; every trial is one of those that `clearhead train`
makes before its first step. The table shows medians of target tokens per second.
"""

import argparse
import os
import statistics
import subprocess
import sys
from collections import Counter

_WAITING = {"short": {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "10000"}, "OpenMP's": {}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", nargs="+", default=["nano"])
    parser.add_argument("--busy", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--waiting", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.waiting:
        for name in options.preset:
            measure(name, options.busy, options.trials, options.waiting)
        return
    columns = "preset", "threads wait", "busy programs", "one thread", "all threads", "chosen", "one chosen", "others"
    print("| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|", flush=True)
    for waiting, variables in _WAITING.items():
        environment = {name: it for name, it in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
        command = [sys.executable, *sys.argv, "--waiting", waiting]
        subprocess.run(command, env=environment | variables, check=True)


def measure(name: str, busy: list[int], trials: int, waiting: str) -> None:
    """Print the rates of a preset next to each number of busy programs."""
    from clearhead.apps.bench.training import steps_of
    from clearhead.decode.engine import usable_cores
    from clearhead.training.choices.thread_trial import time_steps
    from clearhead.training.memory import keep_freed_memory

    keep_freed_memory()
    steps, cores = steps_of(name, "bf16"), usable_cores()
    for count in busy:
        programs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
        try:
            found = [time_steps(steps, [1, cores]) for _ in range(trials)]
        finally:
            for it in programs:
                it.kill()
        one, every = (statistics.median(it.tokens / it.seconds[n] for it in found) for n in (1, cores))
        taken = statistics.median(it.tokens / it.seconds[it.threads] for it in found)
        alone = Counter(it.threads for it in found)[1]
        others = statistics.median(it.others for it in found)
        cells = (name, waiting, count, f"{one:,.0f}", f"{every:,.0f}", f"{taken:,.0f}", f"{alone} of {trials}")
        print("| " + " | ".join(map(str, cells)) + f" | {others:.1f} |", flush=True)


if __name__ == "__main__":
    main()
