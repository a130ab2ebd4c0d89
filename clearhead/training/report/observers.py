"""Observers of a run: event files for TensorBoard, the film of a watched text, and warnings.

They only read: a run with them has the same bits as one without.
"""

import math
import shlex
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from torch import nn

from ...config import NEWEST, Config, Recipe
from ...config.values import invalid
from ...folder.atomic import writing
from ...folder.checkpoint import FILM
from ...inspection.film.film import Frame
from ...tasks.base import Dataset, Task
from ...tasks.examples import Examples, HeldOut
from ...tasks.sequences import Sequences
from .floors import Floors, memorises
from .metrics import MetricsLog

FOLDER = "tensorboard"
_COMPARED = 64  # held-out examples whose sources are exchanged, for a warning
_NO_GAIN, _RISE = 0.01, 0.2  # shares of the loss, for a warning
_NOT_SCORES = ("step", "epoch", "averaged", "seconds")  # the other entries of an evaluation's record


def summary_writer() -> Any:
    """Return torch's SummaryWriter. Raise ConfigError if the package tensorboard isn't installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        what, fix = "needs the package tensorboard, which isn't installed", "install it with: pip install tensorboard"
        raise invalid("train.tensorboard", True, what, fix=fix) from error
    return SummaryWriter


class TensorBoard:
    """Write event files to the run's `tensorboard` folder. `on_step` and `on_eval` are observers for `train`."""

    def __init__(self, run: Path, *, after: int) -> None:
        """Continue after step `after`. If it's 0, start a new run and delete old event files."""
        writer = summary_writer()
        with writing(run):
            if not after:
                shutil.rmtree(run / FOLDER, ignore_errors=True)
            self._writer = writer(str(run / FOLDER), purge_step=after + 1)
        self._seconds: float | None = None

    def on_step(self, record: dict[str, Any]) -> None:
        """Write the values of an update."""
        for name in ("loss", "lr", "grad_norm"):
            self._add(f"train/{name}", record[name], record["step"])
        if self._seconds is not None:
            self._add("train/tokens_per_second", record["tokens"] / (record["seconds"] - self._seconds), record["step"])
        self._seconds = record["seconds"]

    def on_eval(self, record: dict[str, Any]) -> None:
        """Write the scores of an evaluation."""
        self._seconds = None  # its duration doesn't count as part of the next step
        kind = "mean" if "averaged" in record else "valid"
        for name in record:
            if name not in _NOT_SCORES:
                self._add(f"{kind}/{name}", record[name], record["step"])

    def _add(self, name: str, value: float, step: int) -> None:
        self._writer.add_scalar(name, value, step)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()


class Watch:
    """Write a frame for the text in `train.watch` to `film.jsonl` before the first step and at each evaluation."""

    def __init__(self, folder: Path, task: Task, model: nn.Module, config: Config, *, after: int) -> None:
        """Continue the film of a run after step `after` (0 for a new run)."""
        self.task, self.model, self.text = task, model, config.train.watch
        self.search = replace(config.decode, sample=False, n_best=1, beam=1)
        first = None if after else self._frame(0, {})  # raises if the text can't be read, before a file is opened
        self.log = MetricsLog(folder / FILM, after=after)
        if first is not None:
            self.log.write(first.to_dict())

    def on_eval(self, record: Mapping[str, Any]) -> None:
        """Write a frame for the evaluated weights. Skip averaged weights, which don't belong to a step."""
        if "averaged" in record:
            return
        scores = {name: it for name, it in record.items() if name not in _NOT_SCORES and math.isfinite(it)}
        self.log.write(self._frame(int(record["step"]), scores).to_dict())

    def _frame(self, step: int, scores: Mapping[str, float]) -> Frame:
        return Frame.of(self.task.explain(self.model, self.text, self.search), step, scores)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.log.close()


class EarlyWarnings:
    """Warn once if nothing is learned, if sources aren't used, or if the model overfits.

    `on_step` and `on_eval` are observers for `train`.
    """

    def __init__(
        self,
        model: nn.Module,
        task: Task,
        examples: Dataset,
        valid: HeldOut,
        config: Recipe,
        say: Callable[[str], None],
        folder: str,
    ) -> None:
        """Watch a run in `folder`. `say` receives the warnings."""
        self.model, self.task, self.examples, self.valid = model, task, examples, valid
        self.config, self.say, self._advice = config, say, f"see why with: clearhead diagnose {shlex.quote(folder)}"
        self.best, self.best_step = math.inf, 0
        self._open = {"learns", "reads", "generalises"}
        self._trained = list[float]()  # training losses since the last evaluation

    def on_step(self, record: Mapping[str, Any]) -> None:
        """Keep the training loss of an update."""
        self._trained.append(record["loss"])

    def on_eval(self, record: Mapping[str, Any]) -> None:
        """Look at the scores of an evaluation, and warn if one of these causes is obvious."""
        loss, step, config = record.get("loss"), int(record["step"]), self.config.train
        if loss is None or "averaged" in record:
            return
        if loss < self.best:
            self.best, self.best_step = loss, step
        trained = float(np.mean(self._trained or [math.nan]))
        self._trained.clear()
        has_risen = loss > (1 + _RISE) * self.best and step > config.warmup
        if "generalises" in self._open and has_risen and memorises(trained, self.best, self.config):
            self._open.discard("generalises")
            newest = "`train.best=loss` would keep the best weights, and not the newest"
            advice = newest if config.best == NEWEST else "`train.patience=3` would end such a run"
            rise = f"{self.best:.3g} at step {self.best_step:,}, {loss:.3g} now"
            self.say(f"the model overfits: the validation loss was {rise}; {advice}")
        if "learns" in self._open and step >= max(config.steps / 10, 1.5 * config.warmup):
            self._open.discard("learns")
            floors = Floors.of(self.task, self.examples, self.valid.examples)
            if floors is not None and loss >= floors.unigram * (1 - _NO_GAIN):
                what = "labels" if floors.bigram is None else "tokens"
                better = f"the frequencies of {what} alone would give {floors.unigram:.3g}"
                self.say(f"nothing is learned yet: the validation loss is {loss:.3g}, and {better}; {self._advice}")
        if "reads" in self._open and step >= config.steps / 2:
            self._open.discard("reads")
            if (gain := self._gain_of_sources()) is not None and gain < _NO_GAIN:
                what = "with those of other examples, its loss is the same"
                self.say(f"the model doesn't use its sources: {what}; {self._advice}")

    def _gain_of_sources(self) -> float | None:
        """Return by which share the loss is lower with the right sources. None if the task has no texts to write."""
        examples = self.valid.examples
        if not isinstance(self.task, Sequences) or not isinstance(examples, Examples) or len(examples) < 8:
            return None
        rows = np.arange(len(examples))[:: max(len(examples) // _COMPARED, 1)][:_COMPARED]
        own = Examples(examples.sources.take(rows), examples.targets.take(rows), positions=examples.positions)
        model: Any = self.model
        right, wrong = (
            self.task.forcing.count(model, it).negative_log_likelihood
            for it in (own, own.with_other_sources(max(len(own) // 8, 1)))
        )
        return (wrong - right) / max(right, 1e-9)
