"""Array with named axes, whose indices are labelled with tokens."""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from ...errors import ModelError, suggestion

_SHOWN = 40  # rows and columns of a table in a notebook


@dataclass(frozen=True)
class Labelled:
    """Values with named axes. Attention weights have the axes ("row", "head", "query", "key"), (B, H, T, S).

    `tokens` maps an axis to the labels of its indices. While "row" is an axis, it maps to one list per row.
    """

    values: Tensor
    axes: tuple[str, ...]
    tokens: Mapping[str, Sequence[Any]]

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each axis."""
        return tuple(self.values.shape)

    def select(self, **indices: int) -> "Labelled":
        """Select one index of one or more axes: `weights.select(row=0, head=3)` has the axes ("query", "key").

        Raises:
            ModelError: there is no such axis or index.
        """
        values, axes, tokens = self.values, self.axes, dict(self.tokens)
        for axis, index in indices.items():
            if axis not in axes:
                raise ModelError(
                    f"{axis!r} isn't an axis of this array",
                    expected=", ".join(axes),
                    fix=suggestion(axis, axes),
                    name="axis",
                    value=axis,
                )
            number = axes.index(axis)
            self._check_index(axis, index, values.size(number))
            values, axes = values.select(number, index), axes[:number] + axes[number + 1 :]
            tokens.pop(axis, None)
            if axis == "row":
                tokens = {name: of_rows[index] for name, of_rows in tokens.items()}
        return Labelled(values, axes, tokens)

    @staticmethod
    def _check_index(axis: str, index: object, size: int) -> None:
        whole = hasattr(index, "__index__")  # numpy's integers have it too
        if not whole or not -size <= index < size:  # type: ignore[operator]
            raise ModelError(
                f"{axis}={index!r} isn't an index of this axis",
                expected=f"a whole number from 0 to {size - 1}",
                name=axis,
                value=index,
            )

    def mean(self, axis: str) -> "Labelled":
        """Return the mean over an axis without tokens: `weights.mean("head")`."""
        if axis not in self.axes or axis == "row" or axis in self.tokens:
            known = [it for it in self.axes if it != "row" and it not in self.tokens]
            raise ModelError(
                f"there's no mean over {axis!r}",
                expected=f"one of {', '.join(known)}" if known else "an array with an axis that has no tokens",
                name="axis",
                value=axis,
            )
        number = self.axes.index(axis)
        return Labelled(self.values.mean(number), self.axes[:number] + self.axes[number + 1 :], self.tokens)

    def numpy(self) -> npt.NDArray[np.float32]:
        """Return the values as a NumPy array, without names and tokens."""
        return np.asarray(self.values.float().numpy(force=True), np.float32)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return self.numpy() if dtype is None else self.numpy().astype(dtype)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"axes": list(self.axes), "tokens": dict(self.tokens), "values": self.values.tolist()}

    def __repr__(self) -> str:
        return f"Labelled({', '.join(f'{axis} {size}' for axis, size in zip(self.axes, self.shape))})"

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
