"""Optimizers: Adam (section 5.3), AdamW and Muon, and their state by weight name."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..config import TrainConfig
from ..errors import ModelError
from ..model.linear import Linear
from .distributed.processes import divided_like, gathered

# Coefficients of a x + b x^3 + c x^5, applied one after the other. Of all sets of four such polynomials, this one
# brings every x from 0.003 to 1 closest to 1: to between 0.68 and 1.32 (found as in Amsel et al. 2025). Smaller values
# grow 292-fold. Each polynomial tolerates inputs 5% beyond the range of the one before it, since bfloat16 products are
# that inexact, and a polynomial of this degree diverges quickly outside its range.
_POLYNOMIALS = (
    (7.9959, -21.4346, 14.4127),
    (3.8893, -2.6315, 0.4509),
    (3.5016, -2.3955, 0.4304),
    (2.6788, -1.8602, 0.3874),
)


def orthogonalize(matrices: Tensor) -> Tensor:
    """Return an approximation of U V^T for each matrix U S V^T, with singular values near 1. (N, R, C) -> (N, R, C)

    A Newton-Schulz iteration: odd polynomials of the matrix, which need only products, push its singular values towards
    1. Usually the same polynomial is applied five times; four different ones are just as accurate.
    """
    x = matrices / (matrices.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    tall = x.size(-2) > x.size(-1)
    x = x.mT if tall else x
    for a, b, c in _POLYNOMIALS:
        square = x @ x.mT
        factor = torch.baddbmm(square, square, square, beta=b, alpha=c)  # b x x^T + c (x x^T)^2
        x = torch.baddbmm(x, factor, x, beta=a)
    return x.mT if tall else x


class Muon(torch.optim.Adam):
    """Muon for the weights of the given linear layers, Adam for everything else.

    One learning rate suits both, because Muon's update is scaled to the usual size of Adam's, 0.2 per entry (Liu et al.
    2025). Matrices fused into one product are updated separately. Only Muon's matrices decay, by `decay` times the
    learning rate.
    """

    def __init__(
        self,
        groups: list[dict[str, Any]],
        linears: Iterable[Linear],
        precision: torch.dtype,
        *,
        decay: float = 0.0,
        **adam: Any,
    ) -> None:
        """`groups` contains all weights. `precision` is the dtype of the products in `orthogonalize`."""
        super().__init__(groups, **adam)
        self.linears, self.precision, self.decay, self.momentum = list(linears), precision, decay, 0.95

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every weight that has a gradient."""
        lr: float = self.param_groups[0]["lr"]
        by_shape: dict[torch.Size, list[tuple[Tensor, Tensor]]] = {}
        for linear in self.linears:
            if linear.weight.grad is None:  # frozen
                continue
            blocks = zip(linear.matrices(linear.weight), linear.matrices(self._direction(linear.weight)))
            for block, direction in blocks:
                by_shape.setdefault(block.shape, []).append((block, direction))
            linear.weight.grad = None  # so that Adam skips it
        for shape, pairs in by_shape.items():  # all matrices of one shape together
            updates = orthogonalize(torch.stack([direction.to(self.precision) for _, direction in pairs]))
            size = lr * 0.2 * max(shape) ** 0.5
            for (block, _), update in zip(pairs, updates):
                if self.decay:  # usually 0, which saves a pass over the weights
                    block.mul_(1 - lr * self.decay)
                block.sub_(update, alpha=size)
        return super().step(closure)

    def _direction(self, weight: Tensor) -> Tensor:
        """Return the running mean of the gradient, one step ahead (Nesterov), in place of the gradient."""
        assert weight.grad is not None
        state = self.state[weight]
        if not state:
            state["momentum"] = torch.zeros_like(weight)
        state["momentum"].lerp_(weight.grad, 1 - self.momentum)
        return weight.grad.lerp_(state["momentum"], self.momentum)


_ADAM, _MUON = ("exp_avg", "exp_avg_sq", "step"), ("momentum",)  # state per weight


def make_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """Return the optimizer named by `train.optimizer`, for all weights of a model.

    With adamw, weight decay applies to all matrices; with muon, only to those of the blocks. Vectors (biases, gains)
    never decay. The caller sets the learning rate at each step.
    """
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    decay = config.weight_decay if config.optimizer == "adamw" else 0.0
    groups = [{"params": matrices, "weight_decay": decay}, {"params": vectors, "weight_decay": 0.0}]
    groups = [group for group in groups if group["params"]]
    *betas, eps = config.adam
    adam: dict[str, Any] = {"lr": 0.0, "betas": tuple(betas), "eps": eps, "fused": True}
    if config.optimizer == "muon":
        precision = torch.bfloat16 if config.precision == "bf16" else torch.float32
        return Muon(groups, _inner_linears(model), precision, decay=config.weight_decay, **adam)
    return (torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam)(groups, **adam)


def _inner_linears(model: nn.Module) -> list[Linear]:
    """Return the linear layers of the blocks, without the projection to the vocabulary, whose rows are tokens."""
    return [part for block in model.modules() if isinstance(block, nn.ModuleList) for part in block.modules()
            if isinstance(part, Linear)]  # fmt: skip


def optimizer_tensors(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """Return moments and step counts, such as {"decoder.norm.weight.exp_avg": ...}. Empty before the first step.

    If processes have divided the state, all of them have to call this.
    """
    state = optimizer.state
    return {
        f"{name}.{moment}": gathered(state[p][moment])
        for name, p in model.named_parameters()
        for moment in state.get(p, ())
    }


def load_optimizer(optimizer: torch.optim.Optimizer, model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Restore the state returned by `optimizer_tensors`, bit for bit. Raise ModelError if a tensor is missing.

    Args:
        optimizer: a new optimizer of the model's weights.
        model: the model, for the names of its weights.
        tensors: the state by name.
    """
    for name, p in model.named_parameters():
        if not p.requires_grad:  # frozen weights have no state
            continue
        keys = _MUON if f"{name}.{_MUON[0]}" in tensors else _ADAM
        missing = [key for key in keys if f"{name}.{key}" not in tensors]
        if missing:
            what = f"the checkpoint has no {name}.{missing[0]}"
            raise ModelError(what, expected="a checkpoint of the same optimizer and model", name=f"{name}.{missing[0]}")
        found = {key: tensors[f"{name}.{key}"].to(p.device, copy=True) for key in keys}
        optimizer.state[p] = {key: divided_like(p, it) if it.shape == p.shape else it for key, it in found.items()}
