"""Promise that autograd's gradients are finite differences of the loss, for each kind of parameter."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from .check import Measured, Promise, Skip
from .rounding import Bound, Difference
from .subject import Case

_STEPS = (1e-4, 1e-5)  # along a direction of length 1
_RELATIVE = 1e-6  # of the slope, for curvature that two steps don't reveal
_FACTOR = 8

Named = Mapping[str, Tensor]


def _gradient(case: Case) -> Measured:
    """Compare the slopes along a random direction and the steepest coordinate of each kind of parameter.

    The same parameter in different blocks counts as one kind.
    """
    loss = case.subject.loss
    if loss is None:
        raise Skip("no loss is given")
    named = {name: it for name, it in case.model.named_parameters() if it.requires_grad and it.numel()}
    gradients = _gradients(case.model, loss, named)
    at, generator = float(loss(case.model)), torch.Generator().manual_seed(0)
    rounding = max(abs(float(loss(it)) - at) for it in case.nudged) + torch.finfo(torch.float64).eps * abs(at)
    slope_along = _Slope(named, lambda: float(loss(case.model)), at, rounding)
    for kind, names in _kinds(named).items():
        random = _random({name: named[name] for name in names}, generator)
        for name, direction in ((kind, random), _steepest(names, gradients)):
            slope, bound = slope_along(direction)
            predicted = sum(float((gradients[name] * it).sum()) for name, it in direction.items())
            where = f"{name}: the slope is {slope:.3g}, the gradient {predicted:.3g}"
            yield bound, Difference(abs(slope - predicted), where)


GRADIENTS = Promise(
    "gradients = finite differences", "autograd returns the slope of the loss, for every kind of parameter", _gradient
)


def _gradients(model: nn.Module, loss: Callable[[nn.Module], Tensor], named: Named) -> Named:
    """Return autograd's gradients, or zeros where there are none, without storing them in the parameters."""
    with torch.enable_grad():
        found = torch.autograd.grad(loss(model), list(named.values()), allow_unused=True)
    return {name: torch.zeros_like(it) if grad is None else grad for (name, it), grad in zip(named.items(), found)}


def _kinds(named: Named) -> dict[str, list[str]]:
    """Group parameter names that differ only in the block number."""
    kinds: dict[str, list[str]] = {}
    for name in named:
        kinds.setdefault(re.sub(r"\.\d+\.", ".*.", name), []).append(name)
    return kinds


def _random(own: Named, generator: torch.Generator) -> Named:
    """Return a random direction of length 1 that moves all these parameters."""
    drawn = {name: torch.randn(it.shape, generator=generator, dtype=torch.float64) for name, it in own.items()}
    length = sum(float(it.square().sum()) for it in drawn.values()) ** 0.5
    return {name: it / length for name, it in drawn.items()}


def _steepest(names: list[str], gradients: Named) -> tuple[str, Named]:
    """Return the coordinate with the largest gradient, as a name and as a direction."""
    name = max(names, key=lambda name: float(gradients[name].abs().max()))
    gradient = gradients[name]
    place = int(gradient.abs().argmax())
    direction = torch.zeros_like(gradient)
    direction.view(-1)[place] = 1.0
    at = [int(i) for i in np.unravel_index(place, gradient.shape)]
    return f"{name}{at}", {name: direction}


@dataclass(frozen=True)
class _Slope:
    """Measure slopes of a loss with value `at`, which rounding can change by up to `rounding`."""

    named: Named
    loss: Callable[[], float]
    at: float
    rounding: float

    def __call__(self, direction: Named) -> tuple[float, Bound]:
        """Return the slope along a direction, and its error, from steps of two sizes, forwards and backwards.

        If the loss is smooth, the difference between the slopes on both sides is proportional to the step size and the
        curvature. Any other difference is due to a kink, as in ReLU, and adds to the error.
        """
        pairs = [(self._moved(direction, step), self._moved(direction, -step)) for step in _STEPS]
        central = [(there - back) / (2 * step) for (there, back), step in zip(pairs, _STEPS)]
        bends = [(there - 2 * self.at + back) / step for (there, back), step in zip(pairs, _STEPS)]
        kink = abs(bends[1] - bends[0] * _STEPS[1] / _STEPS[0])
        error = _FACTOR * (abs(central[1] - central[0]) + kink + self.rounding / _STEPS[1])
        error += _RELATIVE * abs(central[1])
        steps = " and ".join(f"{step:.0e}" for step in _STEPS)
        reason = f"{_FACTOR} x the disagreement of steps of {steps}, of their two sides, and rounding"
        return central[1], Bound(error, reason)

    def _moved(self, direction: Named, step: float) -> float:
        before = {name: self.named[name].clone() for name in direction}
        for name, it in direction.items():
            self.named[name].add_(it, alpha=step)
        found = self.loss()
        for name, it in before.items():
            self.named[name].copy_(it)
        return found
