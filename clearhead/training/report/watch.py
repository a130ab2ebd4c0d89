"""`train --watch "a text"`: record how a model reads and answers a text at each evaluation."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from torch import nn

from ...config import Config
from ...folder.checkpoint import FILM
from ...inspection.film.frame import Frame
from ...tasks.base import Task
from .metrics import MetricsLog

_POSITION = ("step", "epoch", "averaged", "seconds")  # entries of an evaluation that aren't scores


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
        scores = {name: it for name, it in record.items() if name not in _POSITION and math.isfinite(it)}
        self.log.write(self._frame(int(record["step"]), scores).to_dict())

    def _frame(self, step: int, scores: Mapping[str, float]) -> Frame:
        return Frame.of(self.task.explain(self.model, self.text, self.search), step, scores)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.log.close()
