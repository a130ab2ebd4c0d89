"""Optional outputs of `train` next to its metrics: event files for TensorBoard, and the film of a watched text."""

import math
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from torch import nn

from ...config import Config
from ...config.values import invalid
from ...folder.atomic import writing
from ...folder.checkpoint import FILM
from ...inspection.film.film import Frame
from ...tasks.base import Task
from .metrics import MetricsLog

FOLDER = "tensorboard"
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
