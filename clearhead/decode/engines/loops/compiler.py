"""Compile the loops to one file of machine code, in a process of its own.

numba's way of compiling emits machine code for every function, together with all that it calls. Here, functions are
only emitted once, as part of the entries, which takes a third of the time. The file calls nothing of numba, so it's
loaded without it.
"""

import gc
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import codegen, compiler_lock, cpu, registry, types
from numba.core.runtime import nrtdynmod
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from . import jit

_ENTRY = "entry"

# Sums may be reordered, so that they fit wide registers. Infinity and NaN keep their meaning.
_FAST = {"reassoc", "contract", "nsz", "arcp"}
_OPTIONS = {"nopython": True, "nogil": True, "fastmath": _FAST, "error_model": "numpy"}
_OPTIONS |= {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}

# numba's memory of arrays: a header with the number of references and the address of the data, then the data.
_MEMORY = """
declare i8* @PyMem_RawMalloc(i64)
declare void @PyMem_RawFree(i8*)
define i8* @NRT_MemInfo_alloc_aligned(i64 %size, i32 %alignment) {
  %wide = zext i32 %alignment to i64
  %header = add i64 %wide, 64
  %total = add i64 %size, %header
  %memory = call i8* @PyMem_RawMalloc(i64 %total)
  %failed = icmp eq i8* %memory, null
  br i1 %failed, label %end, label %fill
fill:
  %at = ptrtoint i8* %memory to i64
  %after = add i64 %at, %header
  %below = sub i64 0, %wide
  %data = and i64 %after, %below
  %fields = bitcast i8* %memory to i64*
  store i64 1, i64* %fields
  %place = getelementptr i64, i64* %fields, i64 3
  store i64 %data, i64* %place
  br label %end
end:
  ret i8* %memory
}
define void @NRT_MemInfo_call_dtor(i8* %memory) {
  call void @PyMem_RawFree(i8* %memory)
  ret void
}
"""


class _Library(codegen.AOTCodeLibrary):
    """A function's code. All of it is linked and optimized once, for the function that Python calls."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        if self.name != _ENTRY:
            self._finalized = True
            return
        order: dict[Any, None] = {}
        _visit(self, order)
        self._linking_libraries = list(order)[-2::-1]  # callers first, since functions that nobody calls aren't linked
        super().finalize()


def _visit(library: Any, order: dict[Any, None]) -> None:
    """Add all libraries that a library needs, and then the library."""
    for other in library._linking_libraries:
        if other not in order:
            _visit(other, order)
    order[library] = None


class _Codegen(codegen.JITCPUCodegen):
    _library_class: Any = _Library

    def _add_module(self, module: Any) -> None:
        """Nothing is run in this process."""


class _Context(cpu.CPUContext):
    def init(self) -> None:
        super().init()
        self._internal_codegen = _Codegen("clearhead")

    def get_executable(self, library: Any, fndesc: Any, env: Any) -> Any:
        """Return a built-in function of its own, by which numba knows the code. Nothing calls it."""
        return [].append


class _Dispatcher(registry.CPUDispatcher):
    """A function of the loops."""

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """By default, a function that's called with ten constants is compiled ten times."""
        return super().get_call_template([types.unliteral(arg) for arg in args], kws)


def _count(module: Any, operation: str, ordering: str) -> Any:
    """Define a function that adds or subtracts one reference, and returns the new number.

    Arrays that one thread makes are never seen by another, so numba's atomic instructions would only cost time.
    """
    word = ir.IntType(64)
    function = ir.Function(module, ir.FunctionType(word, [word.as_pointer()]), f"count_{operation}")
    builder = ir.IRBuilder(function.append_basic_block())
    [at] = function.args
    number = getattr(builder, operation)(builder.load(at), ir.Constant(word, 1))
    builder.store(number, at)
    builder.ret(number)
    return function


def _decorate(function: Any) -> Any:
    return _Dispatcher(function, targetoptions=dict(_OPTIONS))


def _arguments(kinds: Any) -> Any:
    """Return a function that turns arguments of `entries._packed` back into a tuple of these types."""

    def arguments(_: Any, numbers: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            places = iter(range(2**16))

            def number() -> Any:
                return builder.load(builder.gep(values[0], [ir.Constant(ir.IntType(64), next(places))]))

            def value(kind: Any) -> Any:
                if isinstance(kind, types.BaseTuple):
                    members: Any = kind
                    return context.make_tuple(builder, kind, [value(it) for it in members])
                if isinstance(kind, types.Array):
                    return array(kind)
                if isinstance(kind, types.Record):
                    return builder.inttoptr(number(), context.get_value_type(kind))
                return builder.bitcast(number(), context.get_value_type(kind))

            def array(kind: Any) -> Any:
                found = make_array(kind)(context, builder)
                data = builder.inttoptr(number(), context.get_data_type(kind.dtype).as_pointer())
                shape = [number() for _ in range(kind.ndim)]
                size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
                strides = [ir.Constant(ir.IntType(64), size)]
                for length in shape[:0:-1]:
                    strides.insert(0, builder.mul(strides[0], length))
                populate_array(found, data, shape, strides, ir.Constant(ir.IntType(64), size), None)
                return found._getvalue()

            return value(signature.return_type)

        return types.Tuple(kinds)(numbers), emit

    return intrinsic(arguments)


def _entry(kinds: dict[str, Any]) -> Any:
    """Return a function that calls the function of a number, in the order of `Entries`, with packed arguments."""
    from .entries import AS_PYTHON

    search, remember, write_prompt, write_states, project = AS_PYTHON
    first, second, third, fourth, fifth = (_arguments(kinds[name]) for name in AS_PYTHON._fields)

    def entry(which: int, numbers: Any) -> None:
        if which == 0:
            search(*first(numbers))
        elif which == 1:
            remember(*second(numbers))
        elif which == 2:
            write_prompt(*third(numbers))
        elif which == 3:
            write_states(*fourth(numbers))
        else:
            project(*fifth(numbers))

    entry.__qualname__ = _ENTRY
    return entry


def object_code() -> bytes:
    """Compile the loops. This process can't run them."""
    gc.disable()  # it would take a fifth of the time
    # The functions of numba that the loops call are compiled in this context, too.
    registry.cpu_target._toplevel_target_context = _Context(registry.cpu_target.typing_context, "cpu")
    vars(nrtdynmod)["_define_atomic_inc_dec"] = _count
    jit.decorators.append(_decorate)
    from numba import typeof

    from .entries import examples

    kinds = {name: tuple(typeof(it) for it in arguments) for name, arguments in examples().items()}
    with compiler_lock.global_compiler_lock:
        dispatcher = _decorate(_entry(kinds))
        signature = (types.int64, types.CPointer(types.int64))
        dispatcher.compile(signature)
        compiled = dispatcher.overloads[signature]
        library = compiled.library
        library._final_module.get_function(compiled.fndesc.llvm_func_name).name = jit.SYMBOL
        library._final_module.link_in(llvm.parse_assembly(_MEMORY))
        found: bytes = library.emit_native_object()
    return found
