"""Averages of weights: over several checkpoints or models (section 6.1), or over all steps."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from .distributed.processes import divided_like


class MovingAverage:
    """Exponential moving average of the weights that learn: m <- d m + (1 - d) w after each update.

    d is `decay`, but at most (1 + n) / (10 + n) after n updates, so the random initial weights are soon forgotten.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        learned = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self._parameters, self.decay = learned, decay
        self.weights = {name: p.detach().clone() for name, p in self._parameters.items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Include the weights after update `step`, counted from 1, in the average."""
        share = 1 - min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(list(self.weights.values()), list(self._parameters.values()), share)

    @torch.no_grad()
    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Replace the averages with those from a checkpoint."""
        for name, weight in self.weights.items():
            weight.copy_(divided_like(weight, weights[name]))

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Use the averages as the model's weights inside the `with` block, then restore its own weights bit for bit."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        for name, p in self._parameters.items():
            p.data, self.weights[name] = self.weights[name], p.data


def mean_weights(each: Iterable[Mapping[str, Tensor]]) -> tuple[dict[str, Tensor], int]:
    """Return the mean of several models' weights, keyed by weight name, and the number of models.

    Weights are summed in float64, in the given order. Only the sum and one model are in memory at a time.
    """
    total: dict[str, Tensor] = {}
    dtypes: dict[str, torch.dtype] = {}
    count = 0
    for count, weights in enumerate(each, 1):
        if count == 1:
            dtypes = {name: weight.dtype for name, weight in weights.items()}
            total = {name: weight.to(torch.float64, copy=True) for name, weight in weights.items()}
        else:
            for name, weight in total.items():
                weight += weights[name]
    return {name: (total[name] / count).to(dtype) for name, dtype in dtypes.items()}, count
