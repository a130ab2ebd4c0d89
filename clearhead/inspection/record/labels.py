"""Arrays with named axes and labels, and the tokens that label recorded attention."""

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ...errors import ModelError, unknown
from ...model.cache import Cache

Pieces: TypeAlias = Callable[[Iterable[int]], list[str]]
Rows: TypeAlias = list[list[str]]  # the labels of each row

_SHOWN = 40  # rows and columns of a table in a notebook


@dataclass(frozen=True)
class LabelledArray:
    """Values with named axes. Attention weights have the axes ("row", "head", "query", "key"), (B, H, T, S).

    `tokens` maps an axis to the labels of its indices. While "row" is an axis, it maps to one list per row.
    """

    values: Tensor
    axes: tuple[str, ...]
    tokens: Mapping[str, Sequence[Any]]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.values.shape)

    def select(self, **indices: int) -> "LabelledArray":
        """Select one index of one or more axes: `weights.select(row=0, head=3)` has the axes ("query", "key").

        Raises:
            ModelError: there is no such axis or index.
        """
        values, axes, tokens = self.values, self.axes, dict(self.tokens)
        for axis, index in indices.items():
            if axis not in axes:
                raise unknown(f"{axis!r} isn't an axis of this array", axis, axes, "axis", ModelError)
            number = axes.index(axis)
            self._check_index(axis, index, values.size(number))
            values, axes = values.select(number, index), axes[:number] + axes[number + 1 :]
            tokens.pop(axis, None)
            if axis == "row":
                tokens = {name: of_rows[index] for name, of_rows in tokens.items()}
        return LabelledArray(values, axes, tokens)

    @staticmethod
    def _check_index(axis: str, index: object, size: int) -> None:
        whole = hasattr(index, "__index__")  # numpy's integers have it too
        if not whole or not -size <= index < size:  # type: ignore[operator]
            what = f"{axis}={index!r} isn't an index of this axis"
            raise ModelError(what, expected=f"a whole number from 0 to {size - 1}", name=axis, value=index)

    def mean(self, axis: str) -> "LabelledArray":
        """Return the mean over an axis without tokens: `weights.mean("head")`."""
        if axis not in self.axes or axis == "row" or axis in self.tokens:
            known = [it for it in self.axes if it != "row" and it not in self.tokens]
            what = f"there's no mean over {axis!r}"
            expected = f"one of {', '.join(known)}" if known else "an array with an axis that has no tokens"
            raise ModelError(what, expected=expected, name="axis", value=axis)
        number = self.axes.index(axis)
        return LabelledArray(self.values.mean(number), self.axes[:number] + self.axes[number + 1 :], self.tokens)

    def numpy(self) -> npt.NDArray[np.float32]:
        """Return the values as a NumPy array, without names and tokens."""
        return np.asarray(self.values.float().numpy(force=True), np.float32)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return self.numpy() if dtype is None else self.numpy().astype(dtype)

    def to_dict(self) -> dict[str, Any]:
        return {"axes": list(self.axes), "tokens": dict(self.tokens), "values": self.values.tolist()}

    def __repr__(self) -> str:
        return f"LabelledArray({', '.join(f'{axis} {size}' for axis, size in zip(self.axes, self.shape))})"

    def _repr_html_(self) -> str:
        """Return a shaded table for notebooks, or a hint to select if there aren't exactly two axes."""
        if len(self.axes) != 2:
            return f"<code>{html.escape(repr(self))}</code>: use <code>select</code> until two axes are left"
        rows, columns = (self._names(number) for number in (0, 1))
        head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
        body = "".join(
            f"<tr><th style='text-align:right'>{html.escape(name)}</th>{''.join(map(_cell, values[:_SHOWN]))}</tr>"
            for name, values in zip(rows, self.values[:_SHOWN].tolist())
        )
        long = [f"{axis}: the first {_SHOWN} of {size}" for axis, size in zip(self.axes, self.shape) if size > _SHOWN]
        return f"<table><tr><th></th>{head}</tr>{body}</table>" + f"<p>{', '.join(long)}</p>" * bool(long)

    def _names(self, number: int) -> list[str]:
        names = self.tokens.get(self.axes[number], range(self.shape[number]))
        return [str(name) for name in names[:_SHOWN]]


