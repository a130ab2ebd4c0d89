"""All heads of an attention at a glance: each as a small picture of blocks, with its entropy and what it looks at."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .labelled import Labelled

_WIDTH = 80
_SHADES = " ·░▒▓█"  # from 0 to 1
_BLUES = (None, 153, 111, 75, 33, 27)  # of the 256 colours of a terminal, for the same


@dataclass(frozen=True)
class Head:
    """One head: the mean entropy of its rows in bits, 0 where each looks at one key, and its strongest look."""

    number: int
    entropy: float
    query: str
    key: str
    weight: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"head": self.number, "entropy": self.entropy, "strongest": [self.query, self.key, self.weight]}


def heads_of(weights: Labelled) -> list[Head]:
    """What can be said of each head, from weights with the axes head, query, key."""
    found = []
    for number in range(weights.shape[0]):
        one = weights.select(head=number)
        w = one.values.double()
        entropy = float(-(w * w.clamp(min=1e-300).log2()).sum(-1).mean())
        query, key = divmod(int(w.argmax()), w.size(1))
        names = one.tokens["query"][query], one.tokens["key"][key]
        found.append(Head(number, max(0.0, entropy), *names, float(w[query, key])))
    return found


def render_heads(name: str, weights: Labelled, *, color: bool = False) -> str:
    """The heads beside each other, as many as 80 columns have room for, and below a line of words for each.

    A row of a picture is a query, a column a key; darker is more.
    """
    n_heads, _, n_keys = weights.shape
    across = max(1, min(n_heads, (_WIDTH + 2) // (max(n_keys, 7) + 2)))
    shown = min(n_keys, _WIDTH - 2)
    queries, keys = weights.tokens["query"], weights.tokens["key"]
    lines = [f"{name}: {n_heads} heads, rows are {len(queries)} queries, columns {len(keys)} keys, darker is more"]
    if shown < n_keys:
        lines.append(f"(the first {shown} of {n_keys} keys)")
    for first in range(0, n_heads, across):
        numbers = range(first, min(first + across, n_heads))
        lines += ["", "  ".join(f"{f'head {number}':<{max(shown, 7)}}" for number in numbers).rstrip()]
        pictures = [_picture(weights.select(head=number), shown, color=color) for number in numbers]
        lines += ["  ".join(row).rstrip() for row in zip(*pictures)]
    lines.append("")
    most = math.log2(n_keys) if n_keys > 1 else 0.0
    for head in heads_of(weights):
        look = f'"{head.query}" at "{head.key}" ({head.weight:.2f})'
        lines.append(f"head {head.number}: entropy {head.entropy:.2f} of {most:.2f} bits; looks most: {look}")
    return "\n".join(lines)


def _picture(one: Labelled, shown: int, *, color: bool) -> list[str]:
    return [_row(values[:shown], color=color) for values in one.values.tolist()]


def _row(values: Sequence[float], *, color: bool) -> str:
    levels = [min(round(value * (len(_SHADES) - 1) + 0.4 * (value > 0.02)), len(_SHADES) - 1) for value in values]
    pad = " " * max(7 - len(values), 0)
    if not color:
        return "".join(_SHADES[level] for level in levels) + pad
    cells = [" " if _BLUES[level] is None else f"\x1b[48;5;{_BLUES[level]}m \x1b[0m" for level in levels]
    return "".join(cells) + pad
