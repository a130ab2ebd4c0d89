"""The linear layer of every part: one or several matrices below each other, so that one product serves them all."""

from torch import Tensor, nn


class Linear(nn.Linear):
    """x W^T + b. `Linear(512, 512, 512, 512)` is three products of 512 outputs each in one.

    Weights start Xavier-uniform, biases at zero. Xavier's bound depends on the number of outputs: each block gets its
    own: that of the whole stack would be too small. An optimiser that treats matrices as such asks for `matrices`.
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
        """The rows of x, shaped like the weight, that belong to each block. (F+F, D) -> (F, D), (F, D)"""
        return x.split(self.blocks)
