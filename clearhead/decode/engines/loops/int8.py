"""Linear layers in int8: weights have a scale for each output, activations one for each row.

A row's result doesn't depend on the rows beside it. The inner product is one instruction for 64 products where the
processor has it (AVX-512 VNNI), and a plain loop otherwise; the results are equal.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import jit
from .equations import ONE, ZERO, Float, Floats, Stack, copy, part_of
from .jit import compiled

BLOCK = 64  # outputs whose sums stay in registers
_BIAS, _SCALE, _OFFSET = range(3)  # rows of a part's constants


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
def quantize_row(x: Floats, codes: NDArray[np.uint8]) -> Float:
    """Write round(x / scale) + 128, and return the scale: the largest magnitude / 127. (D,) -> (D',)"""
    largest = ZERO
    for d in range(len(x)):
        largest = max(largest, abs(x[d]))
    scale = largest / Float(127) if largest > ZERO else ONE
    inverse = ONE / scale
    for d in range(len(x)):
        codes[d] = np.uint8(np.int32(np.floor(x[d] * inverse + Float(128.5))))
    for d in range(len(x), len(codes)):
        codes[d] = np.uint8(128)
    return scale


@compiled
def linear_int8(x: Floats, stack: Stack, layer: int, part: int) -> Floats:
    """x W^T + b with the weights and x in int8. (R, D), (F, D) -> (R, F)"""
    at, outputs, inputs = stack.places[layer, part, 0], stack.places[layer, part, 1], stack.places[layer, part, 2]
    rows, wide, padded = len(x), (inputs + 3) // 4 * 4, (outputs + BLOCK - 1) // BLOCK * BLOCK
    constants = part_of(stack, layer, part + 1)
    bias, scales = constants[:padded], constants[padded : 2 * padded]
    offsets = constants[2 * padded :].view(np.int32)
    codes, row_scales = np.empty((rows, wide), np.uint8), np.empty(rows, np.float32)
    for r in range(rows):
        row_scales[r] = quantize_row(x[r], codes[r])
    out, sums = np.empty((rows, outputs), np.float32), np.empty((4, BLOCK), np.int32)
    for f in range(0, outputs, BLOCK):
        panel, end = stack.codes[at + f * wide : at + (f + BLOCK) * wide], min(f + BLOCK, outputs)
        for first in range(0, rows, 4):
            count = min(4, rows - first)
            for r in range(count):
                copy(offsets[f : f + BLOCK], sums[r])
            if count == 4:
                add_four_products(codes, first, panel, sums)
            else:
                for r in range(count):
                    add_products(codes, first + r, panel, sums[r : r + 1])
            for r in range(count):
                rescale(sums[r], row_scales[first + r], scales[f:end], bias[f:end], out[first + r, f:end])
    return out


@compiled
def rescale(sums: NDArray[np.int32], row_scale: Float, scales: Floats, bias: Floats, out: Floats) -> None:
    """Turn sums of products into numbers, and add the bias. (F,)"""
    for i in range(len(out)):
        out[i] = Float(sums[i]) * (row_scale * scales[i]) + bias[i]


def _plain_products(rows: int) -> Any:
    @compiled
    def products(x: NDArray[np.uint8], first: int, panel: NDArray[np.int8], sums: NDArray[np.int32]) -> None:
        for r in range(rows):
            for d in range(0, x.shape[1], 4):
                for i in range(BLOCK):
                    at = BLOCK * d + 4 * i
                    for k in range(4):
                        sums[r, i] += np.int32(x[first + r, d + k]) * np.int32(panel[at + k])

    return products


def _wide_products(rows: int) -> Any:
    """Return a function like `_plain_products`, in the processor's instruction for 64 products of bytes."""
    from llvmlite import ir
    from numba.core import cgutils as _cgutils
    from numba.core import types
    from numba.extending import intrinsic
    from numba.np.arrayobj import make_array as _make_array

    cgutils: Any = _cgutils
    make_array: Any = _make_array

    word, lanes = ir.IntType(32), BLOCK // 16
    vector = ir.VectorType(word, 16)

    def products(_: Any, x: Any, first: Any, panel: Any, sums: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            of_x, of_panel, of_sums = (make_array(signature.args[i])(context, builder, arguments[i]) for i in (0, 2, 3))
            inputs = cgutils.unpack_tuple(builder, of_x.shape)[1]
            name = "llvm.x86.avx512.vpdpbusd.512"
            dot = cgutils.get_or_insert_function(builder.module, ir.FunctionType(vector, [vector] * 3), name)
            bytes_of = ir.IntType(8).as_pointer()
            data_x = builder.bitcast(of_x.data, bytes_of)
            data_w = builder.bitcast(of_panel.data, bytes_of)
            data_sums = builder.bitcast(of_sums.data, vector.as_pointer())
            totals = {}
            for r in range(rows):
                for lane in range(lanes):
                    at = builder.gep(data_sums, [context.get_constant(types.intp, r * lanes + lane)])
                    totals[r, lane] = at, cgutils.alloca_once_value(builder, builder.load(at, align=4))
            step = context.get_constant(types.intp, 4)
            with cgutils.for_range_slice(builder, context.get_constant(types.intp, 0), inputs, step) as (d, _):
                weights = builder.bitcast(
                    builder.gep(data_w, [builder.mul(d, context.get_constant(types.intp, BLOCK))]), vector.as_pointer()
                )
                columns = [
                    builder.load(builder.gep(weights, [context.get_constant(types.intp, lane)]), align=1)
                    for lane in range(lanes)
                ]
                for r in range(rows):
                    row = builder.add(arguments[1], context.get_constant(types.int64, r))
                    place = builder.add(builder.mul(row, inputs), d)
                    four = builder.load(builder.bitcast(builder.gep(data_x, [place]), word.as_pointer()), align=1)
                    one = builder.insert_element(ir.Constant(vector, ir.Undefined), four, ir.Constant(word, 0))
                    spread = builder.shuffle_vector(
                        one, ir.Constant(vector, ir.Undefined), ir.Constant(vector, [0] * 16)
                    )
                    for lane in range(lanes):
                        total = totals[r, lane][1]
                        builder.store(builder.call(dot, [builder.load(total), spread, columns[lane]]), total)
            for at, total in totals.values():
                builder.store(builder.load(total), at, align=4)
            return context.get_dummy_value()

        return types.void(x, types.int64, panel, sums), emit

    instruction: Any = intrinsic(products)

    @compiled
    def call(x: NDArray[np.uint8], first: int, panel: NDArray[np.int8], sums: NDArray[np.int32]) -> None:
        instruction(x, first, panel, sums)

    return call


_products = _wide_products if jit.has("avx512vnni") else _plain_products
add_products, add_four_products = _products(1), _products(4)
