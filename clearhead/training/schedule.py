"""Learning-rate schedules: the paper's (section 5.3), cosine, linear and constant."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
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
