"""What each stage of a warm start is set to, and how long it may take."""

from typing import Any

import pytest

from clearhead.config import Config
from clearhead.tasks.denoise import denoising
from clearhead.tasks.registry import task_of
from clearhead.training import warm_start
from clearhead.training.report.card import training_command
from clearhead.training.warm_start import Clock, _baseline, _fine_tuning, _number_of_runs, _pretraining


def asked(changes: dict[str, Any] | None = None) -> Config:
    values = {"data.train": ("texts.tsv",), "train.task": "classify", "train.warm_start": "denoise"}
    return Config().override({**values, **(changes or {})})


def completed(config: Config, steps: int = 100) -> Config:
    """The settings that a stage ended up with."""
    return task_of(config).settle(config).assign({"train.steps": steps}, "data")


@pytest.mark.parametrize(
    ("changes", "dropout", "smoothing"),
    [({}, 0.1, 0.0), ({"model.dropout": 0.2, "train.label_smoothing": 0.05}, 0.2, 0.05)],
)
def test_pretraining_needs_less_against_overfitting_than_the_task(changes, dropout: float, smoothing: float) -> None:
    config = asked(changes)
    found = _pretraining(config, completed(config), task_of(config))
    assert (found.model.dropout, found.train.label_smoothing) == (dropout, smoothing)


@pytest.mark.parametrize(
    ("changes", "steps"), [({}, 300), ({"train.warm_steps": 7}, 7), ({"train.task": "translate"}, 100)]
)
def test_pretraining_takes_as_many_steps_as_the_task_or_more_for_labels(changes: dict[str, Any], steps: int) -> None:
    config = asked(changes)
    assert _pretraining(config, completed(config), task_of(config)).train.steps == steps


def test_the_span_of_hidden_words_is_that_of_the_task_or_as_asked() -> None:
    for changes, span in (({}, 1.0), ({"train.hidden_span": 2.5}, 2.5), ({"train.task": "translate"}, 3.0)):
        config = asked(changes)
        task = task_of(config)
        found = denoising(task).settle(_pretraining(config, completed(config), task))
        assert found.train.hidden_span == span


def test_the_baseline_knows_nothing_of_the_warm_start() -> None:
    changes = {"train.warm_steps": 7, "train.soup": 3, "data.texts": ("x",), "data.test": ("y",), "train.watch": "z"}
    assert _baseline(asked(changes)).to_dict() == asked({"train.warm_start": ""}).to_dict()


@pytest.mark.parametrize(("verb", "budget", "runs"), [("classify", "", 4), ("classify", "5m", 1), ("answer", "", 1)])
def test_labels_are_learnt_several_times(verb: str, budget: str, runs: int) -> None:
    config = asked({"train.task": verb, "train.budget": budget})
    assert _number_of_runs(config, task_of(config)) == runs
    assert _number_of_runs(config.override({"train.soup": 2}), task_of(config)) == 2


def test_a_number_of_runs_that_was_chosen_is_not_in_the_command_of_the_card() -> None:
    for config, named in ((asked(), False), (asked({"train.soup": 4}), True)):
        assert ("train.soup" in training_command(_fine_tuning(config, completed(config), 4))) == named


def test_the_time_of_a_budget_is_shared_and_what_is_left_over_goes_to_later_stages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr(warm_start.time, "monotonic", lambda: now)
    clock = Clock("400s", 100.0, [])
    assert clock.end(0) == 200.0
    now = 140.0  # sooner than it might have been
    assert clock.end(1) == 140.0 + (500 - 140) * 2 / 3
    now = 400.0
    assert clock.end(2) == 500.0
    assert Clock("400s", 400.0, [0]).end(2) == 700.0  # what is resumed does not pay for the first again
    assert Clock("", 100.0, []).end(1) is None
    now = 100.0
    several = Clock("600s", 100.0, [], n_runs=3)
    assert [several.end(place) for place in (0, 1, 4)] == [200.0, 100.0 + 600 * 2 / 5, 700.0]
