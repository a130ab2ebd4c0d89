"""The pace of a run that is to end at a time: which step is its last, by how fast the steps before it were."""

import os
import statistics
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..config.values import read_duration

AIM = 0.96  # of the time asked: it may take all of it, and should take nine tenths
_SEARCH = 3  # what the search that `translate` uses takes for a sentence, in those of evaluations, which are greedy
_SENTENCE, _OF_STEP = 0.02, 0.025  # seconds that an evaluation takes for a sentence, and steps: the less, as a guess
_FEW = 100  # sentences: fewer take no less
_SEEN = 5  # steps before anything is corrected
CLOSING = 3.0  # seconds for the last files, the picture of the loss and the end of the process
_SLACK = 0.015  # of the time asked: a smaller error is not corrected


@dataclass(frozen=True)
class Scoring:
    """How many sentences are scored: `valid` at each evaluation, and after the last step once more, together with those
    to `test` on, by the search that `translate` uses; with `mean`, there is one evaluation more."""

    valid: int
    test: int = 0
    mean: bool = False

    def evaluation(self, step: float) -> float:
        """Seconds that an evaluation may take, before one was seen; `step` is what a step takes."""
        return _of_sentence(step) * max(self.valid, _FEW) if self.valid else 0.0

    def closing(self, evaluation: float, step: float) -> float:
        """Seconds after the last step, if an evaluation takes so many."""
        each = evaluation / max(self.valid, _FEW) if self.valid else _of_sentence(step)
        return (1 + self.mean) * evaluation + _SEARCH * each * (self.valid + self.test)


def _of_sentence(step: float) -> float:
    """Seconds that an evaluation may take for a sentence, as a guess by those of a step."""
    return min(_SENTENCE, _OF_STEP * step)


class Pace:
    """When a run is to end, and which step is then its last."""

    def __init__(self, budget: str, end: float, scoring: Scoring, clock: Callable[[], float] = time.monotonic) -> None:
        """`end` is the time of the `clock` at which everything is to be over."""
        asked = read_duration(budget)
        self._end, self._clock, self._slack = end - (1 - AIM) * asked - CLOSING, clock, _SLACK * asked
        self._scoring = scoring
        self._steps: deque[float] = deque(maxlen=50)
        self._evaluation: float | None = None

    def stepped(self, seconds: float) -> None:
        """A step took so long."""
        self._steps.append(seconds)

    def evaluated(self, seconds: float) -> None:
        """An evaluation took so long, with all that belongs to it."""
        self._evaluation = seconds

    def last_step(self, step: int, last: int, eval_every: int) -> int:
        """Which step is to be the last, `step` being done and `last` the plan: another one only where that misses."""
        if len(self._steps) < _SEEN:
            return last
        # The median, so that a step that waits for the plan of an epoch, or for another program, is no measure.
        of_step = statistics.median(self._steps)
        evaluation = self._scoring.evaluation(of_step) if self._evaluation is None else self._evaluation
        each, closing = of_step + evaluation / eval_every, self._scoring.closing(evaluation, of_step)
        possible = step + int((self._end - self._clock() - closing) / each)
        return last if abs(possible - last) * each <= self._slack else max(possible, step)


def process_began() -> float:
    """When this process began, by the clock of `time.monotonic`; where the system does not tell, now."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        uptime = float(Path("/proc/uptime").read_text().split()[0])
        return time.monotonic() - (uptime - int(fields[19]) / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError, AttributeError):
        return time.monotonic()
