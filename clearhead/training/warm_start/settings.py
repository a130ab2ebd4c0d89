"""The settings of a warm start: recognise one, record its initial state so that it can resume, and plan its stages.

While a warm start is in progress, its folder contains two hidden files: the settings it began with, and the digest of
the model that it will replace, if any.
"""

import json
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...config import Config, Recipe
from ...config.values import invalid, read_duration
from ...data.extra_texts import FormWithTexts
from ...errors import ConfigError, ModelError, TrainingError
from ...folder.atomic import write_file, writing
from ...folder.manifest import MANIFEST, digest, read_bytes, read_json_object
from ...folder.model_folder import CONFIG, read_config
from ...readers.files import STDIN
from ...tasks.base import Task
from ..choices.hyperparameters import with_preset
from ..open_run import RunOptions
from ..prepare import PLACES, refuse_contradictions

OF_WARM_START = ("train.warm_steps", "train.hidden_span", "train.soup")  # settings that only a warm start uses
_REQUEST, _OLD_MODEL = ".asked.json", ".replaced"
_SHARES = (1, 2)  # of a budget, for the first two stages; every later stage gets 1
_DROPOUT = 0.1  # at most, in pretraining: the hidden words change every time, and more dropout hurts
_STEPS_FOR_LABELS = 3  # pretraining steps per step of the task: classifiers overfit soon, so they train for few steps
_RUNS_FOR_LABELS = 4  # their mean was up to half a point more accurate than one of them


def is_warm_start(config: Config, out: str | Path, options: RunOptions) -> bool:
    """Return whether to train with a warm start: the settings request one, or the run to resume is one.

    Raises:
        ConfigError: a setting needs a warm start, but this run isn't one.
        TrainingError: the folder contains a warm start in progress, and neither `resume` nor `replace` is set.
    """
    out = Path(out)
    if config.train.warm_start or (options.resume and _was_warm_start(out, options.allowed(config))):
        return bool(config.data.train)
    for name in ("data.texts", *OF_WARM_START):
        if (value := config.value(name)) not in (None, ()):
            raise invalid(name, value, "has no effect without a warm start", fix="set train.warm_start=denoise as well")
    if not (options.resume or options.replace) and was_requested(out):
        what = f"{out} is occupied: it contains a warm start in progress"
        fix = "continue it with `resume=True`, or choose another folder with `out`"
        raise TrainingError(what, fix=fix, name=str(out))
    return False


def was_requested(out: Path) -> bool:
    """Return whether a folder contains a warm start in progress."""
    return (out / _REQUEST).exists()


def write_request(out: Path, config: Config) -> None:
    """Record the settings that a warm start begins with."""
    with writing(out):
        write_file(out / _REQUEST, json.dumps(config.to_record(), indent=1).encode() + b"\n")


def read_request(out: Path, config: Config, allowed: bool | Collection[str]) -> Config:
    """Return the settings that the warm start in a folder began with, updated with the file paths in `config`.

    The user may now set values that were left open. The stages check them.

    Raises:
        ConfigError: the user changed a setting.
        ModelError: the file is damaged, or names custom code that isn't allowed.
    """
    path = out / _REQUEST
    begun = Config.from_record(read_json_object(path), source=str(path), allow_custom_code=allowed)
    asked = {name for name in config.by_origin().get("user", ()) if name not in PLACES}
    new = {name for name in asked if not begun.is_users(name) and begun.value(name) in (None, "auto")}
    refuse_contradictions(out, begun, config, asked - new)
    places = {name for name in PLACES if config.value(name)}
    return begun.override({name: config.value(name) for name in new | places})


def mark_old_model(out: Path) -> None:
    """Mark the model in a folder as the one to replace. It stays until the last stage begins."""
    manifest = out / MANIFEST
    if manifest.exists():
        with writing(out):
            write_file(out / _OLD_MODEL, digest(read_bytes(manifest)).encode())


def forget_old_model(out: Path) -> None:
    """Remove the mark after the model has been replaced."""
    (out / _OLD_MODEL).unlink(missing_ok=True)


def holds_old_model(out: Path) -> bool:
    """Return whether the model in a folder is still the one to replace."""
    mark, manifest = out / _OLD_MODEL, out / MANIFEST
    return mark.exists() and manifest.exists() and read_bytes(mark) == digest(read_bytes(manifest)).encode()


def forget_request(out: Path) -> None:
    """Remove the settings of a warm start that is complete, or hasn't begun."""
    (out / _REQUEST).unlink(missing_ok=True)


def _was_warm_start(out: Path, allowed: bool | Collection[str]) -> bool:
    if was_requested(out):
        return True
    if (out / CONFIG).exists() and not holds_old_model(out):
        with suppress(ModelError):  # opening the run reports it
            return bool(read_config(out, allow_custom_code=allowed).train.warm_start)
    return False


# --- the stages -----------------------------------------------------------------------------------------------------


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
        what = "train.warm_start=denoise reads the data several times, but standard input can only be read once"
        raise ConfigError(what, expected="the name of a file", name="data.train", value=STDIN)
    if not data.split and not data.valid:
        what = "train.warm_start=denoise with data.split=0 leaves nothing to measure its effect on"
        expected = "a share above 0, or validation files (`data.valid`)"
        raise ConfigError(what, expected=expected, name="data.split", value=data.split)
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
