"""Linear layers in float32 or int8. A row's result doesn't depend on the rows beside it.

In int8, weights have a scale for each output, and activations one for each row. The sums are exact, so all forms of
`tiles` give equal ones.
"""

import numpy as np
from numpy.typing import NDArray

from .equations import ONE, Float, Floats, Stack, copy, part_of
from .jit import compiled
from .tiles import BLOCK, ROWS, add_products, add_products_of_bytes

_BIAS, _SCALE, _OFFSET = range(3)  # rows of an int8 part's constants
_MAGNITUDE = np.int32(2**31 - 1)  # the bits of a number without its sign, which are ordered as the magnitudes are


def panels_size(outputs: int, inputs: int) -> int:
    """Return the number of floats in the panels of a matrix."""
    return -(-outputs // BLOCK) * BLOCK * inputs


def write_panels(matrix: Floats, found: Floats) -> None:
    """Write a matrix to zeros in panels of BLOCK rows, each transposed. The last one isn't full. (F, D) -> (F' * D,)"""
    outputs, inputs = matrix.shape
    full = outputs // BLOCK
    places = found.reshape(-1, inputs, BLOCK)
    places[:full] = matrix[: full * BLOCK].reshape(full, BLOCK, inputs).transpose(0, 2, 1)
    if full < len(places):
        places[full, :, : outputs - full * BLOCK] = matrix[full * BLOCK :].T


def quantized(weight: Floats, bias: Floats) -> tuple[NDArray[np.int8], Floats]:
    """Return a linear layer's weights as bytes, and its constants. (F, D), (1, F) -> (F' * D',), (3, F')

    Weights are stored in panels of BLOCK outputs, four inputs of an output next to each other: (D' / 4, BLOCK, 4).
    Zeros fill up F to a multiple of BLOCK, and D to one of 4. Activations are shifted by 128 to be unsigned, and the
    offset takes that back.
    """
    outputs, inputs = weight.shape
    scale = np.maximum(np.abs(weight).max(1), np.finfo(np.float32).tiny) / np.float32(127)
    shape = (-(-outputs // BLOCK) * BLOCK, -(-inputs // 4) * 4)
    codes = np.zeros(shape, np.int8)
    codes[:outputs, :inputs] = np.rint(weight / scale[:, None])
    constants = np.zeros((3, shape[0]), np.float32)
    constants[_BIAS, :outputs], constants[_SCALE, :outputs] = bias[0], scale
    constants[_OFFSET] = (-128 * codes.sum(1, dtype=np.int32)).astype(np.int32).view(np.float32)
    panels = codes.reshape(-1, BLOCK, shape[1] // 4, 4).transpose(0, 2, 1, 3)
    return panels.reshape(-1), constants


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

    A panel stays in the cache until all rows of x have used it. Each sum adds its terms in the same order.
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


@compiled
def quantize_row(x: Floats, codes: NDArray[np.uint8]) -> Float:
    """Write round(x / scale) + 128, and return the scale: the largest magnitude / 127. (D,) -> (D',)"""
    bits, highest = x.view(np.int32), np.int32(0)
    for d in range(len(x)):
        magnitude = np.int32(bits[d] & _MAGNITUDE)
        highest = max(highest, magnitude)
    scale = np.int32(highest).view(np.float32) / Float(127) if highest > 0 else ONE
    inverse = ONE / scale
    for d in range(len(x)):
        codes[d] = np.uint8(np.int32(np.floor(x[d] * inverse + Float(128.5))))
    for d in range(len(x), len(codes)):
        codes[d] = np.uint8(128)
    return scale


@compiled
def linear_int8(x: Floats, stack: Stack, layer: int, part: int, out: Floats) -> None:
    """x W^T + b with the weights and x in int8. (R, D), (F, D) -> (R, F)"""
    at, outputs, inputs = stack.places[layer, part, 0], stack.places[layer, part, 1], stack.places[layer, part, 2]
    rows, wide, padded = len(x), (inputs + 3) // 4 * 4, (outputs + BLOCK - 1) // BLOCK * BLOCK
    constants = part_of(stack, layer, part + 1)
    bias, scales = constants[:padded], constants[padded : 2 * padded]
    offsets = constants[2 * padded :].view(np.int32)
    codes, row_scales = np.empty((rows, wide), np.uint8), np.empty(rows, np.float32)
    for r in range(rows):
        row_scales[r] = quantize_row(x[r], codes[r])
    sums = np.empty((ROWS, BLOCK), np.int32)
    for f in range(0, outputs, BLOCK):
        panel, end = stack.codes[at + f * wide : at + (f + BLOCK) * wide], min(f + BLOCK, outputs)
        for first in range(0, rows, ROWS):
            count = min(ROWS, rows - first)
            for r in range(count):
                copy(offsets[f : f + BLOCK], sums[r])
            add_products_of_bytes(codes, first, count, panel, sums)
            for r in range(count):
                rescale(sums[r], row_scales[first + r], scales[f:end], bias[f:end], out[first + r, f:end])


@compiled
def rescale(sums: NDArray[np.int32], row_scale: Float, scales: Floats, bias: Floats, out: Floats) -> None:
    """Turn sums of products into numbers, and add the bias. (F,)"""
    for i in range(len(out)):
        out[i] = Float(sums[i]) * (row_scale * scales[i]) + bias[i]
