"""Muon (Jordan et al. 2024): move each matrix along the orthogonal matrix nearest to its momentum.

All singular values of such an update are about equal, so it moves all directions of a matrix equally far, and training
needs fewer tokens. Adam updates embeddings, biases and gains.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from ...model.linear import Linear

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
