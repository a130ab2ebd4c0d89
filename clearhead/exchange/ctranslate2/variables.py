"""Variables of a CTranslate2 model as settings and matrices."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import ModelError, shortened

_INT16_SCALE = 1000.0  # of models that don't store a scale
_WITHOUT_EFFECT = ("alignment_layer", "alignment_heads", "multi_query_attention")


class Variables:
    """The variables of a file. It keeps track of those that were read.

    Args:
        path: the file.
        values: the variables by their names.
    """

    def __init__(self, path: Path, values: Mapping[str, NDArray[Any]]) -> None:
        self.path, self._values = path, values
        self._read = {it for it in values if it.endswith(_WITHOUT_EFFECT)}

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def count(self, prefix: str) -> int:
        """Return the number of layers whose names begin like this."""
        numbers = {name[len(prefix) :].split("/")[0] for name in self._values if name.startswith(prefix)}
        return sum(number.isdecimal() for number in numbers)

    def number(self, name: str) -> float | None:
        """Return a number, or None if there's no such variable."""
        if name not in self._values:
            return None
        self._read.add(name)
        return float(self._values[name].reshape(()))

    def setting(self, stack: str, name: str, default: float) -> float:
        """Return a number of a stack. Old revisions store one for both."""
        for whole in (f"{stack}/{name}", name):
            if (found := self.number(whole)) is not None:
                return found
        return default

    def shared(self, ending: str) -> float | None:
        """Return the number that all variables with this ending have, or None if there are none.

        Raises:
            ModelError: they differ.
        """
        names = [name for name in self._values if name.endswith(ending)]
        found = {name: self.number(name) for name in names}
        if len({*found.values()}) > 1:
            raise self.unsupported(names[0], "the same number in all layers")
        return found[names[0]] if names else None

    def expect_off(self, *names: str) -> None:
        """Raise ModelError if one of these flags is set."""
        for name in names:
            if self.number(name):
                raise self.unsupported(name, "0")

    def embedding_scale(self, stack: str) -> float | None:
        """Return the factor of a stack's embeddings, or None for the square root of their width."""
        name = f"{stack}/scale_embeddings"
        name = name if name in self._values else f"{stack}/embeddings/multiply_by_sqrt_depth"
        found = self.number(name)
        if found is None or self._values[name].dtype == np.int8:  # a flag
            return 1.0 if found == 0 else None
        return found

    def matrix(self, name: str) -> NDArray[np.float32]:
        """Return a matrix or vector in float32.

        Raises:
            ModelError: it's missing.
        """
        if name not in self._values:
            raise ModelError(f"{self.path} has no variable {name}", fix="convert the model again", name=name)
        found, scale = self._values[name], self._values.get(f"{name}_scale")
        self._read |= {name, f"{name}_scale"}
        if found.dtype.kind == "f":
            return found.astype(np.float32)
        factor = np.float32(_INT16_SCALE) if scale is None else scale.astype(np.float32)
        return (found.astype(np.float32) / factor.reshape(-1, *[1] * (found.ndim - 1))).astype(np.float32)

    def table(self, name: str, rows: int, width: int) -> NDArray[np.float32]:
        """Return a table of positions: the one that's stored, or else the one that CTranslate2 computes. -> (T, D)"""
        return self.matrix(name) if name in self._values else generated_table(rows, width)

    def unsupported(self, name: str, expected: str) -> ModelError:
        """Return the error for a variable that our parts can't express."""
        value = self.number(name)
        what = f"{self.path} has {name}={value:g}, which isn't supported"
        return ModelError(what, expected=expected, name=name, value=value)

    def expect_all_read(self) -> None:
        """Raise ModelError if there are variables that nothing has read."""
        left = sorted(self._values.keys() - self._read)
        if left:
            raise ModelError(
                f"{self.path} has {len(left)} variables that aren't supported: {shortened(left)}",
                expected="those of a Transformer",
                name=left[0],
            )


def generated_table(rows: int, width: int) -> NDArray[np.float32]:
    """Return CTranslate2's positions: all sines, then all cosines. They count from 1. -> (T, D)"""
    half = width // 2
    frequency = np.exp(np.arange(half) * (-math.log(10_000.0) / (half - 1)))
    angles = np.arange(1, rows + 1)[:, None] * frequency
    return np.concatenate((np.sin(angles), np.cos(angles)), 1).astype(np.float32)
