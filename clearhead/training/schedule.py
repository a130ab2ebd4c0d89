"""The learning rate of each step (section 5.3), and the shapes that are usual elsewhere."""

import math
from dataclasses import dataclass
from typing import Literal


def paper_peak(d_model: int, warmup: int) -> float:
    """(d_model * warmup)^-0.5: where the formula of section 5.3 peaks, at step `warmup` (1 where there is none)."""
    return (d_model * max(warmup, 1)) ** -0.5


@dataclass(frozen=True)
class Schedule:
    """The learning rate by step, counted from 1. It rises in a line to `peak` at step `warmup`, and then

    paper      falls with step^-0.5; with `paper_peak` this is d_model^-0.5 * min(step^-0.5, step * warmup^-1.5)
    cosine     falls to `end` at the last step, along half a cosine
    linear     falls to `end` at the last step, in a line
    constant   stays
    """

    kind: Literal["paper", "cosine", "linear", "constant"]
    peak: float
    warmup: int
    steps: int
    end: float = 0.0

    def __call__(self, step: float) -> float:
        """The learning rate of the update that leads to `step`, from 1 to `steps`."""
        if step < self.warmup:
            return self.peak * step / self.warmup
        if self.kind == "paper":
            return self.peak * math.sqrt(max(self.warmup, 1) / step)
        if self.kind == "constant":
            return self.peak
        left = max(self.steps - step, 0) / max(self.steps - self.warmup, 1)
        above = left if self.kind == "linear" else (1 - math.cos(math.pi * left)) / 2
        return self.end + (self.peak - self.end) * above
