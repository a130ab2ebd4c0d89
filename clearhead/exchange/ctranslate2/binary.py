"""CTranslate2's file model.bin: a version, the name of a specification, variables, and other names for them.

Integers are little-endian, and a text is its length as u16, its bytes and a NUL.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...errors import ModelError
from ...folder.manifest import read_bytes

Variables: TypeAlias = Mapping[str, NDArray[Any]]

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


@dataclass(frozen=True)
class Binary:
    """The content of a file.

    Attributes:
        version: the version of the form.
        name: the name of the specification.
        revision: the revision of the specification.
        variables: all variables. Two names of one variable are two keys.
    """

    version: int
    name: str
    revision: int
    variables: Variables


def read_binary(path: Path) -> Binary:
    """Read a file.

    Raises:
        ModelError: it can't be read, is damaged, or has a version that isn't supported.
    """
    try:
        return _Reader(read_bytes(path)).read(path)
    except (struct.error, ValueError, IndexError, KeyError) as error:
        raise ModelError(
            f"{path} is damaged: {error}", expected="a model of CTranslate2", fix="copy the file again", name=path.name
        ) from error


def write_binary(name: str, revision: int, variables: Variables, aliases: Mapping[str, str]) -> bytes:
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

    def read(self, path: Path) -> Binary:
        version = self.number("I")
        if not _OLDEST <= version <= _VERSION:
            raise ModelError(
                f"{path} is in version {version} of CTranslate2's form",
                expected=f"version {_OLDEST} to {_VERSION}",
                fix="convert the model again with a current version of CTranslate2",
                name="version",
                value=version,
            )
        name, revision, count = self.text(), self.number("I"), self.number("I")
        variables = dict(self.variable(version) for _ in range(count))
        if version >= _WITH_ALIASES:
            for _ in range(self.number("I")):
                alias, original = self.text(), self.text()
                variables[alias] = variables[original]
                if (scale := f"{original}_scale") in variables:
                    variables[f"{alias}_scale"] = variables[scale]
        return Binary(version, name, revision, variables)

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
