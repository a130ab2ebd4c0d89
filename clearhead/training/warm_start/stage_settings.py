"""Settings and time share of each stage of a warm start."""

import time
from collections.abc import Collection
from typing import Any

from ...config import Config, Recipe
from ...config.values import read_duration
from ...data.extra_texts import FormWithTexts
from ...errors import ConfigError
from ...readers.files import STDIN
from ...tasks.base import Task
from ..choices.hyperparameters import with_preset
from .request import OF_WARM_START

_SHARES = (1, 2)  # of a budget, for the first two stages; every later stage gets 1
_DROPOUT = 0.1  # at most, in pretraining: the hidden words change every time, and more dropout hurts
_STEPS_FOR_LABELS = 3  # pretraining steps per step of the task: classifiers overfit soon, so they train for few steps
_RUNS_FOR_LABELS = 4  # their mean was up to half a point more accurate than one of them


def check(config: Config, denoising: type[Task]) -> None:
    """Raise ConfigError if the other settings don't allow a warm start."""
    data = config.data
    if denoising.required["model.topology"] == "encoder-decoder" and not data.joint:
        raise ConfigError(
            "train.warm_start=denoise reads and writes the same texts, but with data.joint=false source and target "
            "have different vocabularies",
            fix="set data.joint=true",
            name="data.joint",
            value=False,
        )
    if STDIN in (*data.train, *data.valid, *data.test, *data.texts):
        raise ConfigError(
            "train.warm_start=denoise reads the data several times, but standard input can only be read once",
            expected="the name of a file",
            name="data.train",
            value=STDIN,
        )
    if not data.split and not data.valid:
        raise ConfigError(
            "train.warm_start=denoise with data.split=0 leaves nothing to measure its effect on",
            expected="a share above 0, or validation files (`data.valid`)",
            name="data.split",
            value=data.split,
        )
    if isinstance(denoising.form, FormWithTexts):
        with denoising.form.open_texts(data) as documents:  # raises if they can't be read, before the first stage
            for _ in documents:
                pass


def number_of_runs(config: Config, task: type[Task]) -> int:
    """Return the number of times to train the task from the pretrained weights."""
    return config.train.soup or (_RUNS_FOR_LABELS if task.has_labels and not config.train.budget else 1)


def step_factor(task: type[Task]) -> int:
    """Return the default number of pretraining steps, in steps of the task."""
    return _STEPS_FOR_LABELS if task.has_labels else 1


def baseline(config: Config) -> Config:
    """Return the settings of the first stage: the task from random weights."""
    without = {"train.warm_start": "", "data.texts": (), **dict.fromkeys(OF_WARM_START)}
    return intermediate(config).assign(without, "default")


def pretraining(config: Config, first: Recipe, task: type[Task]) -> Config:
    """Return the settings of the second stage, given the final settings of the first one."""
    values: dict[str, Any] = {"train.warm_start": "", "train.soup": None, "train.watch": "", "train.best": "loss"}
    values |= {"data.test": (), "data.texts": (), "data.subword_dropout": 0.0, "train.epochs": None}
    usual = {"model.dropout": min(first.model.dropout, _DROPOUT), "train.label_smoothing": 0.0}
    values |= {name: value for name, value in usual.items() if not config.is_users(name)}
    if not config.train.budget:
        values["train.steps"] = config.train.warm_steps or step_factor(task) * first.train.steps
    config = _with_choices_of(first, config).assign(values, "user")
    open_again = {name: config.value(name) for name in ("train.warmup", "model.head")}
    return config.assign(open_again, "preset")  # pretraining needs another warmup and another head


def fine_tuning(config: Config, first: Config, n_runs: int) -> Config:
    """Return the settings of the last stage."""
    return _with_choices_of(first, config).choose({"train.soup": n_runs}, "data")


def intermediate(config: Config) -> Config:
    """Return settings without test data and watched text, which only the last stage uses."""
    return config.assign({"train.watch": "", "data.test": ()}, "default")


def _with_choices_of(first: Config, config: Config) -> Config:
    """Return the settings with the preset and the number of threads of the first stage."""
    config, preset = config.choose({"train.threads": first.train.threads}, "task"), first.train.preset
    return config if preset is None else with_preset(config, preset, first.origin("train.preset"))


class Clock:
    """Divide a budget among the stages."""

    def __init__(self, budget: str, began: float, done: Collection[int], n_runs: int = 1) -> None:
        """Divide the time from `began` among the stages that aren't `done` yet."""
        shares = [*_SHARES, *[1] * n_runs]
        self._left = [0 if i in done else share for i, share in enumerate(shares)]
        seconds = read_duration(budget) if budget else 0.0
        self._end = began + seconds * sum(self._left) / sum(shares) if budget else None

    def end(self, stage: int) -> float | None:
        """Return the deadline of a stage that begins now, as a `time.monotonic` value; None without a budget."""
        if self._end is None or not self._left[stage]:
            return self._end
        now = time.monotonic()
        return now + (self._end - now) * self._left[stage] / sum(self._left[stage:])
