"""Linear layers in float32, and the choice between float32 and int8."""

import numpy as np

from .equations import Floats, Stack, copy, part_of
from .int8 import linear_int8
from .jit import compiled
from .tiles import BLOCK, ROWS, add_products


def panels(matrix: Floats) -> Floats:
    """Return a matrix in panels of BLOCK rows, each transposed. Zeros fill up the last one. (F, D) -> (F' * D,)"""
    padded = np.zeros((-(-len(matrix) // BLOCK) * BLOCK, matrix.shape[1]), np.float32)
    padded[: len(matrix)] = matrix
    return padded.reshape(-1, BLOCK, matrix.shape[1]).transpose(0, 2, 1).ravel()


@compiled
def linear(x: Floats, stack: Stack, layer: int, part: int) -> Floats:
    """x W^T + b. (R, D), (F, D) -> (R, F)"""
    out = np.empty((len(x), stack.places[layer, part, 1]), np.float32)
    write_linear(x, stack, layer, part, out)
    return out


@compiled
def write_linear(x: Floats, stack: Stack, layer: int, part: int, out: Floats) -> None:
    """Write x W^T + b to the first rows of `out`. (R, D), (F, D) -> (R, F)"""
    if stack.shape.int8:
        linear_int8(x, stack, layer, part, out)
    else:
        linear_float(x, stack, layer, part, out)


@compiled
def linear_float(x: Floats, stack: Stack, layer: int, part: int, out: Floats) -> None:
    """x W^T + b. (R, D), (F, D) -> (R, F)

    A panel stays in the cache until all rows of x have used it. Each sum adds its terms in the same order, so a row's
    result doesn't depend on the rows beside it.
    """
    at, outputs, inputs = stack.places[layer, part, 0], stack.places[layer, part, 1], stack.places[layer, part, 2]
    bias, rows, sums = part_of(stack, layer, part + 1), len(x), np.zeros((ROWS, BLOCK), np.float32)
    for f in range(0, outputs, BLOCK):
        panel, end = stack.floats[at + f * inputs : at + (f + BLOCK) * inputs], min(f + BLOCK, outputs)
        for first in range(0, rows, ROWS):
            count = min(ROWS, rows - first)
            for r in range(count):
                copy(bias[f:end], sums[r])
            add_products(x, first, count, panel, sums)
            for r in range(count):
                copy(sums[r, : end - f], out[first + r, f:end])
