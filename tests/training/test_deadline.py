"""A run that is to end on time: what it does to the schedule, and what it says where the machine was too slow."""

import pytest

from clearhead.config import Config
from clearhead.training.schedule import Deadline, Schedule, Scoring, shortfall


def paced(seconds_a_step: float) -> Schedule:
    """The schedule of a run of 1,000 steps in 100 seconds, after ten steps that took so long."""
    now = 0.0
    deadline = Deadline("100s", 100.0, Scoring(0), clock=lambda: now)
    for _ in range(10):
        now += seconds_a_step
        deadline.stepped(seconds_a_step)
    schedule = Schedule("linear", 1.0, 100, 1000)
    return schedule.ending_at(deadline.last_step(10, schedule.last, eval_every=100), after=10)


@pytest.mark.parametrize(("seconds", "last"), [(0.05, 1860), (0.093, 1000), (0.5, 186)])
def test_the_schedule_is_stretched_to_the_steps_that_fit_and_goes_on_from_there(seconds: float, last: int) -> None:
    schedule = paced(seconds)
    assert schedule.last_step == pytest.approx(last, rel=0.02)
    assert schedule(10) == pytest.approx(0.1) and schedule(schedule.last_step) == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("done", "budget", "warns"), [(1, "15m", True), (49, "15m", True), (50, "15m", False), (1, "", False)]
)
def test_a_run_that_made_few_of_its_steps_is_called_undertrained(done: int, budget: str, warns: bool) -> None:
    config = Config().override({"train.budget": budget}).assign({"train.steps": 100}, "budget").train
    text = shortfall(done, config)
    assert bool(text) == warns
    if warns:
        steps = "1 step of 100" if done == 1 else "49 steps of 100"
        assert text.startswith(f"the model is undertrained: train.budget=15m was enough for {steps}, ")
