"""Run the stages of a warm start in order, and keep the result of the last one."""

import dataclasses
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from ...config import DROPOUT, Config, Recipe
from ...folder.atomic import remove_folder, writing
from ...folder.checkpoint import RunFolder
from ...folder.contents import CHECKPOINTS, has_begun
from ...folder.manifest import MANIFEST, Manifest
from ...folder.model_folder import CONFIG, load_model_folder, read_config
from ...tasks.base import EvaluationResult
from ...tasks.denoise.task import denoising
from ...tasks.detect import with_task
from ...tasks.registry import task_of
from ..averaging import mean_weights
from ..init_from import InitFrom
from ..open_run import RunOptions, Stage, check_early
from ..prepare import Prepared, refuse_contradictions
from ..report.gain import compare_with_baseline
from ..run import train as train_stage
from ..signals import StopSignals
from ..trainer import Trainer
from .settings import (
    Clock,
    baseline,
    check,
    fine_tuning,
    forget_old_model,
    forget_request,
    holds_old_model,
    intermediate,
    mark_old_model,
    number_of_runs,
    pretraining,
    read_request,
    step_factor,
    was_requested,
    write_request,
)

WITHOUT, PRETRAINED, ALSO = ".without", ".pretrained", ".run-"


def train(config: Config, out: str | Path, options: RunOptions) -> Path:
    """Train a model with a warm start into the folder `out`, and return the folder.

    With a budget, the stages share the time 1 : 2 : 1. `options.on_step` and `options.on_eval` are called in
    the last stage only.

    Raises:
        ConfigError, DataError, TrainingError: a setting, the data or the folder is unusable.
        StoppedError: a signal stopped the run. It can be resumed.
    """
    began = time.monotonic() if options.began is None else options.began
    out, allowed = Path(out), options.allowed(config)
    if not options.resume:
        check_early(config)
    elif was_requested(out):
        config = read_request(out, config, allowed)
    elif (out / CONFIG).exists() and not holds_old_model(out) and config.is_users("train.warm_start"):
        refuse_contradictions(out, read_config(out, allow_custom_code=allowed), config, ["train.warm_start"])
    if config.train.task is None:
        config = with_task(config, options.say)
        task_of(config).settle(config)  # raises if it can't begin with a warm start
    config = config.choose({"train.warm_start": "denoise"}, "user")
    return _WarmStart(config, out, options).train(began)


class _WarmStart:
    """The stages, and the folders that they write to."""

    def __init__(self, config: Config, out: Path, options: RunOptions) -> None:
        """Raise a ConfigError if pretraining on the texts can't help, or if its effect can't be measured."""
        self.config, self.out, self.options, self.say = config, out, options, options.say
        self.without, self.pretrained = out / WITHOUT, out / PRETRAINED
        self.allowed = options.allowed(config)
        self.task = task_of(config)
        self.denoising = denoising(self.task, config.data.texts)
        self.n_runs = number_of_runs(config, self.task)
        self.also = [out / f"{ALSO}{turn}" for turn in range(2, self.n_runs + 1)]
        check(config, self.denoising)

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
                        forget_request(self.out)
                    self.out.rmdir()
        self._tidy()
        return self.out

    def _prepare_folder(self) -> bool:
        """Record the requested settings, and return whether the run is complete."""
        resume, replace = self.options.resume, self.options.replace
        with RunFolder.create(self.out, resume=resume, replace=replace, say=lambda _: None) as folder:
            if replace:
                self._forget(self.without, *self._intermediate())
                mark_old_model(self.out)
            complete = resume and not holds_old_model(self.out) and folder.finished_step is not None
            if not complete and (replace or not (self.without / CONFIG).exists()):
                write_request(self.out, self.config.choose({"train.soup": self.n_runs}, "data"))
        return complete

    def _train(self, began: float) -> None:
        earlier = (self.without, self.pretrained, *self.also)
        done = [i for i, path in enumerate(earlier) if self.options.resume and _is_complete(path)]
        clock = Clock(self.config.train.budget, began, done, self.n_runs)
        count, verb = 2 + self.n_runs, self.task.verb

        self.say(f"stage 1 of {count}: {verb}, from random weights, in {self.without}{self._duration()}")
        self._run(self.without, baseline(self.config), Stage(end=clock.end(0), is_last=False))
        first = dataclasses.replace(InitFrom.load(self.without, allow_custom_code=self.allowed), weights={})

        self.say(f"stage 2 of {count}: pretraining on the texts alone, in {self.pretrained}")
        stage = Stage(self.denoising, first, clock.end(1), is_last=False)
        self._run(self.pretrained, pretraining(self.config, Recipe.of(first.config), self.task), stage)
        pretrained = InitFrom.load(self.pretrained, allow_custom_code=self.allowed)
        dropout = {name: first.config.value(name) for name in DROPOUT}  # that of the task
        start = dataclasses.replace(pretrained, config=pretrained.config.assign(dropout, "model"))

        config = fine_tuning(self.config, first.config, self.n_runs)
        for turn, path in enumerate(self.also, 1):
            self.say(f"stage {2 + turn} of {count}: {verb}, from the pretrained weights, in {path}")
            stage = Stage(start=start, end=clock.end(1 + turn), turn=turn, is_last=False)
            self._run(path, intermediate(config), stage)
        mean = f"; then the mean of all {self.n_runs} runs is tried" if self.also else ""
        self.say(f"stage {count} of {count}: {verb}, from the pretrained weights, in {self.out}{mean}")
        average = partial(try_soup, others=self.also, allowed=self.allowed) if self.also else None
        stage = Stage(start=start, end=clock.end(count - 1), after_training=average, section=self._section)
        self._run(self.out, config, stage)

    def _run(self, path: Path, config: Config, stage: Stage) -> None:
        """Run a stage, or resume it. Only the last one reports to observers and keeps its checkpoints."""
        old = path == self.out and holds_old_model(self.out)
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
        return f"; all stages take about {1 + step_factor(self.task) + self.n_runs} times as long as this one"

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
            forget_old_model(self.out)
            forget_request(self.out)

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


def try_soup(trainer: Trainer, others: Sequence[Path], allowed: bool | Collection[str]) -> None:
    """Average the kept weights of this run and of the finished runs `others`, and keep the mean if it scores best.

    Runs from the same weights end in the same basin of the loss, so their mean, a model soup (Wortsman et al. 2022), is
    often better than any of them.
    """
    out, state, count = trainer.run.folder.path, trainer.state, len(others) + 1
    is_kept = state.mean == f"{count} runs"  # an earlier process was killed after keeping the mean
    folders = [out] if is_kept else [*others, out]
    weights, _ = mean_weights(load_model_folder(it, allow_custom_code=allowed).weights for it in folders)
    trainer.selection.try_mean(state, weights, count, "runs")
