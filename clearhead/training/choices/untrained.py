"""A new model for trials before the first step: a few steps of it tell how long steps take, and how much memory."""

from dataclasses import replace
from typing import Any

import torch

from ...config import Config
from ...model.transformer import build
from ...tasks.base import Dataset, Task
from ...tokenization.ragged import IntArray
from ..distributed.processes import ALONE, Processes
from ..update import Update
from .hyperparameters import DEFAULT_OPTIMIZER


class Untrained:
    """A model with the settings of a run, and its loss. Nobody keeps the model."""

    def __init__(self, config: Config, task: Task, examples: Dataset) -> None:
        self._config, self._task, self._examples = config.train, task, examples
        torch.manual_seed(config.train.seed)
        self.model = build(config.model).to(config.train.device)

    def loss(self, model: torch.nn.Module, rows: IntArray) -> torch.Tensor:
        """Return the loss of a model for these examples. -> ()"""
        return self._task.loss(model, self._examples, rows, smoothing=self._config.label_smoothing)

    def update(self, processes: Processes = ALONE, **changes: Any) -> Update:
        """Return the update of this model, with some settings of training changed."""
        settings = {"optimizer": self._config.optimizer or DEFAULT_OPTIMIZER, **changes}
        return Update(self.model, self.loss, replace(self._config, **settings), processes)
