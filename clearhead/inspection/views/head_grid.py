"""Render all heads of an attention module as small maps, with each head's entropy and strongest link."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from rich.cells import cell_len
from torch import Tensor

from ..record.labels import LabelledArray
from .text_columns import WIDTH, cut, left, wrapped

_LABEL, _NAMED = 10, 11  # terminal columns of a token next to its row, and in a sentence
_TITLE = 7  # columns of "head 10"
_SHADES = " ·░▒▓█"  # from 0 to 1
# The same levels as background colours of a 256-colour terminal. Darker means more, also on a dark screen.
_BLUES = (255, 153, 111, 69, 27, 18)


@dataclass(frozen=True)
class Head:
    """A head's mean entropy in bits, and its strongest link among queries that may attend to several keys.

    The entropy is 0 if each query attends to a single key.
    """

    number: int
    entropy: float
    query: str
    key: str
    weight: float

    def to_dict(self) -> dict[str, Any]:
        return {"head": self.number, "entropy": self.entropy, "strongest": [self.query, self.key, self.weight]}


def heads_of(weights: LabelledArray) -> list[Head]:
    """Return a description of each head, from weights with axes head, query, key."""
    found, choice = [], _n_visible(weights) > 1
    for number in range(weights.shape[0]):
        one = weights.select(head=number)
        w = one.values.double()
        entropy = float(-(w * w.clamp(min=1e-300).log2()).sum(-1).mean())
        chosen = w.masked_fill(~choice.to(w.device)[:, None], -1.0) if choice.any() else w
        query, key = divmod(int(chosen.argmax()), w.size(1))
        names = one.tokens["query"][query], one.tokens["key"][key]
        found.append(Head(number, max(0.0, entropy), *names, float(w[query, key])))
    return found


def _n_visible(weights: LabelledArray) -> Tensor:
    """Return the number of keys that each query may attend to: in causal attention, those up to itself. -> (T,)"""
    _, n_queries, n_keys = weights.shape
    queries, keys = weights.tokens["query"], weights.tokens["key"]
    causal = list(queries) == list(keys[:n_queries]) and not weights.values.triu(1).any()
    return torch.arange(1, n_queries + 1) if causal else torch.full((n_queries,), n_keys)


def render_keys(weights: LabelledArray) -> list[str]:
    """Return lines that list the keys, or none if the keys equal the queries, which label the rows anyway."""
    queries, keys = weights.tokens["query"], weights.tokens["key"]
    if list(queries) == list(keys):
        return []
    return list(wrapped("keys, from left to right: ", keys))


def render_heads(name: str, weights: LabelledArray, *, color: bool = False, of: int | None = None) -> str:
    """Render the heads side by side in 80 columns, followed by a line about each head.

    Args:
        name: the name of the attention module.
        weights: attention weights with axes head, query, key. In a map, rows are queries and columns are keys.
        color: use background colours instead of characters from blank to full blocks.
        of: the total number of queries, if `weights` contains only the first ones.
    """
    n_heads, n_queries, n_keys = weights.shape
    label = min(_LABEL, max(map(cell_len, weights.tokens["query"]), default=0)) + 1
    bars, gap = (0, "  ") if color else (2, " ")
    label = label if label + n_keys + bars <= WIDTH else 0
    shown = min(n_keys, WIDTH - 2)
    wide = max(shown + bars, _TITLE)
    across = max(1, min(n_heads, (WIDTH - label + len(gap)) // (wide + len(gap))))
    scale = "darker" if color else "denser"
    lines = [f"{name}: {n_heads} heads; rows: {of or n_queries} queries, columns: {n_keys} keys; {scale} is more"]
    if n_queries < (of or n_queries):
        lines.append(f"(the first {n_queries} of {of} queries)")
    if shown < n_keys:
        lines.append(f"(the first {shown} of {n_keys} keys)")
    labels = [left(token, label - 1) + " " if label else "" for token in weights.tokens["query"]]
    for first in range(0, n_heads, across):
        numbers = range(first, min(first + across, n_heads))
        titles = gap.join(f"{f'head {number}':<{wide}}" for number in numbers)
        lines += ["", (" " * label + titles).rstrip()]
        pictures = [_picture(weights.select(head=number), shown, color=color) for number in numbers]
        lines += [(token + gap.join(row)).rstrip() for token, row in zip(labels, zip(*pictures))]
    lines.append("")
    most = float(_n_visible(weights).double().log2().mean())
    for head in heads_of(weights):
        link = f'"{cut(head.query, _NAMED)}" to "{cut(head.key, _NAMED)}" ({head.weight:.2f})'
        lines.append(f"head {head.number}: entropy {head.entropy:.2f} of {most:.2f} bits; strongest: {link}")
    return "\n".join(lines)


def _picture(one: LabelledArray, shown: int, *, color: bool) -> list[str]:
    pad = " " * (_TITLE - shown - (0 if color else 2))
    return [shaded(values[:shown], color=color) + pad for values in one.values.tolist()]


def shaded(values: Sequence[float], *, color: bool) -> str:
    """Return a character or a coloured space for each value from 0 to 1, between bars if there are no colours."""
    levels = [min(round(value * (len(_SHADES) - 1) + 0.4 * (value > 0.02)), len(_SHADES) - 1) for value in values]
    if not color:
        return f"│{''.join(_SHADES[level] for level in levels)}│"
    blocks = (f"\x1b[48;5;{_BLUES[level]}m{' ' * len([*same])}" for level, same in groupby(levels))
    return f"{''.join(blocks)}\x1b[0m"
