"""Warm start: pretrain on the task's own texts before training on the task (Krishna et al. 2023).

The same trainer runs several times, on the same split, with the same tokenizer, shape and seed:

OUT/.without      the task from random weights, as the baseline
OUT/.pretrained   denoising or language modelling on the texts alone
OUT/.run-2, ...   the task from the pretrained weights, if several runs are averaged
OUT               the task from the pretrained weights

While a warm start is in progress, its folder contains two hidden files: the settings it began with, and the digest of
the model that it will replace, if any.
"""

import dataclasses
import json
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from ..config import DROPOUT, Config, Recipe
from ..config.values import invalid, read_duration
from ..data.extra_texts import FormWithTexts
from ..errors import ConfigError, ModelError, TrainingError
from ..folder.atomic import remove_folder, write_file, writing
from ..folder.checkpoint import CHECKPOINTS, RunFolder, has_begun
from ..folder.manifest import MANIFEST, Manifest, digest, read_bytes, read_json_object
from ..folder.model_folder import CONFIG, load_model_folder, read_config
from ..readers.files import STDIN
from ..tasks.base import EvaluationResult, Task
from ..tasks.denoise import denoising
from ..tasks.detect import with_task
from ..tasks.registry import task_of
from .choices.hyperparameters import with_preset
from .init_from import InitFrom
from .open_run import RunOptions, Stage, check_early
from .prepare import PLACES, Prepared, refuse_contradictions
from .report.gain import compare_with_baseline
from .run import train as train_stage
from .selection import mean_weights
from .signals import StopSignals
from .trainer import Trainer

WITHOUT, PRETRAINED, ALSO = ".without", ".pretrained", ".run-"
OF_WARM_START = ("train.warm_steps", "train.hidden_span", "train.soup")  # settings that only a warm start uses
_REQUEST, _OLD_MODEL = ".asked.json", ".replaced"
_SHARES = (1, 2)  # of a budget, for the first two stages; every later stage gets 1
_DROPOUT = 0.1  # at most, in pretraining: the hidden words change every time, and more dropout hurts
_STEPS_FOR_LABELS = 3  # pretraining steps per step of the task: classifiers overfit soon, so they train for few steps
_RUNS_FOR_LABELS = 4  # their mean was up to half a point more accurate than one of them


def train(config: Config, out: str | Path, options: RunOptions) -> Path:
    """Train a model with a warm start into the folder `out`, and return the folder.

    With a budget, the stages share the time 1 : 2 : 1. `options.on_step` and `options.on_eval` are called in
    the last stage only.

    Args:
        config: the settings that the user gave.
        out: a new or empty folder, unless the options say otherwise.
        options: what else the user asked for.

    Raises:
        ConfigError, DataError, TrainingError: a setting, the data or the folder is unusable.
        StoppedError: a signal stopped the run. It can be resumed.
    """
    began = time.monotonic() if options.began is None else options.began
    out, allowed = Path(out), options.allowed(config)
    if not options.resume:
        check_early(config)
    elif _was_requested(out):
        config = _read_request(out, config, allowed)
    elif (out / CONFIG).exists() and not _holds_old_model(out) and config.is_users("train.warm_start"):
        refuse_contradictions(out, read_config(out, allow_custom_code=allowed), config, ["train.warm_start"])
    if config.train.task is None:
        config = with_task(config, options.say)
        task_of(config).settle(config)  # raises if it can't begin with a warm start
    config = config.choose({"train.warm_start": "denoise"}, "user")
    return _WarmStart(config, out, options).train(began)


