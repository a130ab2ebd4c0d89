"""Inner products of a few rows with a panel of weights: the innermost loops of every linear layer.

A panel holds BLOCK outputs. The sums of up to ROWS rows and BLOCK outputs stay in registers while the inputs are read
once, which LLVM doesn't achieve for the plain loops. Both forms are here, and give the same results up to rounding.
"""

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from . import jit
from .jit import compiled

ROWS = 4
_WIDTH = 16 if jit.has("avx512f") else 8  # numbers of 32 bits in a register
_REGISTERS = 4 if jit.has("avx512f") else 2  # for each row
BLOCK = _WIDTH * _REGISTERS


def _plain_products(x: NDArray[Any], first: int, count: int, panel: NDArray[Any], sums: NDArray[Any]) -> None:
    """Add x W^T to `sums`, for `count` rows of x. (R, D), (D / G, BLOCK, G) -> (ROWS, BLOCK)

    G is 1 for float32. Four bytes that follow one another are multiplied at once, so it's 4 for int8.
    """
    group, number = 1 if panel.itemsize == 4 else 4, sums.dtype.type
    for r in range(count):
        for d in range(0, x.shape[1], group):
            for i in range(BLOCK):
                for k in range(group):
                    sums[r, i] += number(x[first + r, d + k]) * number(panel[BLOCK * d + group * i + k])


def _tiled_products() -> Callable[..., None]:
    """Return a function like `_plain_products`, in vector instructions."""
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

    def add_bytes(builder: Any, total: Any, x: Any, weights: Any) -> Any:
        """Multiply 64 bytes, and add each four products to a number."""
        kind = total.type
        name = "llvm.x86.avx512.vpdpbusd.512"
        dot = cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind] * 3), name)
        return builder.call(dot, [total, x, weights])

    def tile(builder: Any, rows: int, x: Any, inputs: Any, panel: Any, sums: Any, add: Any) -> None:
        """Emit the loop over the inputs. `x` points to numbers, the others to vectors of them."""
        places = [(r, lane) for r in range(rows) for lane in range(_REGISTERS)]
        blank = ir.Constant(sums.type.pointee, ir.Undefined)
        slots = [builder.gep(sums, [number(r * _REGISTERS + lane)]) for r, lane in places]
        totals = [cgutils.alloca_once_value(builder, builder.load(slot, align=4)) for slot in slots]
        starts = [builder.gep(x, [builder.mul(number(r), inputs)]) for r in range(rows)]
        with cgutils.for_range_slice(builder, number(0), inputs, number(1)) as (d, _):
            column = builder.gep(panel, [builder.mul(d, number(_REGISTERS))])
            weights = [builder.load(builder.gep(column, [number(lane)]), align=4) for lane in range(_REGISTERS)]
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
            for rows in range(1, ROWS + 1):
                with builder.if_then(builder.icmp_signed("==", arguments[2], number(rows))):
                    tile(builder, rows, begin, inputs, panel_at, sums_at, add)
            return context.get_dummy_value()

        return types.void(x, types.int64, types.int64, panel, sums), emit

    instruction: Any = intrinsic(products)

    def tiled(x: NDArray[Any], first: int, count: int, panel: NDArray[Any], sums: NDArray[Any]) -> None:
        instruction(x, first, count, panel, sums)

    return tiled


plain_products = compiled(_plain_products)
_tiled = compiled(_tiled_products()) if jit.enabled() else plain_products
add_products = _tiled
add_products_of_bytes = _tiled if jit.has("avx512vnni") else plain_products
