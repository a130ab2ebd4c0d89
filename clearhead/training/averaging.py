"""Means of weights, often better than any of them: over the last checkpoints (section 6.1), or over all steps."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class MovingAverage:
    """An exponential moving average of a model's weights: m <- d m + (1 - d) w after each update.

    d is `decay`, and less in the first steps, (1 + n) / (10 + n) after n updates, so that the random weights of the
    beginning are soon forgotten.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._parameters, self.decay = dict(model.named_parameters()), decay
        self.weights = {name: p.detach().clone() for name, p in self._parameters.items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take in the weights after update `step`, counted from 1."""
        share = 1 - min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(list(self.weights.values()), list(self._parameters.values()), share)

    @torch.no_grad()
    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Go on from the averages of a checkpoint."""
        for name, weight in self.weights.items():
            weight.copy_(weights[name])

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Give the model the averages, and afterwards its own weights back, bit for bit."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        for name, p in self._parameters.items():
            p.data, self.weights[name] = self.weights[name], p.data


def mean_weights(each: Iterable[Mapping[str, Tensor]]) -> tuple[dict[str, Tensor], int]:
    """The mean of several models' weights, name by name, and how many models these were.

    Summed in float64, in their order, so that only the sum and one of them need be in memory.
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
