"""Measure training next to busy programs, with one thread, all threads and the number that a trial chooses.

    python benchmarks/busy_machine.py --preset nano base --busy 0 1 2

Each busy program uses a core for as long as it gets one. Threads wait for each other as the command line lets them, and
as OpenMP does by default. One thread and all threads take turns; every trial is one of those that `clearhead train`
makes before its first step. The table shows medians of target tokens per second.

    python benchmarks/busy_machine.py --preset nano --busy 1 --later 30

The busy programs start later, when training has begun with all threads. The table shows the rates of the next 30
seconds: with one thread, with all threads, and if the number of threads changes as in `clearhead train`.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections import Counter

_WAITING = {"short": {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "10000"}, "OpenMP's": {}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", nargs="+", default=["nano"])
    parser.add_argument("--busy", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument(
        "--later", type=float, default=0.0, metavar="SECONDS", help="start busy programs during training"
    )
    parser.add_argument("--waiting", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.waiting:
        for name in options.preset:
            if options.later:
                measure_later(name, options.busy, options.trials, options.waiting, options.later)
                continue
            measure(name, options.busy, options.trials, options.waiting)
        return
    last = ("changing", "changing / one") if options.later else ("chosen", "one thread chosen", "others seen")
    columns = "preset", "threads wait", "busy programs", "one thread", "all threads", *last
    print("| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|", flush=True)
    for waiting, variables in _WAITING.items():
        environment = {name: it for name, it in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
        command = [sys.executable, *sys.argv, "--waiting", waiting]
        subprocess.run(command, env=environment | variables, check=True)


def measure(name: str, busy: list[int], trials: int, waiting: str) -> None:
    """Print the rates of a preset next to each number of busy programs."""
    from clearhead.apps.bench.training import steps_of
    from clearhead.decode.engine import usable_cores
    from clearhead.training.choices.trial import time_steps
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


def measure_later(name: str, busy: list[int], trials: int, waiting: str, seconds: float) -> None:
    """Print the rates of a preset after each number of busy programs has started."""
    import torch

    from clearhead.apps.bench.training import steps_of
    from clearhead.config import Config
    from clearhead.decode.engine import usable_cores
    from clearhead.training.choices.thread_watch import ThreadWatch
    from clearhead.training.distributed.processes import ALONE
    from clearhead.training.memory import keep_freed_memory
    from clearhead.training.state import State

    keep_freed_memory()
    steps, cores = steps_of(name, "bf16"), usable_cores()
    settings = {"train.threads": cores, "train.device": "cpu", "train.steps": 10**6}
    config = Config().assign(settings, "machine")

    def rate(length: float, watch: ThreadWatch | None, state: State) -> float:
        """Return the tokens per second of the steps that begin in the next `length` seconds."""
        tokens, spent, end = 0, 0.0, time.perf_counter() + length
        while time.perf_counter() < end:
            count = steps.next()
            duration = steps.seconds(torch.get_num_threads())
            tokens, spent = tokens + count, spent + duration
            if watch:
                watch.stepped(state, count, duration)
        return tokens / spent

    for count in busy:
        found = dict[str, list[float]]()
        for _ in range(trials):
            for way, threads in (("one", 1), ("all", cores), ("changing", cores)):
                torch.set_num_threads(threads)
                watch, state = ThreadWatch(config, ALONE, "tokens") if way == "changing" else None, State()
                if watch:
                    watch.begin(state)
                rate(5.0, watch, state)
                programs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
                try:
                    found.setdefault(way, []).append(rate(seconds, watch, state))
                finally:
                    for it in programs:
                        it.kill()
                        it.wait()
        one, every, changing = (statistics.median(it) for it in found.values())
        cells = (name, waiting, count, f"{one:,.0f}", f"{every:,.0f}", f"{changing:,.0f}", f"{changing / one:.2f}")
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)


if __name__ == "__main__":
    main()
