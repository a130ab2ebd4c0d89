"""`train --watch "a text"`: what a model makes of that text, and how, is kept at each evaluation."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from torch import nn

from ...config import DecodeConfig
from ...folder.checkpoint import FILM
from ...inspection.film.frame import Frame
from ...tasks.base import Task
from .metrics import MetricsLog

_COUNTS = ("step", "epoch", "averaged", "seconds")  # what is no score of an evaluation


class Watch:
    """A text that is looked at while a model learns; its frames go to `film.jsonl` of the run's folder."""

    def __init__(
        self, folder: Path, task: Task, model: nn.Module, text: str, decode: DecodeConfig, *, after: int
    ) -> None:
        """Go on behind step `after`; at 0 the model is looked at before it has learnt anything."""
        self.task, self.model, self.text = task, model, text
        self.search = replace(decode, sample=False, n_best=1, beam=1)
        first = None if after else self._frame(0, {})  # before a file is opened: it may be no text that can be read
        self.log = MetricsLog(folder / FILM, after=after)
        if first is not None:
            self.log.write(first.to_dict())

    def on_eval(self, record: Mapping[str, Any]) -> None:
        """Look at the text with the weights that were scored."""
        if "averaged" in record:  # a mean of weights is no moment of training
            return
        scores = {name: it for name, it in record.items() if name not in _COUNTS and math.isfinite(it)}
        self.log.write(self._frame(int(record["step"]), scores).to_dict())

    def _frame(self, step: int, scores: Mapping[str, float]) -> Frame:
        return Frame.of(self.task.explain(self.model, self.text, self.search), step, scores)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.log.close()
