"""Learning-rate schedules: the paper's (section 5.3), cosine, linear and constant."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self


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
    """

    kind: Literal["paper", "cosine", "linear", "constant"]
    peak: float
    warmup: int
    steps: int
    end: float = 0.0

    def __call__(self, step: float) -> float:
        """Return the learning rate of update number `step`, from 1 to `steps`."""
        if step < self.warmup:
            return self.peak * step / self.warmup
        if self.kind == "paper":
            return self.peak * math.sqrt(max(self.warmup, 1) / step)
        if self.kind == "constant":
            return self.peak
        left = max(self.steps - step, 0) / max(self.steps - self.warmup, 1)
        above = left if self.kind == "linear" else (1 - math.cos(math.pi * left)) / 2
        return self.end + (self.peak - self.end) * above


@dataclass(frozen=True)
class StretchedSchedule:
    """A schedule stretched or compressed to end at `last_step` instead of the planned step.

    Attributes:
        schedule: the original schedule.
        last_step: the step at which training ends.
        since: the step after which the schedule was last changed.
        stood: the step of the original schedule that corresponds to `since`.
    """

    schedule: Schedule
    last_step: int
    since: int = 0
    stood: float = 0.0

    def __call__(self, step: int) -> float:
        """Return the learning rate of update number `step`."""
        return self.schedule(self.position(step))

    def position(self, step: int) -> float:
        """Return the step of the original schedule that `step` corresponds to."""
        rest, planned = max(self.last_step - self.since, 1), self.schedule.steps
        return self.stood + (step - self.since) * (planned - self.stood) / rest

    def ending_at(self, last_step: int, *, after: int) -> Self:
        """Return a schedule that ends at `last_step` instead. Rates up to step `after` don't change."""
        return type(self)(self.schedule, last_step, after, self.position(after))

    def to_dict(self) -> dict[str, Any]:
        """Return the state to store in a checkpoint."""
        return {"last_step": self.last_step, "since": self.since, "stood": self.stood}

    def restored(self, values: Mapping[str, Any]) -> Self:
        """Return the schedule with the state from a checkpoint. A `last_step` of 0 means the planned one."""
        return type(self)(self.schedule, values["last_step"] or self.schedule.steps, values["since"], values["stood"])