def _cell(value: float) -> str:
    """Return a table cell: a number from 0 to 1 on a shade of blue, readable on light and dark pages."""
    shade = min(max(value, 0.0), 1.0)
    return f"<td style='background:rgba(64,128,224,{0.65 * shade:.2f})' title='{value:.6f}'>{value:.2f}</td>"


class TokenLabels:
    """Labels of the inputs of both stacks, even while a search reorders its hypotheses.

    An encoder's positions have the names that its front end gives them. If it names none and its input isn't token
    ids, the labels are indices.
    """

    def __init__(self, pieces: Mapping[str, Pieces]) -> None:
        self.pieces = pieces
        self.source: Rows = []
        self.caches: dict[int, tuple[Cache, Tensor]] = {}  # by identity, with the tokens read through each cache
        self.queries: Rows = []
        self.keys: Rows = []

    def enter_encoder(self, inputs: Tensor, names: Rows | None) -> None:
        """Record the encoder's input, and the names that its front end gives to the positions."""
        if names is None:
            is_tokens = inputs.dim() == 2 and not inputs.is_floating_point()
            names = self._spell("encoder", inputs) if is_tokens else []
        self.source = self.queries = self.keys = names

    def enter_decoder(self, tokens: Tensor, cache: Cache | None) -> None:
        """Record the decoder's input together with the earlier tokens in its cache."""
        read = held = tokens
        if cache is not None:
            if (before := self._read_before(cache)) is not None:
                read = torch.cat((before, tokens), 1)
            self.caches[id(cache)] = (cache, read)
            indices = read.size(1) - 1 - cache.ages(tokens.size(1))
            held = read[:, indices] if int(indices.min()) >= 0 else read[:, :0]  # the cache was filled before
        self.queries, self.keys = self._spell("decoder", tokens), self._spell("decoder", held)

    def of_weights(self, name: str, weights: Tensor) -> dict[str, Rows]:
        """Return the labels of queries and keys for each row: tokens if their number matches, or else indices."""
        rows, _, n_queries, n_keys = weights.shape
        queries, keys = self.queries, self.keys
        if name.endswith(".cross"):
            keys = self.source
            beams = max(len(queries) // rows, 1)  # the hypotheses of one source are neighbours
            queries = [[*chain(*queries[row : row + beams])] for row in range(0, len(queries), beams)]
        return {"query": _fitting(queries, rows, n_queries), "key": _fitting(keys, rows, n_keys)}

    def release(self) -> None:
        """Stop tracking caches."""
        for cache, _ in self.caches.values():
            for name in ("select", "select_memory"):  # restores the methods of the class
                vars(cache).pop(name, None)

    def _read_before(self, cache: Cache) -> Tensor | None:
        """Return the tokens read through a cache, or None for a new cache, which is tracked from now on."""
        if id(cache) in self.caches:
            return self.caches[id(cache)][1]
        select, select_memory = cache.select, cache.select_memory

        def select_and_follow(rows: Tensor) -> None:
            select(rows)
            self.caches[id(cache)] = (cache, self.caches[id(cache)][1].index_select(0, rows))

        def select_memory_and_follow(sources: Tensor, length: int | None = None) -> None:
            select_memory(sources, length)
            self.source = [self.source[i][:length] for i in sources.tolist()] if self.source else []

        cache.select, cache.select_memory = select_and_follow, select_memory_and_follow  # type: ignore[method-assign]
        return None

    def _spell(self, stack: str, tokens: Tensor) -> Rows:
        spell = self.pieces.get(stack)
        return [list(map(str, ids)) if spell is None else list(spell(ids)) for ids in tokens.tolist()]


def _fitting(labels: Rows, rows: int, size: int) -> Rows:
    fits = len(labels) == rows and all(len(row) == size for row in labels)
    return labels if fits else [[str(index) for index in range(size)]] * rows
