"""Warnings during training: nothing is learned, sources aren't used, or the model overfits. Each is given once.

They only read: a run with them has the same bits as one without.
"""

import math
import shlex
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from torch import nn

from ...config import NEWEST, TrainRecipe
from ...tasks.base import Dataset, Task
from ...tasks.examples import Examples, HeldOut
from ...tasks.sequences import Sequences
from .floors import Floors

_COMPARED = 64  # held-out examples whose sources are exchanged
_NO_GAIN, _RISE = 0.01, 0.2  # shares of the loss


class EarlyWarnings:
    """Watch the evaluations of a run. `on_eval` is an observer for `train`."""

    def __init__(
        self,
        model: nn.Module,
        task: Task,
        examples: Dataset,
        valid: HeldOut,
        config: TrainRecipe,
        say: Callable[[str], None],
        folder: str,
    ) -> None:
        """Watch a run in `folder`. `say` receives the warnings."""
        self.model, self.task, self.examples, self.valid = model, task, examples, valid
        self.config, self.say, self._advice = config, say, f"see why with: clearhead diagnose {shlex.quote(folder)}"
        self.best, self.best_step = math.inf, 0
        self._open = {"learns", "reads", "generalises"}

    def on_eval(self, record: Mapping[str, Any]) -> None:
        """Look at the scores of an evaluation, and warn if one of these causes is obvious."""
        loss, step, config = record.get("loss"), int(record["step"]), self.config
        if loss is None or "averaged" in record:
            return
        if loss < self.best:
            self.best, self.best_step = loss, step
        if "generalises" in self._open and loss > (1 + _RISE) * self.best and step > config.warmup:
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
