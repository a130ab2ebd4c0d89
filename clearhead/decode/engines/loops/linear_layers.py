"""Linear layers in float32 or int8. A row's result doesn't depend on the rows beside it.

Their innermost loops multiply a few rows with a panel of weights, which holds BLOCK outputs. The sums of up to ROWS
rows and BLOCK outputs stay in registers while the inputs are read once, which LLVM doesn't achieve for the plain loops.
AVX-512 VNNI multiplies four bytes at once, and AVX2 two. All forms give the same results, up to rounding.

In int8, weights have a scale for each output, and activations one for each row. The sums are exact, so they're the same
in all forms.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import jit
from .equations import ONE, Float, Floats, Stack, copy, part_of
from .jit import compiled

_BIAS, _SCALE, _OFFSET = range(3)  # rows of an int8 part's constants
_MAGNITUDE = np.int32(2**31 - 1)  # the bits of a number without its sign, which are ordered as the magnitudes are
ROWS = 4
_WIDTH = 16 if jit.has("avx512f") else 8  # numbers of 32 bits in a register
_REGISTERS = 4 if jit.has("avx512f") else 2  # for each row
BLOCK = _WIDTH * _REGISTERS
_PAIRS = "llvm.x86.avx512.pmaddw.d.512" if jit.has("avx512f") else "llvm.x86.avx2.pmadd.wd"


def _plain_products(group: int) -> Callable[..., None]:
    """Return a function that adds x W^T to `sums`, for `count` rows of x. (R, D), (D / G, BLOCK, G) -> (ROWS, BLOCK)

    G bytes that follow one another are multiplied at once; it's 4 for int8, and 1 for float32.
    """

    @compiled
    def plain(x: NDArray[Any], first: int, count: int, panel: NDArray[Any], sums: NDArray[Any]) -> None:
        number = sums.dtype.type
        for r in range(count):
            for d in range(0, x.shape[1], group):
                weights = panel[d * BLOCK : (d + group) * BLOCK]
                for i in range(BLOCK):
                    for k in range(group):
                        sums[r, i] += number(x[first + r, d + k]) * number(weights[group * i + k])

    return plain


def _tiled_products(*, four_bytes: bool) -> Callable[..., None]:
    """Return a function that does either, in vector instructions. Can one of them multiply four bytes at once?"""
    from llvmlite import ir
    from numba.core import cgutils as _cgutils
    from numba.core import types
    from numba.extending import intrinsic
    from numba.np.arrayobj import make_array as _make_array

    cgutils: Any = _cgutils
    make_array: Any = _make_array
    word = ir.IntType(32)

    def number(n: int) -> Any:
        return ir.Constant(ir.IntType(64), n)

    def add_float(builder: Any, total: Any, x: Any, weights: Any) -> Any:
        return builder.fadd(total, builder.fmul(x, weights, flags=("contract",)), flags=("contract",))

    def call(builder: Any, name: str, result: Any, *values: Any) -> Any:
        kind = ir.FunctionType(result, [value.type for value in values])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), values)

    def add_four_bytes(builder: Any, total: Any, x: Any, weights: Any) -> Any:
        return call(builder, f"llvm.x86.avx512.vpdpbusd.{32 * _WIDTH}", total.type, total, x, weights)

    def add_pairs_of_bytes(builder: Any, total: Any, x: Any, weights: Any) -> Any:
        """Widen every other byte to 16 bits, then the others, and multiply. The bytes of x have no sign."""
        pairs = ir.VectorType(ir.IntType(16), 2 * _WIDTH)
        x, weights, eight = builder.bitcast(x, pairs), builder.bitcast(weights, pairs), pairs([8] * 2 * _WIDTH)
        odd = builder.lshr(x, eight), builder.ashr(weights, eight)
        even = builder.lshr(builder.shl(x, eight), eight), builder.ashr(builder.shl(weights, eight), eight)
        for values in (even, odd):
            total = builder.add(total, call(builder, _PAIRS, total.type, *values))
        return total

    add_bytes = add_four_bytes if four_bytes else add_pairs_of_bytes

    def tile(builder: Any, rows: int, x: Any, inputs: Any, panel: Any, sums: Any, ahead: Any, add: Any) -> None:
        """Emit the loop over the inputs. `x` points to numbers, the others to vectors of them."""
        places = [(r, lane) for r in range(rows) for lane in range(_REGISTERS)]
        blank = ir.Constant(sums.type.pointee, ir.Undefined)
        slots = [builder.gep(sums, [number(r * _REGISTERS + lane)]) for r, lane in places]
        totals = [cgutils.alloca_once_value(builder, builder.load(slot, align=4)) for slot in slots]
        starts = [builder.gep(x, [builder.mul(number(r), inputs)]) for r in range(rows)]
        with cgutils.for_range_slice(builder, number(0), inputs, number(1)) as (d, _):
            column = builder.gep(panel, [builder.mul(d, number(_REGISTERS))])
            weights = [builder.load(builder.gep(column, [number(lane)]), align=4) for lane in range(_REGISTERS)]
            line = builder.bitcast(builder.gep(ahead, [d]), ir.IntType(8).as_pointer())
            call(builder, "llvm.prefetch.p0", ir.VoidType(), line, word(0), word(2), word(1))  # to the second cache
            for (r, lane), total in zip(places, totals):
                if lane == 0:
                    one = builder.insert_element(blank, builder.load(builder.gep(starts[r], [d]), align=1), word(0))
                    spread = builder.shuffle_vector(one, blank, ir.Constant(ir.VectorType(word, _WIDTH), [0] * _WIDTH))
                builder.store(add(builder, builder.load(total), spread, weights[lane]), total)
        for slot, total in zip(slots, totals):
            builder.store(builder.load(total), slot, align=4)

    def products(_: Any, x: Any, first: Any, count: Any, panel: Any, sums: Any) -> Any:
        kind, add, group = (ir.FloatType(), add_float, 1) if panel.dtype == types.float32 else (word, add_bytes, 4)

        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            arrays = [make_array(signature.args[i])(context, builder, arguments[i]) for i in (0, 3, 4)]
            vectors = ir.VectorType(kind, _WIDTH).as_pointer()
            inputs = builder.udiv(cgutils.unpack_tuple(builder, arrays[0].shape)[1], number(group))
            begin = builder.gep(builder.bitcast(arrays[0].data, kind.as_pointer()), [builder.mul(arguments[1], inputs)])
            panel_at, sums_at = (builder.bitcast(array.data, vectors) for array in arrays[1:])
            # Each of the first passes over a panel, with ROWS rows, fetches one vector per input of the next panel.
            done = builder.udiv(arguments[1], number(ROWS))
            done = builder.select(builder.icmp_unsigned("<", done, number(_REGISTERS)), done, number(0))
            ahead = builder.gep(panel_at, [builder.mul(inputs, builder.add(number(_REGISTERS), done))])
            for rows in range(1, ROWS + 1):
                with builder.if_then(builder.icmp_signed("==", arguments[2], number(rows))):
                    tile(builder, rows, begin, inputs, panel_at, sums_at, ahead, add)
            return context.get_dummy_value()

        return types.void(x, types.int64, types.int64, panel, sums), emit

    instruction: Any = intrinsic(products)

    def tiled(x: NDArray[Any], first: int, count: int, panel: NDArray[Any], sums: NDArray[Any]) -> None:
        instruction(x, first, count, panel, sums)

    return tiled


plain_products, plain_products_of_bytes = _plain_products(1), _plain_products(4)
add_products, add_products_of_bytes = plain_products, plain_products_of_bytes
if jit.decorators:
    add_products = compiled(_tiled_products(four_bytes=jit.has("avx512vnni")))
    if jit.has("avx512bw" if jit.has("avx512f") else "avx2"):
        add_products_of_bytes = add_products


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
    """x W^T + b. (R, D), (F, D) -> (R, F)

    Args:
        x: the inputs.
        stack: has the weights.
        layer: the number of the block.
        part: the number of the matrix in `stack_parts`. Its bias has the next one.
    """
    out = np.empty((len(x), stack.places[layer, part, 1]), np.float32)
    write_linear(x, stack, layer, part, out)
    return out


@compiled
def write_linear(x: Floats, stack: Stack, layer: int, part: int, out: Floats) -> None:
    """Write x W^T + b to the first rows of `out`. (R, D), (F, D) -> (R, F)

    Args:
        x: the inputs.
        stack: has the weights.
        layer: the number of the block.
        part: the number of the matrix in `stack_parts`.
        out: has at least R rows.
    """
    if stack.shape.int8:
        _linear_int8(x, stack, layer, part, out)
    else:
        _linear_float(x, stack, layer, part, out)


@compiled
def _linear_float(x: Floats, stack: Stack, layer: int, part: int, out: Floats) -> None:
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
def _quantize_row(x: Floats, codes: NDArray[np.uint8]) -> Float:
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
def _linear_int8(x: Floats, stack: Stack, layer: int, part: int, out: Floats) -> None:
    """x W^T + b with the weights and x in int8. (R, D), (F, D) -> (R, F)"""
    at, outputs, inputs = stack.places[layer, part, 0], stack.places[layer, part, 1], stack.places[layer, part, 2]
    rows, wide, padded = len(x), (inputs + 3) // 4 * 4, (outputs + BLOCK - 1) // BLOCK * BLOCK
    constants = part_of(stack, layer, part + 1)
    bias, scales = constants[:padded], constants[padded : 2 * padded]
    offsets = constants[2 * padded :].view(np.int32)
    codes, row_scales = np.empty((rows, wide), np.uint8), np.empty(rows, np.float32)
    for r in range(rows):
        row_scales[r] = _quantize_row(x[r], codes[r])
    sums = np.empty((ROWS, BLOCK), np.int32)
    for f in range(0, outputs, BLOCK):
        panel, end = stack.codes[at + f * wide : at + (f + BLOCK) * wide], min(f + BLOCK, outputs)
        for first in range(0, rows, ROWS):
            count = min(ROWS, rows - first)
            for r in range(count):
                copy(offsets[f : f + BLOCK], sums[r])
            add_products_of_bytes(codes, first, count, panel, sums)
            for r in range(count):
                _rescale(sums[r], row_scales[first + r], scales[f:end], bias[f:end], out[first + r, f:end])


@compiled
def _rescale(sums: NDArray[np.int32], row_scale: Float, scales: Floats, bias: Floats, out: Floats) -> None:
    """Turn sums of products into numbers, and add the bias. (F,)"""
    for i in range(len(out)):
        out[i] = Float(sums[i]) * (row_scale * scales[i]) + bias[i]
