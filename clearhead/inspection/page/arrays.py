"""Arrays inside JSON: base64 of little-endian numbers, in as few bytes as the page needs."""

from base64 import b64encode
from typing import Any

import numpy as np
from numpy.typing import ArrayLike


def weights_array(values: ArrayLike) -> dict[str, Any]:
    """Encode numbers from 0 to 1 in 16 bits, exact to 0.0000077."""
    found = np.asarray(values, np.float64)
    return _array(np.rint(found.clip(0, 1) * 65535).astype("<u2"), "u16", 65535)


def shades_array(values: ArrayLike) -> dict[str, Any]:
    """Encode numbers from 0 to 1 in 8 bits, exact to 0.002: enough for a small picture."""
    return _array(np.rint(np.asarray(values, np.float64).clip(0, 1) * 255).astype("u1"), "u8", 255)


def float_array(values: ArrayLike) -> dict[str, Any]:
    """Encode numbers in float32."""
    return _array(np.asarray(values).astype("<f4"), "f32", 1)


def counts_array(values: ArrayLike) -> dict[str, Any]:
    """Encode counts in 16 bits; those above 65,535 become that."""
    return _array(np.asarray(values).clip(0, 65535).astype("<u2"), "u16", 1)


def bytes_array(values: ArrayLike) -> dict[str, Any]:
    """Encode rows of numbers in 8 bits, each row with its own scale, exact to a 254th of the row's largest number."""
    found = np.asarray(values, np.float64)
    largest = np.abs(found).max(-1, initial=0.0)
    steps = 127 / np.where(largest == 0, 1.0, largest)
    rounded = np.rint(found * steps[..., None]).astype("i1")
    return _array(rounded, "i8", 1) | {"steps": float_array(steps)}


def bits_array(values: ArrayLike) -> dict[str, Any]:
    """Encode truth values in a bit each, the first in the lowest bit of the first byte."""
    found = np.asarray(values, np.bool_)
    packed = np.packbits(found.ravel(), bitorder="little")
    return {"shape": list(found.shape), "dtype": "bit", "scale": 1, "b64": b64encode(packed.tobytes()).decode()}


def _array(values: Any, dtype: str, scale: int) -> dict[str, Any]:
    data = b64encode(np.ascontiguousarray(values).tobytes()).decode()
    return {"shape": list(values.shape), "dtype": dtype, "scale": scale, "b64": data}