def is_warm_start(config: Config, out: str | Path, options: RunOptions) -> bool:
    """Return whether to train with a warm start: the settings request one, or the run to resume is one.

    Args:
        config: the settings that the user gave.
        out: the folder of the run.
        options: what else the user asked for.

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
    if not (options.resume or options.replace) and _was_requested(out):
        what = f"{out} is occupied: it contains a warm start in progress"
        fix = "continue it with `resume=True`, or choose another folder with `out`"
        raise TrainingError(what, fix=fix, name=str(out))
    return False


class _WarmStart:
    """The stages, and the folders that they write to."""

    def __init__(self, config: Config, out: Path, options: RunOptions) -> None:
        """Raise a ConfigError if pretraining on the texts can't help, or if its effect can't be measured."""
        self.config, self.out, self.options, self.say = config, out, options, options.say
        self.without, self.pretrained = out / WITHOUT, out / PRETRAINED
        self.allowed = options.allowed(config)
        self.task = task_of(config)
        self.denoising = denoising(self.task, config.data.texts)
        self.n_runs = _number_of_runs(config, self.task)
        self.also = [out / f"{ALSO}{turn}" for turn in range(2, self.n_runs + 1)]
        _check(config, self.denoising)

    def train(self, began: float) -> Path:
        """Run the stages. On resume, skip those that are complete."""
        self.task.settle(self.config)  # fail early on errors of the last stage
        if self._prepare_folder():
            options = dataclasses.replace(self.options, resume=True, replace=False)
            train_stage(self.config, self.out, options)
        else:
            try:
                with StopSignals():  # each stage has its own; this one covers the time between two stages
                    self._train(began)
            finally:
                with suppress(OSError):  # the folder isn't empty
                    if not self.without.exists():
                        (self.out / _REQUEST).unlink(missing_ok=True)
                    self.out.rmdir()
        self._tidy()
        return self.out

    def _prepare_folder(self) -> bool:
        """Record the requested settings, and return whether the run is complete."""
        resume, replace = self.options.resume, self.options.replace
        with RunFolder.create(self.out, resume=resume, replace=replace, say=lambda _: None) as folder:
            if replace:
                self._forget(self.without, *self._intermediate())
                _mark_old_model(self.out)
            complete = resume and not _holds_old_model(self.out) and folder.finished_step is not None
            if not complete and (replace or not (self.without / CONFIG).exists()):
                write_request(self.out, self.config.choose({"train.soup": self.n_runs}, "data"))
        return complete

    def _train(self, began: float) -> None:
        earlier = (self.without, self.pretrained, *self.also)
        done = [i for i, path in enumerate(earlier) if self.options.resume and _is_complete(path)]
        clock = Clock(self.config.train.budget, began, done, self.n_runs)
        count, verb = 2 + self.n_runs, self.task.verb

        self.say(f"stage 1 of {count}: {verb}, from random weights, in {self.without}{self._duration()}")
        self._run(self.without, _baseline(self.config), Stage(end=clock.end(0), is_last=False))
        first = dataclasses.replace(InitFrom.load(self.without, allow_custom_code=self.allowed), weights={})

        self.say(f"stage 2 of {count}: pretraining on the texts alone, in {self.pretrained}")
        stage = Stage(self.denoising, first, clock.end(1), is_last=False)
        self._run(self.pretrained, _pretraining(self.config, Recipe.of(first.config), self.task), stage)
        pretrained = InitFrom.load(self.pretrained, allow_custom_code=self.allowed)
        dropout = {name: first.config.value(name) for name in DROPOUT}  # that of the task
        start = dataclasses.replace(pretrained, config=pretrained.config.assign(dropout, "model"))

        config = _fine_tuning(self.config, first.config, self.n_runs)
        for turn, path in enumerate(self.also, 1):
            self.say(f"stage {2 + turn} of {count}: {verb}, from the pretrained weights, in {path}")
            stage = Stage(start=start, end=clock.end(1 + turn), turn=turn, is_last=False)
            self._run(path, _intermediate_settings(config), stage)
        mean = f"; then the mean of all {self.n_runs} runs is tried" if self.also else ""
        self.say(f"stage {count} of {count}: {verb}, from the pretrained weights, in {self.out}{mean}")
        average = partial(_try_soup, others=self.also, allowed=self.allowed) if self.also else None
        stage = Stage(start=start, end=clock.end(count - 1), after_training=average, section=self._section)
        self._run(self.out, config, stage)

    def _run(self, path: Path, config: Config, stage: Stage) -> None:
        """Run a stage, or resume it. Only the last one reports to observers and keeps its checkpoints."""
        old = path == self.out and _holds_old_model(self.out)
        resume = self.options.resume and has_begun(path) and not old
        options = dataclasses.replace(self.options, resume=resume, replace=self.options.replace or old, began=None)
        if not stage.is_last:
            options = dataclasses.replace(options, on_step=None, on_eval=None)
        train_stage(config, path, options, stage)
        if not stage.is_last and (path / CHECKPOINTS).exists():
            with writing(path):
                remove_folder(path / CHECKPOINTS)

    def _duration(self) -> str:
        """Describe the duration of all stages relative to the first, if the other stages' steps depend on it."""
        if self.config.train.budget or self.config.train.warm_steps:
            return ""
        return f"; all stages take about {1 + _step_factor(self.task) + self.n_runs} times as long as this one"

    def _section(self, prepared: Prepared, judged: EvaluationResult | None) -> tuple[str, str]:
        """Return the section of the model card that compares the result with the baseline."""
        heading, text, verdict = compare_with_baseline(
            prepared,
            judged,
            without=self.without,
            pretrained=self.pretrained,
            n_runs=self.n_runs,
            score=self.task.main_score(),
        )
        if verdict:
            self.say(f"{verdict}; the model without it is {self.without}")
        return heading, text

    def _tidy(self) -> None:
        """Remove the folders of intermediate stages. The baseline stays."""
        self._forget(*self._intermediate())
        with writing(self.out):
            for name in (_OLD_MODEL, _REQUEST):
                (self.out / name).unlink(missing_ok=True)

    def _intermediate(self) -> list[Path]:
        """Return the folders of the stages between the first and the last."""
        return [self.pretrained, *self.out.glob(f"{ALSO}*")]

    def _forget(self, *paths: Path) -> None:
        with writing(self.out):
            for path in paths:
                if path.exists():
                    remove_folder(path)


