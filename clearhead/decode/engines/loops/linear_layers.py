"""Linear layers in float32, and the choice between float32 and int8."""

import numpy as np

from .equations import Floats, Stack, copy, part_of
from .int8 import linear_int8
from .jit import compiled, compiled_in_order

PANEL = 512  # outputs that are computed at a time
DEPTH = 64  # inputs that are read at a time


def panels(matrix: Floats) -> Floats:
    """Return a matrix in panels of PANEL rows, each transposed. (F, D) -> (F * D,)"""
    return np.concatenate([matrix[f : f + PANEL].T.ravel() for f in range(0, len(matrix), PANEL)])


@compiled
def linear(x: Floats, stack: Stack, layer: int, part: int) -> Floats:
    """x W^T + b. (R, D), (F, D) -> (R, F)"""
    return linear_int8(x, stack, layer, part) if stack.shape.int8 else linear_float(x, stack, layer, part)


@compiled
def linear_float(x: Floats, stack: Stack, layer: int, part: int) -> Floats:
    """x W^T + b. (R, D), (F, D) -> (R, F)

    W is stored in panels of PANEL outputs, each transposed: (D, PANEL). DEPTH inputs of a panel stay in the cache until
    all rows of x have used them, and four rows share every number that is read. Each sum adds its terms in the same
    order, so a row's result doesn't depend on the rows beside it.
    """
    w, bias, outputs = part_of(stack, layer, part), part_of(stack, layer, part + 1), stack.places[layer, part, 1]
    rows, inputs = x.shape
    out, sums = np.empty((rows, outputs), np.float32), np.empty((rows, PANEL + 16), np.float32)  # 16: not a power of 2
    for f in range(0, outputs, PANEL):
        width = min(PANEL, outputs - f)
        for r in range(rows):
            copy(bias[f : f + width], sums[r])
        for d in range(0, inputs, DEPTH):
            end = min(d + DEPTH, inputs)
            panel = w[f * inputs + d * width : f * inputs + end * width]
            r = 0
            while r + 4 <= rows:
                add_four_rows(x[r : r + 4, d:end], panel, width, sums[r : r + 4])
                r += 4
            while r < rows:
                add_row(x[r, d:end], panel, sums[r, :width])
                r += 1
        for r in range(rows):
            copy(sums[r, :width], out[r, f : f + width])
    return out


@compiled_in_order
def add_row(x: Floats, panel: Floats, out: Floats) -> None:
    """Add x W^T to `out`, eight inputs at a time. (D,), (D * P,) -> (P,)"""
    p, d = len(out), 0
    while d + 8 <= len(x):
        w0, w1, w2, w3 = panel[d * p :], panel[(d + 1) * p :], panel[(d + 2) * p :], panel[(d + 3) * p :]
        w4, w5, w6, w7 = panel[(d + 4) * p :], panel[(d + 5) * p :], panel[(d + 6) * p :], panel[(d + 7) * p :]
        x0, x1, x2, x3, x4, x5, x6, x7 = x[d], x[d + 1], x[d + 2], x[d + 3], x[d + 4], x[d + 5], x[d + 6], x[d + 7]
        for f in range(p):
            total = out[f] + x0 * w0[f] + x1 * w1[f] + x2 * w2[f] + x3 * w3[f]
            out[f] = total + x4 * w4[f] + x5 * w5[f] + x6 * w6[f] + x7 * w7[f]
        d += 8
    while d < len(x):
        w0, x0 = panel[d * p :], x[d]
        for f in range(p):
            out[f] += x0 * w0[f]
        d += 1


@compiled_in_order
def add_four_rows(x: Floats, panel: Floats, p: int, out: Floats) -> None:
    """Add x W^T to `out`, four inputs at a time. (4, D), (D * P,) -> (4, P)"""
    x0, x1, x2, x3 = x[0], x[1], x[2], x[3]
    out0, out1, out2, out3 = out[0], out[1], out[2], out[3]
    d = 0
    while d + 4 <= x.shape[1]:
        w0, w1, w2, w3 = panel[d * p :], panel[(d + 1) * p :], panel[(d + 2) * p :], panel[(d + 3) * p :]
        a0, b0, c0, e0 = x0[d], x0[d + 1], x0[d + 2], x0[d + 3]
        a1, b1, c1, e1 = x1[d], x1[d + 1], x1[d + 2], x1[d + 3]
        a2, b2, c2, e2 = x2[d], x2[d + 1], x2[d + 2], x2[d + 3]
        a3, b3, c3, e3 = x3[d], x3[d + 1], x3[d + 2], x3[d + 3]
        for f in range(p):
            a, b, c, e = w0[f], w1[f], w2[f], w3[f]
            out0[f] = out0[f] + a0 * a + b0 * b + c0 * c + e0 * e
            out1[f] = out1[f] + a1 * a + b1 * b + c1 * c + e1 * e
            out2[f] = out2[f] + a2 * a + b2 * b + c2 * c + e2 * e
            out3[f] = out3[f] + a3 * a + b3 * b + c3 * c + e3 * e
        d += 4
    while d < x.shape[1]:
        w0, a0, a1, a2, a3 = panel[d * p :], x0[d], x1[d], x2[d], x3[d]
        for f in range(p):
            out0[f] += a0 * w0[f]
            out1[f] += a1 * w0[f]
            out2[f] += a2 * w0[f]
            out3[f] += a3 * w0[f]
        d += 1
