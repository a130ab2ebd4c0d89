"""An array that knows what its axes are, and which token each of its places belongs to."""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from ...errors import ModelError, did_you_mean

_SHOWN = 40  # rows and columns of a table in a notebook


@dataclass(frozen=True)
class Labelled:
    """Values with a name for each axis: weights of attention are ("row", "head", "query", "key"), (B, H, T, S).

    `tokens` has the names of an axis' places: while "row" is an axis a list for each row, afterwards that of the row.
    """

    values: Tensor
    axes: tuple[str, ...]
    tokens: Mapping[str, Sequence[Any]]

    @property
    def shape(self) -> tuple[int, ...]:
        """As many as there are axes."""
        return tuple(self.values.shape)

    def select(self, **places: int) -> "Labelled":
        """What stands at some places: `weights.select(row=0, head=3)` has the axes ("query", "key").

        ModelError: no such axis, or no such place on it.
        """
        values, axes, tokens = self.values, self.axes, dict(self.tokens)
        for axis, place in places.items():
            if axis not in axes:
                raise ModelError(
                    f"{axis!r} is no axis of this array; there are {', '.join(axes)}{did_you_mean(axis, axes)}"
                )
            number = axes.index(axis)
            if not hasattr(place, "__index__"):  # which numbers of numpy have, too
                raise ModelError(f"{axis} {place!r} is not a number; expected 0 to {values.size(number) - 1}")
            if not -values.size(number) <= place < values.size(number):
                raise ModelError(f"{axis} {place} is not there; expected 0 to {values.size(number) - 1}")
            values, axes = values.select(number, place), axes[:number] + axes[number + 1 :]
            tokens.pop(axis, None)
            if axis == "row":
                tokens = {name: of_rows[place] for name, of_rows in tokens.items()}
        return Labelled(values, axes, tokens)

    def mean(self, axis: str) -> "Labelled":
        """The mean over an axis without tokens: `weights.mean("head")`."""
        if axis not in self.axes or axis == "row" or axis in self.tokens:
            known = [it for it in self.axes if it != "row" and it not in self.tokens]
            raise ModelError(f"there is no mean over {axis!r}; expected one of {', '.join(known) or 'no axis'}")
        number = self.axes.index(axis)
        return Labelled(self.values.mean(number), self.axes[:number] + self.axes[number + 1 :], self.tokens)

    def numpy(self) -> npt.NDArray[np.float32]:
        """The values alone."""
        return np.asarray(self.values.float().numpy(force=True), np.float32)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return self.numpy() if dtype is None else self.numpy().astype(dtype)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"axes": list(self.axes), "tokens": dict(self.tokens), "values": self.values.tolist()}

    def __repr__(self) -> str:
        return f"Labelled({', '.join(f'{axis} {size}' for axis, size in zip(self.axes, self.shape))})"

    def _repr_html_(self) -> str:
        """For notebooks: two axes as a table in shades, more of them as what there is to select."""
        if len(self.axes) != 2:
            return f"<code>{html.escape(repr(self))}</code>: a table once two axes are left, by <code>select</code>"
        rows, columns = (self._names(number) for number in (0, 1))
        head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
        body = "".join(
            f"<tr><th style='text-align:right'>{html.escape(name)}</th>{''.join(map(_cell, values[:_SHOWN]))}</tr>"
            for name, values in zip(rows, self.values[:_SHOWN].tolist())
        )
        long = [f"{axis}: the first {_SHOWN} of {size}" for axis, size in zip(self.axes, self.shape) if size > _SHOWN]
        return f"<table><tr><th></th>{head}</tr>{body}</table>" + f"<p>{', '.join(long)}</p>" * bool(long)

    def _names(self, number: int) -> list[str]:
        """What the places of an axis are called, as far as they are shown."""
        names = self.tokens.get(self.axes[number], range(self.shape[number]))
        return [str(name) for name in names[:_SHOWN]]


def _cell(value: float) -> str:
    """A number between 0 and 1 on a shade of blue that leaves it readable on light and dark pages."""
    shade = min(max(value, 0.0), 1.0)
    return f"<td style='background:rgba(64,128,224,{0.65 * shade:.2f})' title='{value:.6f}'>{value:.2f}</td>"
