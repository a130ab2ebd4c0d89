"""CTranslate2's file model.bin: a version, the name of a specification, variables, and other names for them.

`Variables` makes settings and matrices of what was read.

Integers are little-endian, and a text is its length as u16, its bytes and a NUL.
"""

import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...errors import ModelError, shortened
from ...folder.manifest import read_bytes

Arrays: TypeAlias = Mapping[str, NDArray[Any]]

_VERSION, _OLDEST = 6, 2
_WITH_ALIASES, _WITH_TYPES = 3, 4  # the versions that introduced them
_BFLOAT16 = 5  # the number of a type that numpy lacks
_TYPES: tuple[Any, ...] = (
    np.float32,
    np.int8,
    np.int16,
    np.int32,
    np.float16,
    np.uint16,
)  # in the order of their numbers
_OLD_TYPES = {4: 0, 2: 2, 1: 1}  # by the size of a number


def read_binary(path: Path) -> tuple[str, Arrays]:
    """Return the name of a file's specification, and its variables. Two names of one variable are two keys.

    Raises:
        ModelError: it can't be read, is damaged, or has a version that isn't supported.
    """
    try:
        return _Reader(read_bytes(path)).read(path)
    except (struct.error, ValueError, IndexError, KeyError) as error:
        what, fix = f"{path} is damaged: {error}", "copy the file again"
        raise ModelError(what, expected="a model of CTranslate2", fix=fix, name=path.name) from error


def write_binary(name: str, revision: int, variables: Arrays, aliases: Mapping[str, str]) -> bytes:
    """Return the content of a file in the newest version.

    Args:
        name: the name of the specification.
        revision: its revision.
        variables: the variables.
        aliases: other names, and the variable of each.
    """
    parts = [struct.pack("<I", _VERSION), _text(name), struct.pack("<II", revision, len(variables))]
    for each, value in sorted(variables.items()):
        kind, data = _TYPES.index(value.dtype.type), value.astype(value.dtype.newbyteorder("<")).tobytes()
        shape = struct.pack(f"<B{value.ndim}I", value.ndim, *value.shape)
        parts += [_text(each), shape, struct.pack("<BI", kind, len(data)), data]
    parts.append(struct.pack("<I", len(aliases)))
    parts += [_text(text) for pair in sorted(aliases.items()) for text in pair]
    return b"".join(parts)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def read(self, path: Path) -> tuple[str, Arrays]:
        version = self.number("I")
        if not _OLDEST <= version <= _VERSION:
            what, expected = f"{path} is in version {version} of CTranslate2's form", f"version {_OLDEST} to {_VERSION}"
            fix = "convert the model again with a current version of CTranslate2"
            raise ModelError(what, expected=expected, fix=fix, name="version", value=version)
        name, _revision, count = self.text(), self.number("I"), self.number("I")
        variables = dict(self.variable(version) for _ in range(count))
        if version >= _WITH_ALIASES:
            for _ in range(self.number("I")):
                alias, original = self.text(), self.text()
                variables[alias] = variables[original]
                if (scale := f"{original}_scale") in variables:
                    variables[f"{alias}_scale"] = variables[scale]
        return name, variables

    def variable(self, version: int) -> tuple[str, NDArray[Any]]:
        name, rank = self.text(), self.number("B")
        shape = [self.number("I") for _ in range(rank)]
        kind, count = self.number("B"), self.number("I")
        if version < _WITH_TYPES:
            count *= kind
            kind = _OLD_TYPES[kind]
        start, self.at = self.at, self.at + count
        dtype = np.dtype(_TYPES[kind]).newbyteorder("<")
        found = np.frombuffer(self.data[start : self.at], dtype).reshape(shape)
        if kind == _BFLOAT16:  # the upper half of a float32
            found = (found.astype(np.uint32) << 16).view(np.float32)
        return name, found

    def number(self, kind: str) -> int:
        (found,) = struct.unpack_from(f"<{kind}", self.data, self.at)
        self.at += struct.calcsize(f"<{kind}")
        return int(found)

    def text(self) -> str:
        length = self.number("H")
        start, self.at = self.at, self.at + length
        return self.data[start : self.at].decode().removesuffix("\0")


def _text(text: str) -> bytes:
    data = text.encode() + b"\0"
    return struct.pack("<H", len(data)) + data


# --- settings and matrices

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
        """Return a number of a stack. Old revisions store one for both.

        Args:
            stack: encoder or decoder.
            name: what follows the stack in the variable's name, such as "num_heads".
            default: the value if there's no such variable.
        """
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
        """Return a table of positions: the one that's stored, or else the one that CTranslate2 computes. -> (T, D)

        Args:
            name: the name of the table.
            rows: the positions to compute.
            width: the width of each row, if it's computed.
        """
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
            what = f"{self.path} has {len(left)} variables that aren't supported: {shortened(left)}"
            raise ModelError(what, expected="those of a Transformer", name=left[0])


def generated_table(rows: int, width: int) -> NDArray[np.float32]:
    """Return CTranslate2's positions: all sines, then all cosines. They count from 1. -> (T, D)"""
    half = width // 2
    frequency = np.exp(np.arange(half) * (-math.log(10_000.0) / (half - 1)))
    angles = np.arange(1, rows + 1)[:, None] * frequency
    return np.concatenate((np.sin(angles), np.cos(angles)), 1).astype(np.float32)
