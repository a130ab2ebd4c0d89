"""The outputs (`Run`) and the position (`State`) of a training run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from ..errors import ModelError
from ..folder.checkpoint import RunFolder
from .distributed.processes import ALONE, Processes
from .report.metrics import MetricsLog
from .report.progress import Progress
from .signals import StopSignals

Observer = Callable[[dict[str, Any]], object]


@dataclass(frozen=True)
class Run:
    """The outputs and signals that all components of the training loop share.

    `on_step` and `on_eval` are called with a record of each update and of each evaluation.
    """

    folder: RunFolder
    log: MetricsLog
    progress: Progress
    stop: StopSignals
    on_step: tuple[Observer, ...] = ()
    on_eval: tuple[Observer, ...] = ()
    processes: Processes = ALONE


@dataclass
class State:
    """Position of a run. The next step depends only on this, the weights and the optimizer's state."""

    step: int = 0
    epoch: int = 0
    batch: int = 0  # index of the next batch in the epoch
    evaluated: int = 0  # the last step that was evaluated
    best: float | None = None  # score of the weights that are kept; higher is better
    best_step: int = 0
    improved_step: int = 0  # the last step with a strictly better score
    mean: str = ""  # such as "3 checkpoints" if the kept weights are an average; "" if they are those of `best_step`
    seconds: float = 0.0
    loss_sum: float = 0.0  # since the last line of the metrics
    n_tokens: int = 0  # since the last line of the metrics

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the state stored in a checkpoint, ignoring any other values. Raise ModelError for a wrong type."""
        known: dict[str, Any] = {it.name: it.type for it in fields(cls)}
        found = {name: value for name, value in values.items() if name in known}
        for name, value in found.items():
            if not isinstance(value, known[name]) and not (type(value) is int and known[name] is float):
                what = f"the checkpoint has {name}={value!r}"
                expected = f"a value of type {getattr(known[name], '__name__', known[name])}"
                fix = "delete the checkpoint to resume from an earlier one"
                raise ModelError(what, expected=expected, fix=fix, name=name, value=value)
        return cls(**found)

    @property
    def kept_weights(self) -> str:
        """A description of the kept weights: "step 400", or "mean of 3 checkpoints"."""
        return f"mean of {self.mean}" if self.mean else f"step {self.best_step:,}"

    @property
    def about_kept_weights(self) -> dict[str, Any]:
        """The entries that describe the kept weights. They change only when these weights change."""
        names = ("best", "best_step", "improved_step", "mean")
        return {name: getattr(self, name) for name in names}
