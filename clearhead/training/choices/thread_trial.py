"""Time training steps with different numbers of threads, and choose the number for a run.

More threads aren't always faster. A small model has little work to divide, and next to another program, threads wait
for the one whose core that program uses. So a few real steps are timed, of a new model that isn't kept. All numbers of
threads take turns with the same batches, so a busy moment affects them alike.
"""

import itertools
import os
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from ...config import Config, Recipe
from ...decode.engine import usable_cores
from ...model.transformer import build
from ...tasks.base import Dataset, Task
from ..distributed.processes import ALONE, Processes
from ..memory import release_freed_memory
from ..update import Update, loss_of
from .hyperparameters import DEFAULT_OPTIMIZER, Chosen, batches_of, threads_asked_for, usual_threads

SECONDS = 4.0  # no turn begins later
_TURNS = 3  # at most
_HOPELESS = 1.5  # times the shortest step; what takes longer isn't tried again
_WORTH = 1.25  # times as fast, to be worth more threads
_FEWEST = 200  # steps of a run, to be worth a trial
_NOTICED = 0.2  # cores


class Untrained:
    """A model with the settings of a run, and its loss. Nobody keeps the model."""

    def __init__(self, config: Config, task: Task, examples: Dataset) -> None:
        self._config, self.loss = config.train, loss_of(task, examples, config.train.label_smoothing)
        torch.manual_seed(config.train.seed)
        self.model = build(config.model).to(config.train.device)

    def update(self, processes: Processes = ALONE, **changes: Any) -> Update:
        """Return the update of this model, with some settings of training changed."""
        settings = {"optimizer": self._config.optimizer or DEFAULT_OPTIMIZER, **changes}
        return Update(self.model, self.loss, replace(self._config, **settings), processes)


class Steps:
    """Training steps of a new model with these settings. Nobody keeps the model."""

    def __init__(self, config: Config, task: Task, examples: Dataset, processes: Processes = ALONE) -> None:
        train, untrained = config.train, Untrained(config, task, examples)
        self.model = untrained.model
        # Compiled code keeps its number of threads, and takes longer to compile than a trial may last.
        self._update = untrained.update(processes, compile=False)
        self._batches = batches_of(config, examples)
        self._rows = itertools.cycle(self._batches.epoch(0))
        self._accumulate, self._step, self._on_gpu = train.accumulate, 0, train.device.startswith("cuda")
        self.next()

    def next(self) -> int:
        """Go to the next batch, and return its tokens."""
        self._micro_batches = list(itertools.islice(self._rows, self._accumulate))
        return sum(map(self._batches.tokens, self._micro_batches))

    def seconds(self, threads: int) -> float:
        """Take a step with the current batch, and return its time. It can be repeated."""
        torch.set_num_threads(threads)
        self._step += 1
        n_terms = sum(map(self._batches.predictions, self._micro_batches))
        begun = time.perf_counter()
        self._update(self._micro_batches, n_terms, step=self._step, lr=1e-6)
        if self._on_gpu:
            torch.cuda.synchronize()
        return time.perf_counter() - begun


@dataclass(frozen=True)
class ThreadTiming:
    """The result of a trial.

    Attributes:
        seconds: median seconds per step, by number of threads.
        tokens: mean tokens per step.
        others: number of cores that other programs used meanwhile.
    """

    seconds: Mapping[int, float]
    tokens: float
    others: float = 0.0

    @property
    def threads(self) -> int:
        """The smallest number of threads that no other clearly beats. Idle cores are left to other programs."""
        best = min(self.seconds.values())
        return min(count for count, seconds in self.seconds.items() if seconds < _WORTH * best)

    def choice(self, unit: str) -> Chosen:
        """Return the number of threads to train with. `unit` names the tokens."""
        rates = {count: self.tokens / seconds for count, seconds in self.seconds.items()}
        own = rates.pop(self.threads)
        why = f"{own:,.0f} {unit} per second in a trial"
        if rates:
            count = max(rates, key=lambda it: rates[it])
            why += f", {rates[count]:,.0f} with {count} thread{'s' * (count > 1)}"
        if self.others >= _NOTICED:
            why += f"; other programs use {self.others:.1f} of {usable_cores()} cores (if they end soon, set --threads)"
        return Chosen("train.threads", self.threads, why)


def choose_threads(config: Recipe, task: Task, examples: Dataset) -> tuple[Recipe, list[Chosen]]:
    """Choose the number of threads, unless the user did or the run is too short for a trial.

    Args:
        config: the complete settings of the run.
        task: computes the loss of the trial steps.
        examples: the training data.
    """
    counts = candidates(config)
    if len(counts) == 1 or config.train.steps < _FEWEST:
        return config, []
    choice = time_steps(Steps(config, task, examples), counts).choice(task.units.tokens)
    if config.train.memory:
        release_freed_memory()
    return config.assign({choice.name: choice.value}, "machine"), [choice]


def candidates(config: Config) -> list[int]:
    """Return the numbers of threads to try: powers of two up to the number of cores, if the user hasn't set one."""
    most = usual_threads(config.train)
    if config.origin("train.threads") != "machine" or threads_asked_for() or config.train.device != "cpu":
        return [most]
    return [*itertools.takewhile(lambda it: it < most, (2**power for power in itertools.count())), most]


def time_steps(steps: Steps, counts: Sequence[int], limit: float = SECONDS) -> ThreadTiming:
    """Time steps with each of these numbers of threads, for about `limit` seconds after a first one.

    Large numbers come first, and smaller ones aren't tried once the time of a step grows much.

    Args:
        steps: the steps to time.
        counts: numbers of threads.
        limit: seconds after which no turn begins.
    """
    before, others = torch.get_num_threads(), OtherPrograms()
    tokens: list[int] = []
    seconds: dict[int, list[float]] = {}
    counts = sorted(counts, reverse=True)
    steps.seconds(counts[0])  # allocates memory
    end = time.perf_counter() + limit
    while len(tokens) < _TURNS and (not tokens or time.perf_counter() < end):
        tokens.append(steps.next())
        for count in counts:
            seconds.setdefault(count, []).append(steps.seconds(count))
            if count not in _promising(seconds):
                break
        counts = [count for count in reversed(counts) if count in _promising(seconds)]
    torch.set_num_threads(before)
    medians = {count: statistics.median(it) for count, it in seconds.items()}
    return ThreadTiming(medians, statistics.fmean(tokens), others.cores())


def _promising(seconds: Mapping[int, Sequence[float]]) -> list[int]:
    """Return the numbers of threads that may still prove to be the fastest."""
    best = min(map(min, seconds.values()))
    return [count for count, it in seconds.items() if min(it) <= _HOPELESS * best]


class OtherPrograms:
    """Measures how many cores other programs use from now on."""

    def __init__(self) -> None:
        self._begun = time.perf_counter(), _busy(), time.process_time()

    def cores(self) -> float:
        """Return the number of cores in use so far, on average; 0 on systems other than Linux."""
        begun, busy, own = self._begun
        used = _busy() - busy - (time.process_time() - own)
        return max(used / max(time.perf_counter() - begun, 1e-9), 0.0)


def _busy() -> float:
    """Return the seconds for which the cores of this process have been busy since the system started."""
    try:
        lines = [line.split() for line in Path("/proc/stat").read_text().splitlines()]
        own = {f"cpu{core}" for core in os.sched_getaffinity(0)}
        used = [list(map(int, ticks[:8])) for name, *ticks in lines if name in own]
        idle = sum(ticks[3] + ticks[4] for ticks in used)  # and waiting for the disk
        return (sum(map(sum, used)) - idle) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0
