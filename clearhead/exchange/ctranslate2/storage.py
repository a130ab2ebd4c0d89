"""The types in which CTranslate2 stores numbers: float32, or smaller ones for smaller files."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .binary import Variables

Matrix: TypeAlias = NDArray[np.float32]


def stored(variables: Variables, precision: str) -> dict[str, NDArray[Any]]:
    """Return variables in a smaller type. Integers store matrices only, next to their scales.

    Args:
        variables: those of a model in float32.
        precision: a key of `PRECISIONS`.
    """
    convert = PRECISIONS[precision]
    found: dict[str, NDArray[Any]] = {}
    for name, value in variables.items():
        if value.dtype != np.float32 or value.ndim == 0:
            found[name] = value
        else:
            found |= {name + suffix: it for suffix, it in convert(name, value).items()}
    return found


def _float32(name: str, value: Matrix) -> dict[str, NDArray[Any]]:
    return {"": value}


def _float16(name: str, value: Matrix) -> dict[str, NDArray[Any]]:
    largest = np.finfo(np.float16).max
    return {"": np.clip(value, -largest, largest).astype(np.float16)}


def _bfloat16(name: str, value: Matrix) -> dict[str, NDArray[Any]]:
    """Round to the upper half of the bits, ties to even. numpy has no such type, so it's returned as uint16."""
    bits = np.ascontiguousarray(value).view(np.uint32)
    return {"": ((bits + (0x7FFF + (bits >> 16 & 1))) >> 16).astype(np.uint16)}


def _int8(name: str, value: Matrix) -> dict[str, NDArray[Any]]:
    """Scale each row of a matrix so that its largest number is 127. A row is an output, or a token."""
    if not _is_matrix(name, value):
        return {"": value}
    largest = np.abs(value).max(1)
    scale = 127 / np.where(largest == 0, np.float32(127), largest)
    return {"": np.rint(value * scale[:, None]).astype(np.int8), "_scale": scale.astype(np.float32)}


def _int16(name: str, value: Matrix) -> dict[str, NDArray[Any]]:
    """Scale a matrix so that its largest number is 1024, which leaves CTranslate2 12 bits for sums of products."""
    if not _is_matrix(name, value):
        return {"": value}
    scale = np.float32(2**10 / (np.abs(value).max() or 1))
    return {"": np.rint(value * scale).astype(np.int16), "_scale": np.array(scale)}


def _is_matrix(name: str, value: Matrix) -> bool:
    return name.endswith("/weight") and value.ndim == 2


Convert: TypeAlias = Callable[[str, Matrix], Mapping[str, NDArray[Any]]]
PRECISIONS: Mapping[str, Convert] = MappingProxyType(
    {"fp32": _float32, "fp16": _float16, "bf16": _bfloat16, "int16": _int16, "int8": _int8}
)
