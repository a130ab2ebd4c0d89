"""Change the number of threads during training when other programs start or stop.

Threads wait for each other after every operation. Next to a program that began after the first trial, two of them can
be half as fast as one. So when other programs use more or fewer cores than before, the next steps of the run are a new
trial: numbers of threads take turns, and the fastest remains. The steps are real ones, so a trial costs little.
"""

import statistics
import time

import torch

from ...config import Config, chosen
from ...decode.engine import usable_cores
from ..distributed.processes import Processes
from ..state import State
from .recipe import Choice, threads_asked_for
from .trial import FEWEST, TURNS, OtherPrograms, Timing, powers_of_two, promising

_WINDOW = 2.0  # seconds between looks at other programs
_CHANGED = 0.4  # cores; two threads are slower than one if another program takes three quarters of a core
_PAUSE = 9  # times the length of a trial before the next one, so trials take at most a tenth of the time


class ThreadWatch:
    """Times the steps of a run, and sets the number of threads of the next step."""

    def __init__(self, config: Config, processes: Processes, unit: str) -> None:
        """`unit` names the tokens of the task."""
        self._first, self._unit = chosen(config.train.threads), unit
        self._counts, self._alone = _counts(config, processes), processes.count == 1
        self._turns: list[int] = []  # numbers of threads to try in the next steps; empty if there's no trial
        self._seconds: dict[int, list[float]] = {}  # per token in the trial in progress, by number of threads
        self._others, self._looked = OtherPrograms(), time.perf_counter()
        self._began = self._resting = 0.0  # when the trial began, and when the next one may begin

    def begin(self, state: State) -> None:
        """Set the number of threads of the first step, which is the recorded one if the run was resumed.

        A resumed run may change its number only if that was so when it began.
        """
        if state.step == 0:
            state.threads_open = bool(self._counts)
        if not state.threads_open:
            self._counts = []
        if state.threads and self._alone:
            torch.set_num_threads(state.threads)
        self._look_again()

    def stepped(self, state: State, tokens: int, seconds: float) -> Choice | None:
        """Set the number of threads of the next step. Return the choice and its reason at the end of a trial.

        Args:
            state: the state of the run. The choice is recorded in it.
            tokens: tokens of the last step.
            seconds: duration of the last step.
        """
        if not self._counts:
            return None
        choice = None
        if self._turns:
            self._seconds.setdefault(self._turns.pop(0), []).append(seconds / tokens)
            self._turns = self._turns or self._next_turns()
            if not self._turns:
                choice = self._decide(state)
        elif time.perf_counter() >= self._looked + _WINDOW and self._has_changed(state):
            self._seconds, self._turns, self._began = {}, self._counts[::-1], time.perf_counter()
        torch.set_num_threads(self._turns[0] if self._turns else state.threads or self._first)
        return choice

    def _has_changed(self, state: State) -> bool:
        """Return whether other programs use more or fewer cores than after the last choice."""
        others = self._others.cores()
        self._look_again()
        if state.others is None:
            state.others = others
        return abs(others - state.others) >= _CHANGED and self._looked >= self._resting

    def _next_turns(self) -> list[int]:
        """Return the numbers of threads that are worth another turn."""
        again = promising(self._seconds)
        done = len(again) == 1 or len(self._seconds[again[0]]) == TURNS
        return [] if done else again

    def _decide(self, state: State) -> Choice | None:
        before, medians = state.threads or self._first, {n: statistics.median(it) for n, it in self._seconds.items()}
        timing = Timing(medians, 1.0, self._others.cores())
        state.threads, state.others = timing.threads, None
        self._look_again()
        self._resting = self._looked + _PAUSE * (self._looked - self._began)
        return timing.choice(self._unit) if state.threads != before else None

    def _look_again(self) -> None:
        self._others, self._looked = OtherPrograms(), time.perf_counter()


def _counts(config: Config, processes: Processes) -> list[int]:
    """Return the numbers of threads to try during a run; none if the user chose one, or the run is too short."""
    train = config.train
    is_open = config.origin("train.threads") in ("machine", "task") and not threads_asked_for()
    if not is_open or processes.count > 1 or train.device != "cpu" or train.compile:  # compiled code keeps its number
        return []
    if usable_cores() == 1 or (not train.budget and chosen(train.steps) < FEWEST):
        return []
    return powers_of_two(usable_cores())
