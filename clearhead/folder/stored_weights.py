"""The tensors of a safetensors file, as views of its bytes, and checks of a model's weights.

8 bytes with the length of a header | JSON with the type, shape and place of each tensor | numbers
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..config import ModelConfig
from ..errors import ModelError
from .manifest import RESTORE
from .weight_table import SAME_MODEL, Shape, check_shapes, is_of_custom_part, tied_names

_FLOATS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
_WHOLE = {f"{kind.upper()}{8 * size}": f"<{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)}
_TYPES = _FLOATS | _WHOLE | {"BOOL": "?", "C64": "<c8"}
_SIZES = {name: np.dtype(kind).itemsize for name, kind in _TYPES.items()}
_EXPONENT = 0x7F80  # of a BF16: all bits are set in NaN and infinity


class Stored(NamedTuple):
    """A tensor in a file."""

    dtype: str  # in the spelling of safetensors
    shape: Shape
    data: memoryview

    def array(self) -> NDArray[Any]:
        """Return a view of the numbers, or a copy in float32 of a BF16, which numpy lacks."""
        numbers = np.frombuffer(self.data, _TYPES[self.dtype]).reshape(self.shape)
        return (numbers.astype(np.uint32) << 16).view(np.float32) if self.dtype == "BF16" else numbers

    def is_finite(self) -> bool:
        """Return whether all floating-point numbers are finite in float32, in which models compute."""
        numbers = np.frombuffer(self.data, _FLOATS[self.dtype])
        if self.dtype == "BF16":
            return not ((numbers & _EXPONENT) == _EXPONENT).any()
        with np.errstate(over="ignore"):
            return bool(np.isfinite(numbers.astype(np.float32, copy=False)).all())


def stored_tensors(path: Path, data: bytes) -> dict[str, Stored]:
    """Return the tensors of a safetensors file. Raise ModelError if it's in another format, or cut off."""
    try:
        begin = 8 + int.from_bytes(data[:8], "little")
        if len(data) < begin:
            raise ValueError(f"it has only {len(data):,} bytes, and its header needs {begin:,}")
        header = json.loads(data[8:begin], object_pairs_hook=_unique)
        header.pop("__metadata__", None)
        found = {name: _stored(memoryview(data)[begin:], **entry) for name, entry in header.items()}
        at = 0
        for first, last in sorted(entry["data_offsets"] for entry in header.values()):
            if first != at:
                raise ValueError("its tensors overlap, or leave a gap")
            at = last
        if begin + at != len(data):
            raise ValueError("its tensors don't take up the whole file")
        return found
    except (ValueError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        why = f": {error}" if isinstance(error, ValueError) else ""
        raise ModelError(f"{path} isn't in the safetensors format{why}", fix=RESTORE, name=path.name) from error


def check_weights(config: ModelConfig, tensors: Mapping[str, Stored]) -> None:
    """Check the weights of a model before anything computes with them.

    Raises:
        ModelError: names, shapes or types don't fit the settings, tied weights differ, or a number isn't finite.
    """
    check_shapes(config, {name: it.shape for name, it in tensors.items()})
    check_numbers(config, tensors)
    first, *more = [name for name in tied_names(config) if name in tensors] or [""]
    for name in more:
        if not np.array_equal(tensors[first].array(), tensors[name].array()):
            what = f"model.tie={config.tie!r}, but {first} and {name} have different numbers"
            raise ModelError(what, expected="one matrix with both names", fix=SAME_MODEL, name=name)


def check_numbers(config: ModelConfig, tensors: Mapping[str, Stored]) -> None:
    """Raise ModelError unless all weights, except those of custom parts, are finite floating-point numbers."""
    for name, it in tensors.items():
        if is_of_custom_part(name, config):
            continue
        if it.dtype not in _FLOATS or not it.is_finite():
            has = "numbers that aren't finite in float32" if it.dtype in _FLOATS else f"the type {it.dtype}"
            what, expected = f"the weight {name} has {has}", f"finite floating-point numbers ({', '.join(_FLOATS)})"
            raise ModelError(what, expected=expected, fix=RESTORE, name=name, value=it.dtype)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object with these pairs. Raise ValueError if a name is repeated."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is repeated in its header")
    return found


def _stored(numbers: memoryview, dtype: str, shape: list[int], data_offsets: list[int]) -> Stored:
    """Return the tensor of a header's entry. Raise ValueError or TypeError if its place can't have these numbers."""
    begin, end = data_offsets
    size = _SIZES.get(dtype)
    if not 0 <= begin <= end <= len(numbers) or any(type(it) is not int or it < 0 for it in shape):
        raise ValueError(f"a tensor of shape {shape} is at {data_offsets}")
    if size is not None and end - begin != size * math.prod(shape):
        raise ValueError(f"a tensor of shape {shape} and type {dtype} has {end - begin:,} bytes")
    return Stored(dtype, tuple(shape), numbers[begin:end])
