"""The pace of a run that is to end at a time: which step is its last, by how fast the steps before it were."""

import os
import statistics
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from ..values import read_duration

AIM = 0.96  # of the time asked: it may take all of it, and should take nine tenths
_USUAL = 500  # sentences that an evaluation scores
_SEARCH = 3  # what scoring with the search that `translate` uses takes, in evaluations, which are greedy
_SEEN = 5  # steps before anything is corrected
CLOSING = 3.0  # seconds for the last files, the picture of the loss and the end of the process
_SLACK = 0.015  # of the time asked: a smaller error is not corrected


class Pace:
    """When a run is to end, and which step is then its last."""

    def __init__(self, budget: str, end: float, final: float, clock: Callable[[], float] = time.monotonic) -> None:
        """`end` is the time of the `clock` at which everything is to be over; what comes after the last step takes so
        many evaluations as `final` says.
        """
        asked = read_duration(budget)
        self._end, self._clock, self._slack = end - (1 - AIM) * asked - CLOSING, clock, _SLACK * asked
        self._final = final
        self._steps: deque[float] = deque(maxlen=50)
        self._evaluation = evaluation_guess(asked)

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
        each = statistics.median(self._steps) + self._evaluation / eval_every
        possible = step + int((self._end - self._clock() - self._final * self._evaluation) / each)
        return last if abs(possible - last) * each <= self._slack else max(possible, step)


def final_evaluations(valid: int, test: int, average: bool) -> float:
    """What comes after the last step, in evaluations: the last one of them, that of a mean of checkpoints, and the
    scores of both files with the search that `translate` uses; `valid` and `test` are their sentences."""
    return 1 + average + _SEARCH * (1 + test / (valid or _USUAL))


def evaluation_guess(asked: float) -> float:
    """Seconds that an evaluation may take, before one was seen."""
    return min(max(0.008 * asked, 1.0), 10.0)


def process_began() -> float:
    """When this process began, by the clock of `time.monotonic`; where the system does not tell, now."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        uptime = float(Path("/proc/uptime").read_text().split()[0])
        return time.monotonic() - (uptime - int(fields[19]) / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError, AttributeError):
        return time.monotonic()
