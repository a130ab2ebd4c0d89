"""Where a run stands."""

from dataclasses import dataclass
from typing import Any


@dataclass
class State:
    """Where a run stands: with the weights and Adam's moments, all that its next step depends on."""

    step: int = 0
    epoch: int = 0
    batch: int = 0  # of the epoch, the next one
    evaluated: int = 0  # the last step that was evaluated
    best: float | None = None
    best_step: int = 0
    improved_step: int = 0  # where the score was last better, and not only as good
    averaged: int = 0  # so many weights have a mean that is better than those of any step
    averaged_of: str = ""  # what they are of: checkpoints or runs
    last_step: int = 0  # where it is another than was planned; the schedule is then stretched after step `since`,
    since: int = 0  # at which it stood where it would have stood at step `stood`
    stood: float = 0.0
    seconds: float = 0.0
    loss_sum: float = 0.0  # since the last line of the metrics
    n_tokens: int = 0

    @property
    def best_weights(self) -> str:
        """Which weights were kept, in words."""
        return f"mean of {self.averaged} {self.averaged_of}" if self.averaged else f"step {self.best_step:,}"

    @property
    def of_best_weights(self) -> dict[str, Any]:
        """What is known of them; it changes only with them."""
        names = ("best", "best_step", "improved_step", "averaged", "averaged_of")
        return {name: getattr(self, name) for name in names}