def _is_complete(path: Path) -> bool:
    return (path / MANIFEST).exists() and Manifest.read(path).finished is not None


def _try_soup(trainer: Trainer, others: Sequence[Path], allowed: bool | Collection[str]) -> None:
    """Average the kept weights of this run and of the finished runs `others`, and keep the mean if it scores best.

    Runs from the same weights end in the same basin of the loss, so their mean, a model soup (Wortsman et al. 2022), is
    often better than any of them.
    """
    out, state, count = trainer.run.folder.path, trainer.state, len(others) + 1
    is_kept = state.mean == f"{count} runs"  # an earlier process was killed after keeping the mean
    folders = [out] if is_kept else [*others, out]
    weights, _ = mean_weights(load_model_folder(it, allow_custom_code=allowed).weights for it in folders)
    trainer.selection.try_mean(state, weights, count, "runs")


# --- the request: what a run that resumes begins with ----------------------------------------------------------------


def _was_requested(out: Path) -> bool:
    """Return whether a folder contains a warm start in progress."""
    return (out / _REQUEST).exists()


def write_request(out: Path, config: Config) -> None:
    """Record the settings that a warm start begins with."""
    with writing(out):
        write_file(out / _REQUEST, json.dumps(config.to_record(), indent=1).encode() + b"\n")


def _read_request(out: Path, config: Config, allowed: bool | Collection[str]) -> Config:
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


def _mark_old_model(out: Path) -> None:
    """Mark the model in a folder as the one to replace. It stays until the last stage begins."""
    manifest = out / MANIFEST
    if manifest.exists():
        with writing(out):
            write_file(out / _OLD_MODEL, digest(read_bytes(manifest)).encode())


def _holds_old_model(out: Path) -> bool:
    """Return whether the model in a folder is still the one to replace."""
    mark, manifest = out / _OLD_MODEL, out / MANIFEST
    return mark.exists() and manifest.exists() and read_bytes(mark) == digest(read_bytes(manifest)).encode()


def _was_warm_start(out: Path, allowed: bool | Collection[str]) -> bool:
    if _was_requested(out):
        return True
    if (out / CONFIG).exists() and not _holds_old_model(out):
        with suppress(ModelError):  # opening the run reports it
            return bool(read_config(out, allow_custom_code=allowed).train.warm_start)
    return False


# --- settings of the stages -----------------------------------------------------------------------------------------


def _check(config: Config, denoising: type[Task]) -> None:
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


def _number_of_runs(config: Config, task: type[Task]) -> int:
    """Return the number of times to train the task from the pretrained weights."""
    return config.train.soup or (_RUNS_FOR_LABELS if task.has_labels and not config.train.budget else 1)


def _step_factor(task: type[Task]) -> int:
    """Return the default number of pretraining steps, in steps of the task."""
    return _STEPS_FOR_LABELS if task.has_labels else 1


def _baseline(config: Config) -> Config:
    """Return the settings of the first stage: the task from random weights."""
    without = {"train.warm_start": "", "data.texts": (), **dict.fromkeys(OF_WARM_START)}
    return _intermediate_settings(config).assign(without, "default")


def _pretraining(config: Config, first: Recipe, task: type[Task]) -> Config:
    """Return the settings of the second stage, given the final settings of the first one."""
    values: dict[str, Any] = {"train.warm_start": "", "train.soup": None, "train.watch": "", "train.best": "loss"}
    values |= {"data.test": (), "data.texts": (), "data.subword_dropout": 0.0, "train.epochs": None}
    usual = {"model.dropout": min(first.model.dropout, _DROPOUT), "train.label_smoothing": 0.0}
    values |= {name: value for name, value in usual.items() if not config.is_users(name)}
    if not config.train.budget:
        values["train.steps"] = config.train.warm_steps or _step_factor(task) * first.train.steps
    config = _with_choices_of(first, config).assign(values, "user")
    open_again = {name: config.value(name) for name in ("train.warmup", "model.head")}
    return config.assign(open_again, "preset")  # pretraining needs another warmup and another head


def _fine_tuning(config: Config, first: Config, n_runs: int) -> Config:
    """Return the settings of the last stage."""
    return _with_choices_of(first, config).choose({"train.soup": n_runs}, "data")


def _intermediate_settings(config: Config) -> Config:
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
