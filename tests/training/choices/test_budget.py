"""What a time allows, and a run that ends when it should."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from clearhead.api import load, train
from clearhead.config import SHAPE, Config
from clearhead.config.values import read_duration
from clearhead.demo.phrasebook import split
from clearhead.errors import TrainingError
from clearhead.folder.model_folder import read_config
from clearhead.tasks.translate import Translation
from clearhead.training.choices import budget
from clearhead.training.choices.budget import Measured, plan
from clearhead.training.schedule import Deadline, Scoring, process_began
from clearhead.training.signals import StoppedError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("15m", 900), ("90s", 90), ("2h", 7200), ("1h30m", 5400), ("1h 2m 3s", 3723), ("1.5h", 5400), ("30min", 1800)],
)
def test_a_time_is_read_as_people_write_it(text: str, seconds: float) -> None:
    assert read_duration(text) == seconds


# --- the pace of a run


USUAL = Scoring(500)


class Run:
    """A run whose steps and evaluations take as long as they are told to, and its clock."""

    def __init__(self, asked: float, steps: int, eval_every: int, scoring: Scoring = USUAL) -> None:
        self.now, self.asked, self.last, self.eval_every, self.step = 0.0, asked, steps, eval_every, 0
        self.scoring, self.deadline = scoring, Deadline(f"{asked}s", asked, scoring, lambda: self.now)

    def go(self, step_seconds: Iterator[float], evaluation: float) -> float:
        """Seconds from start to end, the final evaluation with a slower search included."""
        while self.step < self.last:
            self.last = self.deadline.last_step(self.step, self.last, self.eval_every)
            if self.step >= self.last:
                break
            seconds = next(step_seconds)
            self.now, self.step = self.now + seconds, self.step + 1
            self.deadline.stepped(seconds)
            if self.step % self.eval_every == 0:
                self.now += evaluation
                self.deadline.evaluated(evaluation)
        of_sentence = evaluation / max(self.scoring.valid, 1)  # the search takes two and a half times as much
        searched = 2.5 * of_sentence * (self.scoring.valid + self.scoring.test)
        return self.now + (1 + self.scoring.mean) * evaluation + searched + 2.0


def constant(seconds: float) -> Iterator[float]:
    while True:
        yield seconds


def slowing() -> Iterator[float]:
    for i in range(10**6):
        yield 0.5 * (1 + min(i, 1000) / 1000)


def wavering() -> Iterator[float]:
    for i in range(10**6):
        yield 0.5 if i // 100 % 2 else 0.9


def halting() -> Iterator[float]:
    """The first step of each epoch waits for the plan of it."""
    for i in range(10**6):
        yield 12.0 if i % 400 == 0 else 0.6


@pytest.mark.parametrize("steps", [200, 1000, 5000], ids="planned {}".format)
@pytest.mark.parametrize(
    "pace", [lambda: constant(0.6), slowing, wavering, halting], ids=["constant", "slowing", "wavering", "halting"]
)
@pytest.mark.parametrize("evaluation", [1.0, 9.0])
def test_a_run_ends_in_the_last_tenth_of_its_time_however_wrong_the_plan(steps, pace, evaluation: float) -> None:
    run = Run(900, steps, 150)
    assert 0.9 * 900 <= run.go(pace(), evaluation) <= 900


@pytest.mark.parametrize(("valid", "test", "mean"), [(500, 0, True), (500, 2000, False), (500, 5000, True)])
def test_a_file_to_test_on_and_a_mean_of_checkpoints_have_their_time(valid: int, test: int, mean: bool) -> None:
    run = Run(900, 1200, 150, Scoring(valid, test, mean))
    assert 0.88 * 900 <= run.go(constant(0.6), 4.0) <= 900


def test_what_is_scored_after_the_last_step_takes_its_time() -> None:
    assert Scoring(500).closing(5.0, 0.6) == 4 * 5.0
    assert Scoring(500, 1000, mean=True).closing(5.0, 0.6) == pytest.approx(2 * 5.0 + 3 * (5.0 + 10.0))
    assert Scoring(10, 500).closing(1.0, 0.6) == pytest.approx(1.0 + 3 * 510 / 100)
    assert Scoring(0, 500).closing(0.0, 0.2) == pytest.approx(3 * 500 * 0.005)  # as a guess, by the step
    assert Scoring(0).evaluation(0.6) == Scoring(0).closing(0.0, 0.6) == 0.0


def test_one_slow_step_changes_nothing() -> None:
    deadline = Deadline("900s", 900, USUAL, lambda: 60.0)
    for seconds in [12.0, *[0.6] * 5]:
        deadline.stepped(seconds)
    assert deadline.last_step(6, 1220, 200) == 1220


def test_a_plan_that_is_right_is_kept() -> None:
    steps = int((0.96 * 900 - 3 - 4 * 7.2) / (1.0 + 7.2 / 100))
    run = Run(900, steps, 100)
    run.go(constant(1.0), 7.2)
    assert run.last == run.step == steps


def test_before_a_step_was_seen_nothing_is_corrected() -> None:
    assert Deadline("900s", 900, USUAL, lambda: 0.0).last_step(0, 10**6, 10) == 10**6


def test_a_process_began_before_now_and_not_long_ago() -> None:
    assert process_began() == pytest.approx(process_began(), abs=0.1)
    assert 0 <= time.monotonic() - process_began() < 3600
    code = (
        "import time; from clearhead.training.schedule import process_began; print(time.monotonic() - process_began())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0 <= float(done.stdout) < 10


# --- the plan


SPEEDS = {
    "nano": Measured("nano", 500_000, 0.2, 3900),
    "mini": Measured("mini", 4_000_000, 0.65, 3900),
    "small": Measured("small", 8_000_000, 1.1, 3900),
    "base": Measured("base", 44_000_000, 6.0, 3900),
    "big": Measured("big", 170_000_000, 24.0, 3900),
}


class Tokens:
    """Examples of which only the number counts."""

    tokens = 1_800_000


def planned(
    seconds: float,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict | None = None,
    scoring: Scoring = USUAL,
    model: dict | None = None,
) -> tuple[Config, list[str]]:
    measured: list[str] = []

    def measure(config: Config, name: str, *_: object) -> Measured:
        measured.append(name)
        return replace(SPEEDS.get(name, SPEEDS["mini"]), name=name)

    monkeypatch.setattr(budget, "_measure", measure)
    asked = Config().override({"train.budget": f"{seconds}s", **(changes or {})})
    config, _ = budget.begin(asked.assign(model or {}, "model"))
    left = lambda: seconds - 20.0  # noqa: E731
    found, choices = plan(config, SimpleNamespace(units=Translation.units), Tokens(), left, scoring)  # type: ignore[arg-type]
    assert measured
    return found, [str(choice) for choice in choices]


@pytest.mark.parametrize(
    ("minutes", "name", "dropout"), [(3, "nano", 0.0), (15, "mini", 0.0), (60, "small", 0.1), (1500, "base", 0.2)]
)
def test_more_time_makes_a_larger_model(minutes: float, name: str, dropout: float, monkeypatch) -> None:
    config, said = planned(60 * minutes, monkeypatch)
    assert (config.train.preset, config.model.dropout) == (name, dropout)
    assert config.model.pre_norm
    assert said[0].startswith(f"train.preset = {name}: ") and any(line.startswith("train.steps = ") for line in said)


@pytest.mark.parametrize("seconds", [120.0, 900.0, 3600.0])
def test_the_steps_fill_the_time_that_is_left(seconds: float, monkeypatch) -> None:
    config, _ = planned(seconds, monkeypatch, scoring=Scoring(min(int(seconds / 2), 500)))
    steps = config.train.steps * SPEEDS[config.train.preset].seconds
    assert 0.68 * seconds < steps < 0.95 * seconds


def test_what_comes_after_the_last_step_leaves_less_time_for_steps(monkeypatch) -> None:
    scored = (Scoring(500), Scoring(500, 1000), Scoring(10, 500))
    usual, tested, few = (planned(900.0, monkeypatch, scoring=each)[0].train.steps for each in scored)
    of_sentence = 0.025 * SPEEDS["mini"].seconds
    assert usual - tested == pytest.approx(3 * 1000 * of_sentence / SPEEDS["mini"].seconds, abs=2)
    assert few > 0.95 * usual
    with pytest.raises(TrainingError):
        planned(60.0, monkeypatch, scoring=Scoring(50, 10_000))


def test_a_trained_model_keeps_its_dropout_and_moves_by_smaller_steps(monkeypatch) -> None:
    random, _ = planned(3600.0, monkeypatch)
    of_model = {name: random.value(name) for name in SHAPE} | {"model.dropout": 0.25}
    trained, said = planned(3600.0, monkeypatch, {"train.init_from": "models/a"}, model=of_model)
    assert trained.model.dropout == 0.25 and not any("dropout" in line for line in said)
    assert trained.train.lr == pytest.approx(random.train.lr / 5, rel=1e-3)


def test_what_is_given_is_left_as_it_is(monkeypatch) -> None:
    given = {"train.preset": "nano", "train.lr": 1e-4, "model.dropout": 0.3, "model.pre_norm": False}
    config, said = planned(900.0, monkeypatch, given)
    assert (config.train.preset, config.train.lr, config.model.dropout, config.model.pre_norm) == tuple(given.values())
    assert not any("lr" in line or "dropout" in line or "preset" in line for line in said)


@pytest.mark.parametrize(
    ("changes", "positions"),
    [
        ({}, "rotary"),
        ({"model.positions": "learned"}, "learned"),
        ({"train.preset": "t5-small"}, "relative"),
        ({"train.task": "generate"}, "sinusoidal"),
        ({"model.d_model": 36, "model.n_heads": 4}, "sinusoidal"),  # a head of odd width can't rotate
    ],
    ids=str,
)
def test_translation_gets_rotary_positions_if_nothing_speaks_against_them(monkeypatch, changes, positions) -> None:
    config, said = planned(900.0, monkeypatch, changes)
    assert config.model.positions == positions
    assert any(line.startswith("model.positions") for line in said) == (positions == "rotary")


@pytest.mark.parametrize("asked", [2.0, 25.0, 30.0])
@pytest.mark.parametrize("scoring", [Scoring(50), Scoring(50, 10_000), Scoring(0)], ids=str)
@pytest.mark.parametrize("changes", [{}, {"train.preset": "small"}], ids=str)
def test_a_budget_that_is_too_small_is_rejected_with_the_least_that_would_do(
    monkeypatch, asked: float, scoring: Scoring, changes: dict
) -> None:
    with pytest.raises(TrainingError) as caught:
        planned(asked, monkeypatch, changes, scoring)
    error = caught.value
    assert (error.name, error.value) == ("train.budget", f"{asked}s")
    assert ("smaller `train.preset`" in error.fix) == bool(changes)
    least = read_duration(error.fix.split("=")[1].split("`")[0])
    assert planned(least, monkeypatch, changes, scoring)[0].train.steps >= 50
    assert least > asked
    with pytest.raises(TrainingError):  # and not much less would do
        planned(0.8 * least - 15, monkeypatch, changes, scoring)


def test_the_wording_of_the_error_of_a_small_budget(monkeypatch) -> None:
    with pytest.raises(TrainingError) as caught:
        planned(25.0, monkeypatch)
    assert str(caught.value) == (
        "train.budget=25.0s is too small: reading, scoring and saving leave no time to train\n"
        "  expected: time for 50 steps at this machine's current speed: at least 1m15s\n"
        "  set `train.budget=1m15s` or more"
    )


# --- real runs


@pytest.mark.slow
@pytest.mark.parametrize("budget", ["45s", "100s"])
def test_a_run_takes_its_time_from_the_start_of_the_process_to_its_end(tmp_path: Path, budget: str) -> None:
    train, _ = split()
    lines = "".join(f"{it.english}\t{it.french}\n" for it in train[::4])
    (tmp_path / "pairs.tsv").write_text(lines, encoding="utf-8")
    command = [sys.executable, "-m", "clearhead", "train", "pairs.tsv", "--out", "model", "--budget", budget]
    begun = time.monotonic()
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert 0.9 * read_duration(budget) <= time.monotonic() - begun <= read_duration(budget)
    assert load(tmp_path / "model").config.train.budget == budget


def test_a_run_with_a_budget_says_why_and_resumes_to_the_step_that_it_last_aimed_at(toy, monkeypatch) -> None:
    monkeypatch.setattr(budget, "_measure", lambda config, name, *_: Measured(name, 500_000, 0.01, 100))
    monkeypatch.setattr(Deadline, "last_step", lambda self, step, last, eval_every: 24 if step >= 5 else last)
    asked = {name: value for name, value in toy.config().to_dict()["data"].items() if name in ("train", "tokenizer")}
    config = Config().override({f"data.{name}": value for name, value in asked.items()})
    config = config.override({"train.budget": "20s", "train.threads": 1, "model.dropout": 0.0})
    said: list[str] = []
    steps: list[int] = []

    def stop(record: dict) -> None:
        steps.append(record["step"])
        if record["step"] == 16:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(StoppedError):
        train(config, toy.folder / "run", say=said.append, on_step=stop)
    assert any(line.startswith("train.preset = nano: ") for line in said)
    assert sum(line.startswith("train.warmup = ") for line in said) == 1
    train(config, toy.folder / "run", resume=True, say=said.append, on_step=stop)
    assert steps[-1] == 24
    assert any(line.endswith("at step 16 of 24") for line in said)
    stored = read_config(toy.folder / "run").train
    assert stored.steps > 100 and stored.preset == "nano"
