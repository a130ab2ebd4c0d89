"""Learning-rate schedules: the paper's (section 5.3), cosine, linear and constant; and deadlines, which stretch them.

With a time budget, the last step is chosen from the speed of the steps so far. It changes during training, since
machines slow down as they warm up.
"""

import math
import os
import statistics
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

from ..config import TrainRecipe
from ..config.values import read_duration

AIM = 0.96  # share of the budget to use; between 0.9 and 1 is acceptable
CLOSING = 3.0  # seconds for the last files, the loss curve and the end of the process
_SEARCH = 3  # time of a full search, as a multiple of the greedy search that evaluations use
_SENTENCE = 0.02  # estimated seconds per sentence of an evaluation,
_OF_STEP = 0.025  # and the same in steps; the smaller estimate is used
_FEW = 100  # an evaluation costs at least as much as this many sentences
_SEEN = 5  # steps to measure before the first correction
_SLACK = 0.015  # share of the budget; smaller errors aren't corrected


def paper_peak(d_model: int, warmup: int) -> float:
    """Return (d_model * warmup)^-0.5, the peak of the schedule in section 5.3, reached at step `warmup`."""
    return (d_model * max(warmup, 1)) ** -0.5


@dataclass(frozen=True)
class Schedule:
    """Learning rate by step, counted from 1: linear warmup to `peak` at step `warmup`, then one of these decays:

    paper      falls with step^-0.5; with `paper_peak` this is d_model^-0.5 * min(step^-0.5, step * warmup^-1.5)
    cosine     falls to `end` at the last step, along half a cosine
    linear     falls to `end` at the last step
    constant   stays at `peak`

    A schedule for `steps` steps can be stretched or compressed to end at `last_step` instead: after step `since` it
    continues from where it stood, at step `stood` of the planned schedule.
    """

    kind: Literal["paper", "cosine", "linear", "constant"]
    peak: float
    warmup: int
    steps: int
    end: float = 0.0
    last_step: int = 0  # 0: as planned
    since: int = 0
    stood: float = 0.0

    @property
    def last(self) -> int:
        return self.last_step or self.steps

    def __call__(self, step: int) -> float:
        """Return the learning rate of update number `step`."""
        planned = self.position(step)
        if planned < self.warmup:
            return self.peak * planned / self.warmup
        if self.kind == "paper":
            return self.peak * math.sqrt(max(self.warmup, 1) / planned)
        if self.kind == "constant":
            return self.peak
        left = max(self.steps - planned, 0) / max(self.steps - self.warmup, 1)
        above = left if self.kind == "linear" else (1 - math.cos(math.pi * left)) / 2
        return self.end + (self.peak - self.end) * above

    def position(self, step: int) -> float:
        """Return the step of the planned schedule that `step` corresponds to."""
        rest = max(self.last - self.since, 1)
        return self.stood + (step - self.since) * (self.steps - self.stood) / rest

    def ending_at(self, last_step: int, *, after: int) -> Self:
        """Return a schedule that ends at `last_step` instead. Rates up to step `after` don't change."""
        return replace(self, last_step=last_step, since=after, stood=self.position(after))

    def to_dict(self) -> dict[str, Any]:
        """Return the state to store in a checkpoint."""
        return {"last_step": self.last, "since": self.since, "stood": self.stood}

    def restored(self, values: Mapping[str, Any]) -> Self:
        """Return the schedule with the state from a checkpoint."""
        return replace(self, last_step=values["last_step"], since=values["since"], stood=values["stood"])


# --- the last step of a run with a budget -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Scoring:
    """The amount of scoring in a run.

    Attributes:
        valid: number of sentences per evaluation. A full search scores them once more at the end.
        test: number of sentences scored only at the end.
        mean: whether the mean of the last checkpoints is scored too.
    """

    valid: int
    test: int = 0
    mean: bool = False

    def evaluation(self, step: float) -> float:
        """Estimate the duration of an evaluation in seconds, given the seconds per step."""
        return _of_sentence(step) * max(self.valid, _FEW) if self.valid else 0.0

    def closing(self, evaluation: float, step: float) -> float:
        """Estimate the duration of all scoring after the last step, in seconds."""
        each = evaluation / max(self.valid, _FEW) if self.valid else _of_sentence(step)
        return (1 + self.mean) * evaluation + _SEARCH * each * (self.valid + self.test)


def _of_sentence(step: float) -> float:
    return min(_SENTENCE, _OF_STEP * step)


class Deadline:
    """Measure a run in progress, and choose its last step so that it ends on time."""

    def __init__(self, budget: str, end: float, scoring: Scoring, clock: Callable[[], float] = time.monotonic) -> None:
        """`end` is the deadline of the whole run, as a value of `clock`."""
        seconds = read_duration(budget)
        self._end, self._clock, self._slack = end - (1 - AIM) * seconds - CLOSING, clock, _SLACK * seconds
        self._scoring = scoring
        self._steps: deque[float] = deque(maxlen=50)
        self._evaluation: float | None = None

    def stepped(self, seconds: float) -> None:
        """Record how long a step took."""
        self._steps.append(seconds)

    def evaluated(self, seconds: float) -> None:
        """Record the total time of an evaluation."""
        self._evaluation = seconds

    def last_step(self, step: int, last: int, eval_every: int) -> int:
        """Return the step to end at, chosen after `step`: `last` unless the run wouldn't end on time.

        Args:
            step: number of steps made so far.
            last: the step to end at, as planned so far.
            eval_every: steps between evaluations, whose time counts.
        """
        if len(self._steps) < _SEEN:
            return last
        # The median ignores steps delayed by planning an epoch or by another program.
        of_step = statistics.median(self._steps)
        evaluation = self._scoring.evaluation(of_step) if self._evaluation is None else self._evaluation
        each, closing = of_step + evaluation / eval_every, self._scoring.closing(evaluation, of_step)
        possible = step + int((self._end - self._clock() - closing) / each)
        return last if abs(possible - last) * each <= self._slack else max(possible, step)


def shortfall(done: int, config: TrainRecipe) -> str:
    """Return a warning if a run with a budget made fewer than half of its planned steps; "" otherwise."""
    planned = config.steps
    if not config.budget or 2 * done >= planned:
        return ""
    steps = "1 step" if done == 1 else f"{done:,} steps"
    return (
        f"the model is undertrained: train.budget={config.budget} was enough for {steps} of {planned:,}, because the "
        "machine was slower than at the start; give more time, or close other programs"
    )


def process_began() -> float:
    """Return the start of this process as a `time.monotonic` value, or the current time if it's unknown."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        uptime = float(Path("/proc/uptime").read_text().split()[0])
        return time.monotonic() - (uptime - int(fields[19]) / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError, AttributeError):
        return time.monotonic()
