"""Weights in another program's files: how they're read, and their names. One table of names serves import and export.

Tensors are read one at a time from safetensors files. Nothing else is read: pickled weights could run code.

A name can contain {}, which stands for the number of a block. What a table says about a weight holds for the bias of
the same layer too, with .bias in place of .weight.
"""

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from ..errors import ModelError, shortened
from ..folder.manifest import read_json_object

_WHOLE, _INDEX = "model.safetensors", "model.safetensors.index.json"
_PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt")
AGAIN = "download the folder again"
_OLDER = {"gamma": "weight", "beta": "bias"}


class Tensors(Protocol):
    """Named tensors that are read when asked for, such as those of a safetensors file."""

    def names(self) -> Sequence[str]:
        """Return all names."""

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor, without reading it."""

    def read(self, name: str) -> Tensor:
        """Read a tensor."""


class SafetensorsFiles:
    """The tensors of a folder with model.safetensors, or with several files and an index of them.

    Raises:
        ModelError: there are no such files, or one is missing or damaged.
    """

    def __init__(self, folder: Path) -> None:
        self._files: dict[str, Any] = {}  # of each tensor
        self._stack = ExitStack()
        for path in _paths(folder):
            try:
                file = self._stack.enter_context(safe_open(path, "pt"))
                self._files |= dict.fromkeys(file.keys(), file)
            except (SafetensorError, OSError) as error:
                raise ModelError(f"can't read {path}: {error}", fix=AGAIN, name=path.name) from error

    def names(self) -> Sequence[str]:
        return list(self._files)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._files[name].get_slice(name).get_shape())

    def read(self, name: str) -> Tensor:
        """Read a tensor. Its numbers stay in the file until they are used."""
        return self._files[name].get_tensor(name)


@dataclass(frozen=True)
class TensorsInMemory:
    """Tensors that have been read."""

    tensors: Mapping[str, Tensor]

    def names(self) -> Sequence[str]:
        return list(self.tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.tensors[name].shape)

    def read(self, name: str) -> Tensor:
        return self.tensors[name]


def _paths(folder: Path) -> list[Path]:
    if (folder / _WHOLE).is_file():
        return [folder / _WHOLE]
    index = folder / _INDEX
    if index.is_file():
        parts = read_json_object(index).get("weight_map")
        named = isinstance(parts, dict) and all(isinstance(it, str) and Path(it).name == it for it in parts.values())
        if not isinstance(parts, dict) or not named:
            raise ModelError(f"{index} is damaged", expected='"weight_map" with file names', fix=AGAIN, name=_INDEX)
        return [folder / name for name in sorted(set(parts.values()))]
    pickled = sorted(path.name for pattern in _PICKLED for path in folder.glob(pattern))
    if pickled:
        what = f"{folder} has its weights in {pickled[0]}, a pickle, which could run any code when it is read"
        fix = "convert it where you trust it: AutoModel.from_pretrained(DIR).save_pretrained(NEW_DIR)"
        raise ModelError(what, expected=_WHOLE, fix=fix, name=pickled[0])
    raise ModelError(f"{folder} has no weights", expected=f"{_WHOLE} or {_INDEX}", name="folder", value=folder)


@dataclass(frozen=True)
class Name:
    """A weight of ours, and the weights of theirs that it's made of.

    Args:
        theirs: their names. Several are stacked along the first dimension, as in `Linear`.
        transposed: whether their matrices have a row for each input and not for each output.
        skipped: rows at the start of their table that have no counterpart in ours. Exported rows are zero.
        splits: the rows of each of `theirs` (default: equal parts).
        shapes: the shapes of ours and of theirs, if the same numbers are in other dimensions.
        added: a table of theirs whose first row is added to every row of ours. Exported, it's one row of zeros.
        head: whether theirs belong to a head, so their names lack the prefix of the others.
        also: other names of a weight of theirs that is tied. Their files have it under one or several.
        zero: whether it's zero if their files lack it.
    """

    ours: str
    theirs: tuple[str, ...]
    transposed: bool = False
    skipped: int = 0
    splits: tuple[int, ...] = ()
    shapes: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    added: str = ""
    head: bool = False
    also: tuple[str, ...] = ()
    zero: bool = False

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of all weights of theirs."""
        return (*self.theirs, self.added) if self.added else self.theirs

    def at(self, block: int) -> "Name":
        """Return the names in the block of this number."""
        return replace(self, ours=self.ours.format(block), theirs=tuple(it.format(block) for it in self.theirs))

    def bias(self) -> "Name":
        """Return the names of the layer's bias, which has one dimension."""
        theirs = tuple(_bias(it) for it in self.theirs)
        return Name(_bias(self.ours), theirs, splits=self.splits, head=self.head)

    def sources_in(self, known: Container[str]) -> tuple[str, ...]:
        """Return the names of all weights of theirs in files that have these."""
        others = [] if self.theirs[0] in known else [it for it in self.also if it in known]
        return (others[0],) if others else self.sources

    def ours_from(self, theirs: Sequence[Tensor]) -> Tensor:
        """Return our tensor, made of `sources`."""
        parts = [it.T if self.transposed and it.dim() == 2 else it for it in theirs[: len(self.theirs)]]
        found = (parts[0] if len(parts) == 1 else torch.cat(parts))[self.skipped :]
        found = found + theirs[-1][0] if self.added else found
        return found.reshape(self.shapes[0]) if self.shapes else found

    def theirs_from(self, ours: Tensor) -> list[Tensor]:
        """Return their tensors, one for each of `sources`."""
        ours = ours.reshape(self.shapes[1]) if self.shapes else ours
        if self.skipped:
            ours = torch.cat((ours.new_zeros(self.skipped, *ours.shape[1:]), ours))
        parts = ours.split(self.splits or ours.size(0) // len(self.theirs))
        found = [it.T.contiguous() if self.transposed else it for it in parts]
        return [*found, ours.new_zeros(1, ours.size(1))] if self.added else found


def blocks(n: int, names: Iterable[Name]) -> list[Name]:
    """Return the names of n blocks."""
    each = list(names)
    return [name.at(block) for block in range(n) for name in each]


def to_ours(names: Iterable[Name], theirs: Tensors, prefix: str = "") -> tuple[dict[str, Tensor], list[str]]:
    """Return the weights of our model, and the plain names of their weights that weren't used.

    Args:
        names: the names of all weights of our model. Biases are found by themselves.
        prefix: what their names begin with, if the model has a head that the names leave out.

    Raises:
        ModelError: weights are missing.
    """
    known = {plain_name(it, prefix): it for it in theirs.names()}
    found: dict[str, Tensor] = {}
    used: set[str] = set()
    missing: list[str] = []
    for name in _with_biases(names, known):
        there = name.sources_in(known)
        absent = [it for it in there if it not in known]
        if not absent:
            try:
                found[name.ours] = name.ours_from([theirs.read(known[it]) for it in there])
            except (RuntimeError, IndexError) as error:  # parts can't be joined or reshaped
                shapes = " and ".join(str(theirs.shape(known[it])) for it in there)
                what = f"{' and '.join(there)} have shapes that don't fit: {shapes}"
                expected = "the shapes that config.json describes"
                raise ModelError(what, expected=expected, fix=AGAIN, name=there[0]) from error
            used.update(there, name.also)
        elif name.zero and name.shapes:
            found[name.ours] = torch.zeros(name.shapes[0])
        else:
            missing += absent
    if missing:
        what, expected = f"weights are missing: {shortened(missing)}", "the weights that config.json describes"
        raise ModelError(what, expected=expected, fix=AGAIN, name=missing[0])
    return found, [it for it in known if it not in used]


def to_theirs(names: Iterable[Name], ours: Mapping[str, Tensor], prefix: str = "") -> dict[str, Tensor]:
    """Return their weights. Weights of ours that `ours` lacks, such as biases, are left out, and so are tied copies.

    Args:
        names: the names of all weights of our model. Biases are found by themselves.
        ours: our weights.
        prefix: what their names begin with, except those of a head.

    Raises:
        ModelError: a weight has no counterpart.
    """
    found: dict[str, Tensor] = {}
    left = dict(ours)
    for name in names:
        for it in (name, name.bias()) if name.ours.endswith(".weight") else (name,):
            if it.ours in left:
                own = "" if it.head else prefix
                found |= zip((own + theirs for theirs in it.sources), it.theirs_from(left.pop(it.ours)))
    used = {it.data_ptr() for name, it in ours.items() if name not in left}
    left = {name: it for name, it in left.items() if it.data_ptr() not in used}
    if left:
        raise ModelError(f"{next(iter(left))} has no counterpart", name=next(iter(left)))
    return found


def plain_name(name: str, prefix: str) -> str:
    """Return a name without the prefix, and in the spelling of today: norms had gamma and beta once."""
    stem, _, last = name.removeprefix(prefix).rpartition(".")
    return f"{stem}.{_OLDER.get(last, last)}" if stem else last


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a name matches one of the patterns, in which {} stands for a number."""
    return any(re.fullmatch(re.escape(it).replace(r"\{\}", r"\d+"), name) for it in patterns)


def _with_biases(names: Iterable[Name], known: Mapping[str, str]) -> Iterator[Name]:
    for name in names:
        yield name
        if name.ours.endswith(".weight") and any(it in known for it in name.bias().theirs):
            yield name.bias()


def _bias(name: str) -> str:
    return f"{name.removesuffix('.weight')}.bias"
