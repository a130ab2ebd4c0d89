"""The record of what passed through a model: the one thing that every view of its inside is drawn from."""

import html
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ...config.values import finite
from ...errors import ConfigError, did_you_mean
from ...folder.atomic import write_file, writing
from ...pictures.figures import attention_heatmap
from .calls import Attention, Passed, Summary, about

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMAT_VERSION = 1  # of `Trace.to_dict` and of its files


@dataclass
class Trace:
    """Every call of every part, in order, under the names of the parts.

    `trace["decoder.0.cross"]` is the latest call of a place; `calls` has all those of attention and `parts` those of
    all else, by name. `cache_lengths` are the tokens that the decoder held before each of its runs with a cache.
    `summaries` are calls beyond the `limit` of bytes, of which only a summary was kept. `lifted` are parts that had
    been compiled, and ran as the plain twins that they are made of; `lifted_difference` is the largest difference to
    what the compiled ones make of the same inputs, or None where there was none, or none could be had. `off` are the
    parts that `without` had switched off.
    """

    limit: int | None = None
    calls: dict[str, list[Attention]] = field(default_factory=dict)
    parts: dict[str, list[Passed]] = field(default_factory=dict)
    summaries: list[Summary] = field(default_factory=list)
    cache_lengths: list[int] = field(default_factory=list)
    lifted: list[str] = field(default_factory=list)
    lifted_difference: float | None = None
    off: list[str] = field(default_factory=list)
    nbytes: int = 0

    def __getitem__(self, name: str) -> Any:
        """The latest call of a place, an `Attention` or a `Passed`."""
        found = self.calls.get(name) or self.parts.get(name)
        if not found:
            if any(it.name == name for it in self.summaries):
                raise KeyError(f"{name!r} had no room within the limit of {self.limit:,} bytes; see trace.summaries")
            known = list(self)
            some = ", ".join(list(self.calls) or known) or "none"
            raise KeyError(f"{name!r} was not recorded; there are {some}{did_you_mean(name, known)}")
        return found[-1]

    def __iter__(self) -> Iterator[str]:
        """All names."""
        return iter([*self.parts, *self.calls])

    def __len__(self) -> int:
        return len(self.parts) + len(self.calls)

    @property
    def largest_difference(self) -> float:
        """Of all recomputed outputs of attention to the model's own."""
        return max((it.largest_difference for of_place in self.calls.values() for it in of_place), default=0.0)

    def about_run(self) -> str:
        """In words, what was not as ever: parts that were off, compiled ones that ran as they are written, and what
        that changed; empty where all was."""
        said = [f"Recorded without {', '.join(self.off)}."] if self.off else []
        if self.lifted:
            said.append(f"Compiled parts ran as they are written: {', '.join(self.lifted)}.")
            if self.lifted_difference is None:
                said.append("How far the compiled ones are from that could not be measured.")
            else:
                said.append(f"Given the same, the compiled ones differ by at most {self.lifted_difference:.1e}.")
        return " ".join(said)

    def residuals(self) -> list[tuple[str, float, float]]:
        """Of each residual connection, latest call: its name, and the mean length of a token's vector before and after
        it. What the sub-layer added is the call of that."""
        latest = [of_place[-1] for of_place in self.parts.values() if of_place[-1].kind == "AddNorm"]
        return [(it.name, _length(it.inputs[0]), _length(it.output)) for it in latest]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, everything."""
        return {
            "format_version": FORMAT_VERSION,
            "kind": "trace",
            "attention": [it.to_dict() for of_place in self.calls.values() for it in of_place],
            "parts": [it.to_dict() for of_place in self.parts.values() for it in of_place],
            "summaries": [vars(it) | {"shape": list(it.shape)} for it in self.summaries],
            "cache_lengths": self.cache_lengths,
            "lifted": self.lifted,
            "lifted_difference": self.lifted_difference,
            "off": self.off,
            "largest_difference": self.largest_difference,
        }

    def save(self, path: str | Path) -> None:
        """Write everything to a file: `.json`, where what is no number is null, or `.npz` with the arrays as
        "decoder.0.cross/0/weights", the number counting the calls of a place, and "about", the rest as JSON.

        ConfigError: another ending.
        """
        path = Path(path)
        with writing(path.parent, again="save again"):
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".json":
                write_file(path, json.dumps(finite(self.to_dict()), ensure_ascii=False, allow_nan=False).encode())
            elif path.suffix == ".npz":
                with path.open("wb") as file:
                    np.savez_compressed(file, allow_pickle=False, **self._arrays())
            else:
                raise ConfigError(f"{path} has the ending {path.suffix!r}; expected .json or .npz")

    def _arrays(self) -> dict[str, Any]:
        everything: dict[str, Sequence[Passed | Attention]] = {**self.parts, **self.calls}
        found = {
            f"{place}/{number}/{name}": _array(values)
            for place, of_place in everything.items()
            for number, call in enumerate(of_place)
            for name, values in call.arrays().items()
        }
        rest = {
            "format_version": FORMAT_VERSION,
            "kind": "trace",
            "calls": [about(call) for of_place in everything.values() for call in of_place],
            "summaries": [vars(it) for it in self.summaries],
            "cache_lengths": self.cache_lengths,
            "lifted": self.lifted,
            "lifted_difference": self.lifted_difference,
            "off": self.off,
        }
        return found | {"about": np.array(json.dumps(finite(rest), allow_nan=False))}

    def plot(self, name: str, path: str | Path | None = None, *, row: int = 0, head: int | None = None) -> "Figure":
        """The weights of a place as a picture, of all heads or one; written to a file where a path is given.

        ConfigError: matplotlib is not installed. KeyError: no attention of that name was recorded.
        """
        if name not in self.calls:
            raise KeyError(f"{name!r} is no attention that was recorded; there are {', '.join(self.calls) or 'none'}")
        weights = self.calls[name][-1].weights.select(row=row)
        shown = weights if head is None else weights.select(head=head)
        title = name if head is None else f"{name}, head {head}"
        return attention_heatmap(
            shown.numpy(), weights.tokens["key"], weights.tokens["query"], None if path is None else Path(path), title
        )

    def __repr__(self) -> str:
        calls = sum(map(len, self.calls.values())) + sum(map(len, self.parts.values()))
        more = f", {len(self.summaries):,} calls summarised" if self.summaries else ""
        return f"Trace({len(self)} parts, {calls:,} calls, {self.nbytes / 1e6:.1f} MB{more})"

    def _repr_html_(self) -> str:
        """For notebooks: every part with the shape and the size of what it gave."""
        rows = []
        for name in self:
            call = self[name]
            x, times = call.output, len(self.calls.get(name) or self.parts[name])
            shape = " x ".join(map(str, x.shape)) + (f", {times} times" if times > 1 else "")
            cells = (name, call.kind, shape, f"{_length(x):.3f}", f"{1000 * call.seconds:.2f}")
            rows.append("<tr>" + "".join(map(_cell, range(len(cells)), cells)) + "</tr>")
        head = "".join(_cell(n, it, "th") for n, it in enumerate(("part", "class", "output", "mean length", "ms")))
        table = f"<table><tr>{head}</tr>{''.join(rows)}</table>"
        return f"<p><code>{html.escape(repr(self))}</code></p><div style='max-height:30em;overflow:auto'>{table}</div>"


def _cell(column: int, text: str, kind: str = "td") -> str:
    """A cell of a table, names at the left and numbers at the right."""
    return f"<{kind} style='text-align:{'left' if column < 3 else 'right'}'>{html.escape(text)}</{kind}>"


def _array(x: Tensor) -> Any:
    return (x.float() if x.dtype == torch.bfloat16 else x).numpy(force=True)


def _length(x: Tensor) -> float:
    """The mean length of the vectors of the last axis."""
    return float(x.double().norm(dim=-1).mean()) if x.numel() else math.nan
