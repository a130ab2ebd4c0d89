"""During a run, the number of threads follows other programs that start and stop."""

from collections.abc import Mapping
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from clearhead.config import Config
from clearhead.training.choices import thread_watch
from clearhead.training.choices.thread_watch import ThreadWatch
from clearhead.training.distributed.processes import ALONE
from clearhead.training.state import State

QUIET, BUSY = {1: 1.0, 2: 0.6}, {1: 1.0, 2: 2.0}  # seconds of a step, by number of threads


class Machine:
    """A machine of two cores, where steps of 100 tokens take as long as they are told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, threads: int = 2, **changes: Any) -> None:
        self.now, self.others, self.threads = 0.0, 0.0, 2
        self.state, self.taken, self.said = State(), list[int](), list[str]()
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        monkeypatch.setattr(thread_watch, "usable_cores", lambda: 2)
        monkeypatch.setattr(thread_watch, "time", SimpleNamespace(perf_counter=lambda: self.now))
        monkeypatch.setattr(thread_watch, "OtherPrograms", lambda: SimpleNamespace(cores=lambda: self.others))
        monkeypatch.setattr(torch, "set_num_threads", lambda count: setattr(self, "threads", count))
        settings = {"train.threads": threads, "train.device": "cpu", "train.steps": 1000}
        self.config = Config().assign(settings, "machine").override(changes)
        self.watch = ThreadWatch(self.config, ALONE, "tokens")
        self.watch.begin(self.state)

    def run(self, steps: int, seconds: Mapping[int, float], others: float) -> list[int]:
        """Take so many steps. Return the numbers of threads that they used."""
        taken, self.others = [], others
        for _ in range(steps):
            taken.append(self.threads)
            self.now += seconds[self.threads]
            if choice := self.watch.stepped(self.state, 100, seconds[self.threads]):
                self.said.append(str(choice))
        return taken


def test_on_a_quiet_machine_the_number_never_changes(monkeypatch) -> None:
    machine = Machine(monkeypatch)
    assert set(machine.run(100, QUIET, 0.1)) == {2}
    assert (machine.said, machine.state.threads) == ([], 0)


def test_a_program_that_starts_and_stops_is_noticed(monkeypatch) -> None:
    machine = Machine(monkeypatch)
    machine.run(10, QUIET, 0.0)
    taken = machine.run(30, BUSY, 0.7)
    assert taken[-20:] == [1] * 20 and taken.count(2) <= 3  # one step until it's noticed, and the trial
    assert machine.state.threads == 1
    assert machine.said == [
        "train.threads = 1: 100 tokens per second in a trial, 50 with 2 threads; other programs use 0.7 of 2 cores"
    ]
    machine.run(60, BUSY, 1.0)  # it gets more time than next to two threads
    assert len(machine.said) == 1
    assert machine.run(40, QUIET, 0.0)[-1] == 2
    assert machine.state.threads == 2 and len(machine.said) == 2


def test_a_trial_that_changes_nothing_is_silent_and_rare(monkeypatch) -> None:
    machine = Machine(monkeypatch)
    taken = [count for turn in range(100) for count in machine.run(5, QUIET, turn % 2)]  # a program comes and goes
    assert machine.said == []
    assert 0 < taken.count(1) < 50


@pytest.mark.parametrize("asked", [None, "2"])
def test_a_resumed_run_continues_with_the_recorded_number(monkeypatch, asked: str | None) -> None:
    machine = Machine(monkeypatch)
    machine.run(10, QUIET, 0.0)
    machine.run(30, BUSY, 0.7)
    saved = {**asdict(machine.state), "step": 40}
    if asked:
        monkeypatch.setenv("OMP_NUM_THREADS", asked)
    machine.threads, machine.state = 2, State.from_dict(saved)
    machine.watch = ThreadWatch(machine.config, ALONE, "tokens")
    machine.watch.begin(machine.state)
    assert machine.run(1, BUSY, 0.7) == [1]
    assert (machine.run(40, QUIET, 0.0)[-1] == 2) == (asked is None)


def test_a_run_that_began_with_the_users_number_keeps_it_when_it_is_resumed(monkeypatch) -> None:
    machine = Machine(monkeypatch)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    ThreadWatch(machine.config, ALONE, "tokens").begin(machine.state)
    monkeypatch.delenv("OMP_NUM_THREADS")
    machine.state = State.from_dict({**asdict(machine.state), "step": 10})
    machine.watch.begin(machine.state)
    assert set(machine.run(30, BUSY, 1.0)) == {2}


@pytest.mark.parametrize(
    "changes", [{"train.threads": 2}, {"train.device": "cuda"}, {"train.compile": True}, {"train.steps": 199}]
)
def test_a_number_that_the_user_chose_is_kept(monkeypatch, changes: dict[str, Any]) -> None:
    machine = Machine(monkeypatch, **changes)
    machine.run(10, QUIET, 0.0)
    assert set(machine.run(30, BUSY, 1.0)) == {2}


def test_one_of_several_processes_keeps_its_number(monkeypatch) -> None:
    machine = Machine(monkeypatch)
    group: Any = SimpleNamespace(count=2)
    machine.watch = ThreadWatch(machine.config, group, "tokens")
    machine.watch.begin(machine.state)
    assert set(machine.run(30, BUSY, 1.0)) == {2}
