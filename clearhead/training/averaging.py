"""Means of weights, often better than any of them: over the last checkpoints (section 6.1), or over all steps."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce

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


def mean_weights(each: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of several models' weights, name by name; summed in float64."""
    first = each[0]
    return {
        name: (reduce(torch.add, (weights[name].double() for weights in each)) / len(each)).to(first[name].dtype)
        for name in first
    }
