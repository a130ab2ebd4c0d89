"""Muon (Jordan et al. 2024): matrices move by the nearest orthogonal matrix to their momentum, not by its entries.

An update whose singular values are all alike moves every direction of a matrix as far as the strongest one, so that
fewer tokens teach as much. Embeddings, biases and gains are no matrices in this sense, and stay with Adam.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from ..model.linear import Linear

# a x + b x^3 + c x^5, one after the other: of all such four the ones whose end is nearest to 1 for every x from 0.003
# to 1, which they bring to between 0.68 and 1.32 (Amsel et al. 2025 say how they are found); less grows 292-fold.
# Each also holds for what is 5% beyond the range of the one before it: the products of bfloat16 are no better, and a
# polynomial of so high a degree soon leaves every bound outside of its range.
_POLYNOMIALS = (
    (7.9959, -21.4346, 14.4127),
    (3.8893, -2.6315, 0.4509),
    (3.5016, -2.3955, 0.4304),
    (2.6788, -1.8602, 0.3874),
)


def orthogonalize(matrices: Tensor) -> Tensor:
    """U V^T of each matrix U S V^T, roughly: its singular values are about 1. (N, R, C) -> (N, R, C)

    A Newton-Schulz iteration: odd polynomials of the matrix push its singular values towards 1 by products alone. The
    usual one takes five times the same polynomial; four chosen for their places do as well.
    """
    x = matrices / (matrices.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    tall = x.size(-2) > x.size(-1)
    x = x.mT if tall else x
    for a, b, c in _POLYNOMIALS:
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return x.mT if tall else x


class Muon(torch.optim.Adam):
    """Muon over the given linear layers' weights, Adam over everything else; one learning rate suits both.

    That is so because Muon's update is scaled to the usual size of Adam's, 0.2 an entry (Liu et al. 2025). The matrices
    of a fused product move each on its own. They decay as with AdamW, by the rate times `decay` a step; what is Adam's
    does not.
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
        """`groups` holds all weights; `precision` is that of the products in `orthogonalize`."""
        super().__init__(groups, **adam)
        self.linears, self.precision, self.decay, self.momentum = list(linears), precision, decay, 0.95

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update of every weight that has a gradient."""
        lr: float = self.param_groups[0]["lr"]
        by_shape: dict[torch.Size, list[tuple[Tensor, Tensor]]] = {}
        for linear in self.linears:
            if linear.weight.grad is None:  # frozen
                continue
            blocks = zip(linear.matrices(linear.weight), linear.matrices(self._direction(linear.weight)))
            for block, direction in blocks:
                by_shape.setdefault(block.shape, []).append((block, direction))
            linear.weight.grad = None  # so that Adam passes over it
        for shape, pairs in by_shape.items():  # all matrices of a shape in one product
            updates = orthogonalize(torch.stack([direction for _, direction in pairs]).to(self.precision))
            size = lr * 0.2 * max(shape) ** 0.5
            for (block, _), update in zip(pairs, updates):
                if self.decay:  # most runs have none, and need no second pass over their weights
                    block.mul_(1 - lr * self.decay)
                block.sub_(update, alpha=size)
        return super().step(closure)

    def _direction(self, weight: Tensor) -> Tensor:
        """The gradient's running mean, looked at one step ahead (Nesterov)."""
        assert weight.grad is not None
        state = self.state[weight]
        if not state:
            state["momentum"] = torch.zeros_like(weight)
        state["momentum"].lerp_(weight.grad, 1 - self.momentum)
        return weight.grad.lerp(state["momentum"], self.momentum)
