"""Differences between results that should be equal, and how much of them rounding can explain.

Floating-point arithmetic gives the exact result for inputs that differ in their last digits. So moving every weight up
or down by one eps at random shows how much rounding can change the outputs of this model, however deep it is.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ...model.fronts.front import Front

FACTOR = 32  # multiplies the largest effect of the draws, since sums in another order round differently
DRAWS = 3
_SMALL = 2**25  # weights
MOST = 1e-3  # of the largest output; a larger difference counts as a defect even if rounding explains it

Run = Callable[[nn.Module], Sequence[Tensor]]


@dataclass(frozen=True)
class Bound:
    """The largest difference that rounding can explain, and the reason. It's computed before measuring."""

    value: float
    reason: str


EXACT = Bound(0.0, "the same operations on the same numbers, so every bit must be equal")


@dataclass(frozen=True)
class Difference:
    """The largest difference between two results that should be equal, and `where` it occurs.

    If a part is at fault, `where` is its name, `part` its class, and `problem` a description.
    """

    value: float
    where: str = ""
    part: str = ""
    problem: str = ""


def nudged(tensor: Tensor, generator: torch.Generator) -> Tensor:
    """Move every value up or down by a relative eps. (...) -> (...)"""
    if not tensor.is_floating_point():
        return tensor
    up = torch.randint(0, 2, tensor.shape, generator=generator, dtype=torch.int8).to(tensor.device)
    return tensor * (1 + (2 * up.to(tensor.dtype) - 1) * torch.finfo(tensor.dtype).eps)


def nudged_model(model: nn.Module, seed: int = 0) -> nn.Module:
    """Return a copy of the model with nudged weights, and nudged tables in its front end."""
    copy, generator = deepcopy(model), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in copy.parameters():
            parameter.copy_(nudged(parameter, generator))
        for table in (it for part in copy.modules() if isinstance(part, Front) for it in part.buffers()):
            table.copy_(nudged(table, generator))
    return copy


def nudged_models(model: nn.Module) -> list[nn.Module]:
    """Return several copies of the model, nudged differently. For a large model, return only one, to save memory."""
    size = sum(parameter.numel() for parameter in model.parameters())
    return [nudged_model(model, seed) for seed in range(DRAWS if size <= _SMALL else 1)]


def bound_of(before: Sequence[Tensor], afters: Sequence[Sequence[Tensor]], what: str) -> Bound:
    """Return a bound on how much rounding can change some outputs.

    Args:
        before: the outputs.
        afters: the same outputs in several runs, each after moving weights or inputs by one eps.
        what: what was moved, for the reason.
    """
    eps = max((torch.finfo(tensor.dtype).eps for tensor in before), default=0.0)
    scale = max((largest(tensor) for tensor in before), default=0.0)
    moved = max(furthest(after, before).value for after in afters)
    rounding = FACTOR * (moved + eps * scale)
    most = max(MOST, FACTOR * eps)
    if not rounding <= most * scale:
        return Bound(most * scale, f"{most:.0e} of the largest output, {scale:.2g}; rounding alone can exceed this")
    return Bound(rounding, f"{FACTOR} x ({moved:.1e} from one eps on {what} + {eps * scale:.1e} on the outputs)")


def furthest(actual: Sequence[Tensor], expected: Sequence[Tensor], names: Sequence[str] = ()) -> Difference:
    """Return the largest difference over pairs of tensors, and where it is.

    Args:
        actual: the first tensor of each pair.
        expected: the second one.
        names: a name for each pair (default: none).
    """
    if len(actual) != len(expected):
        return Difference(float("inf"), f"{len(actual)} tensors instead of {len(expected)}")
    found = [apart(*each) for each in zip(actual, expected)]
    worst = max(range(len(found)), key=found.__getitem__, default=-1)
    return Difference(0.0) if worst < 0 else Difference(found[worst], names[worst] if names else "")


def apart(actual: Tensor, expected: Tensor) -> float:
    """Return the largest absolute difference, or infinity if shapes or non-finite values differ."""
    if actual.shape != expected.shape:
        return float("inf")
    if not actual.numel():
        return 0.0
    actual, expected = actual.detach().cpu(), expected.detach().cpu()  # not every device has float64
    gaps = (actual.double() - expected.double()).abs()
    gaps = gaps.masked_fill(actual == expected, 0.0)  # equal infinities don't differ
    return float(gaps.nan_to_num(nan=float("inf"), posinf=float("inf")).max())


def largest(tensor: Tensor) -> float:
    """Return the largest finite absolute value, or 0 if there is none."""
    values = tensor.detach()[tensor.isfinite()].abs()
    return float(values.max()) if values.numel() else 0.0
