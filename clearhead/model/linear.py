"""A linear layer of one matrix, or of several stacked ones that share a single product. Tables of learned vectors."""

import torch
from torch import Tensor, nn


class Linear(nn.Linear):
    """x W^T + b. `Linear(512, 512, 512, 512)` computes three products of 512 outputs each in one.

    Initial weights are Xavier-uniform, and biases are zero. Xavier's bound depends on the number of outputs, so each
    matrix is initialised with its own bound; that of the whole stack would be too small.
    """

    def __init__(self, in_features: int, *blocks: int, bias: bool = True) -> None:
        self.blocks = list(blocks)
        super().__init__(in_features, sum(blocks), bias=bias)

    def reset_parameters(self) -> None:
        for block in self.weight.split(self.blocks):
            nn.init.xavier_uniform_(block)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def matrices(self, x: Tensor) -> tuple[Tensor, ...]:
        """Split x, shaped like the weight, into the rows of each matrix. (F+F, D) -> (F, D), (F, D)"""
        return x.split(self.blocks)


def learned_table(*shape: int) -> nn.Parameter:
    """Return vectors to learn, drawn from N(0, 1/D). -> (..., D)

    The meta device holds no numbers, so none are drawn there. Torch would spend seconds on importing its compiler.
    """
    table = torch.empty(shape)
    return nn.Parameter(table if table.is_meta else table.normal_(std=shape[-1] ** -0.5))
