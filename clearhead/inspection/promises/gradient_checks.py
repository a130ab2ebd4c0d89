"""Compare autograd's gradients with finite differences of the loss, for each kind of parameter."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from .check import Bound, Check, Difference, Promise, judge_each, skip
from .subject import Case

GRADIENTS = Promise(
    "gradients = finite differences", "autograd returns the slope of the loss, for every kind of parameter"
)

_STEPS = (1e-4, 1e-5)  # along a direction of length 1
_RELATIVE = 1e-6  # of the slope, for curvature that two steps don't reveal
_FACTOR = 8

Named = Mapping[str, Tensor]


@dataclass(frozen=True)
class _Probe:
    """A direction in parameter space, the slope of the loss along it, and the error of this slope."""

    name: str
    direction: Named
    slope: float
    error: float

    @property
    def bound(self) -> Bound:
        steps = " and ".join(f"{step:.0e}" for step in _STEPS)
        return Bound(self.error, f"{_FACTOR} x the disagreement of steps of {steps}, of their two sides, and rounding")

    def difference(self, gradients: Named) -> Difference:
        """Return the difference between the slope and the one that the gradients predict."""
        predicted = sum(float((gradients[name] * it).sum()) for name, it in self.direction.items())
        return Difference(
            abs(self.slope - predicted), f"{self.name}: the slope is {self.slope:.3g}, the gradient {predicted:.3g}"
        )


def check_gradients(case: Case, seed: int = 0) -> Check:
    """Check a random direction and the steepest coordinate of each kind of parameter.

    The same parameter in different blocks counts as one kind.
    """
    loss = case.subject.loss
    if loss is None:
        return skip(GRADIENTS, "no loss is given")
    named = {name: it for name, it in case.model.named_parameters() if it.requires_grad and it.numel()}
    gradients, probes = dict[str, Tensor](), list[_Probe]()

    def bounds() -> list[Bound]:
        gradients.update(_gradients(case.model, loss, named))
        with torch.no_grad():
            at = float(loss(case.model))
            rounding = max(abs(float(loss(it)) - at) for it in case.nudged) + torch.finfo(torch.float64).eps * abs(at)
            measure = _Slope(named, lambda: float(loss(case.model)), at, rounding)
            generator = torch.Generator().manual_seed(seed)
            for kind, names in _kinds(named).items():
                probes.append(measure(kind, _random({name: named[name] for name in names}, generator)))
                probes.append(measure(*_steepest(names, gradients)))
        return [probe.bound for probe in probes]

    return judge_each(GRADIENTS, case.precision, bounds, lambda: [probe.difference(gradients) for probe in probes])


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

    def __call__(self, name: str, direction: Named) -> _Probe:
        """Take steps of two sizes along a direction, forwards and backwards.

        If the loss is smooth, the difference between the slopes on both sides is proportional to the step size and the
        curvature. Any other difference is due to a kink, as in ReLU, and adds to the error.
        """
        pairs = [(self._moved(direction, step), self._moved(direction, -step)) for step in _STEPS]
        central = [(there - back) / (2 * step) for (there, back), step in zip(pairs, _STEPS)]
        bends = [(there - 2 * self.at + back) / step for (there, back), step in zip(pairs, _STEPS)]
        kink = abs(bends[1] - bends[0] * _STEPS[1] / _STEPS[0])
        error = _FACTOR * (abs(central[1] - central[0]) + kink + self.rounding / _STEPS[1])
        error += _RELATIVE * abs(central[1])
        return _Probe(name, direction, central[1], error)

    def _moved(self, direction: Named, step: float) -> float:
        before = {name: self.named[name].clone() for name in direction}
        for name, it in direction.items():
            self.named[name].add_(it, alpha=step)
        found = self.loss()
        for name, it in before.items():
            self.named[name].copy_(it)
        return found
