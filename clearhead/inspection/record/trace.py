"""Trace: the record of a forward pass, on which all views are based."""

import html
import io
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ...config.values import finite
from ...errors import ConfigError, suggestion
from ...folder.atomic import save_file
from ...pictures.figures import attention_heatmap
from .calls import AttentionCall, PartCall, Summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMAT_VERSION = 2  # of `Trace.to_dict` and of saved files


@dataclass
class Trace:
    """Every call of every part, in order, keyed by part name. `trace["decoder.0.cross"]` is the latest call.

    Attributes:
        limit: maximum size of the record, in bytes.
        calls: the calls of attention modules.
        parts: the calls of all other parts.
        summaries: summaries of the calls that didn't fit within the limit.
        cache_lengths: number of tokens in the decoder's cache before each run.
        uncompiled: names of compiled parts, which ran uncompiled.
        compiled_difference: the largest difference between their outputs and those of the compiled versions, on the
            same inputs. None if nothing was compiled or nothing could be compared.
        off: names of the parts that `without` had switched off.
        nbytes: size of the record, in bytes.
    """

    limit: int | None = None
    calls: dict[str, list[AttentionCall]] = field(default_factory=dict)
    parts: dict[str, list[PartCall]] = field(default_factory=dict)
    summaries: list[Summary] = field(default_factory=list)
    cache_lengths: list[int] = field(default_factory=list)
    uncompiled: list[str] = field(default_factory=list)
    compiled_difference: float | None = None
    off: list[str] = field(default_factory=list)
    nbytes: int = 0

    def __getitem__(self, name: str) -> Any:
        """Return the latest call of a part, an `AttentionCall` or a `PartCall`."""
        found = self.calls.get(name) or self.parts.get(name)
        if not found:
            if any(it.name == name for it in self.summaries):
                raise KeyError(f"{name!r} didn't fit within {self.limit:,} bytes; see trace.summaries")
            known = list(self)
            parts = (f"{name!r} wasn't recorded", _listed(self.calls or known), suggestion(name, known))
            raise KeyError("; ".join(filter(None, parts)))
        return found[-1]

    def __iter__(self) -> Iterator[str]:
        return iter([*self.parts, *self.calls])

    def __len__(self) -> int:
        return len(self.parts) + len(self.calls)

    @property
    def largest_difference(self) -> float:
        """The largest difference between an attention output and the one recomputed from its weights."""
        return max((it.largest_difference for calls in self.calls.values() for it in calls), default=0.0)

    @property
    def note(self) -> str:
        """Remarks about the run, such as parts switched off or compiled. Usually empty."""
        sentences = [f"Recorded without {', '.join(self.off)}."] if self.off else []
        if self.uncompiled:
            sentences.append(f"Compiled parts ran uncompiled: {', '.join(self.uncompiled)}.")
            if self.compiled_difference is None:
                sentences.append("Their compiled versions couldn't be compared.")
            else:
                difference = f"{self.compiled_difference:.1e}"
                sentences.append(f"On the same inputs, their compiled versions differ by at most {difference}.")
        return " ".join(sentences)

    def residuals(self) -> list[tuple[str, float, float]]:
        """Return each residual connection's name, and the mean norm of a token's vector before and after it."""
        latest = [calls[-1] for calls in self.parts.values() if calls[-1].kind == "AddNorm"]
        return [(it.name, _mean_norm(it.inputs[0]), _mean_norm(it.output)) for it in latest]

    def to_dict(self) -> dict[str, Any]:
        """Return the whole record as plain values for JSON."""
        attention = [it.to_dict() for calls in self.calls.values() for it in calls]
        parts = [it.to_dict() for calls in self.parts.values() for it in calls]
        about = self._about({"attention": attention, "parts": parts})
        return about | {"largest_difference": self.largest_difference}

    def _about(self, calls: dict[str, Any]) -> dict[str, Any]:
        """Return plain values for all but the tensors, with these lists of calls."""
        return {
            "format_version": FORMAT_VERSION,
            "kind": "trace",
            **calls,
            "summaries": [vars(it) | {"shape": list(it.shape)} for it in self.summaries],
            "cache_lengths": self.cache_lengths,
            "uncompiled": self.uncompiled,
            "compiled_difference": self.compiled_difference,
            "off": self.off,
        }

    def save(self, path: str | Path) -> None:
        """Write the whole record to a `.json` or `.npz` file.

        In JSON, NaN and infinities become null. The arrays of an npz file are named part/call/array, such as
        "decoder.0.cross/0/weights". Its array "about" contains everything else as JSON.

        Raises:
            ConfigError: the file has another ending.
            TrainingError: the file can't be written.
        """
        path = Path(path)
        if path.suffix not in (".json", ".npz"):
            what = f"{path} has the ending {path.suffix!r}"
            raise ConfigError(what, expected=".json or .npz", name="path", value=str(path))
        if path.suffix == ".json":
            content = json.dumps(finite(self.to_dict()), ensure_ascii=False, allow_nan=False).encode()
        else:
            np.savez_compressed(file := io.BytesIO(), allow_pickle=False, **self._arrays())
            content = file.getvalue()
        save_file(path, content, again="save again")

    def _arrays(self) -> dict[str, Any]:
        everything: dict[str, Sequence[PartCall | AttentionCall]] = {**self.parts, **self.calls}
        found = {
            f"{part}/{number}/{name}": _array(values)
            for part, calls in everything.items()
            for number, call in enumerate(calls)
            for name, values in call.arrays().items()
        }
        rest = self._about({"calls": [call.header for calls in everything.values() for call in calls]})
        return found | {"about": np.array(json.dumps(finite(rest), allow_nan=False))}

    def plot(self, name: str, path: str | Path | None = None, *, row: int = 0, head: int | None = None) -> "Figure":
        """Draw the weights of the latest call of an attention module.

        Args:
            name: the name of the module, such as "decoder.0.cross".
            path: the PNG or SVG file to write (default: only return the figure).
            row: the row of the batch.
            head: the number of a head, from 0 (default: all heads).

        Raises:
            KeyError: no such attention module was recorded.
            ConfigError: matplotlib isn't installed.
        """
        if name not in self.calls:
            raise KeyError(f"{name!r} isn't a recorded attention module; {_listed(self.calls)}")
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
        """Return a table for notebooks, with the shape and size of each part's output."""
        rows = []
        for name in self:
            call = self[name]
            x, times = call.output, len(self.calls.get(name) or self.parts[name])
            shape = " x ".join(map(str, x.shape)) + (f", {times} times" if times > 1 else "")
            cells = (name, call.kind, shape, f"{_mean_norm(x):.3f}", f"{1000 * call.seconds:.2f}")
            rows.append("<tr>" + "".join(map(_cell, range(len(cells)), cells)) + "</tr>")
        head = "".join(_cell(n, it, "th") for n, it in enumerate(("part", "class", "output", "mean norm", "ms")))
        table = f"<table><tr>{head}</tr>{''.join(rows)}</table>"
        return f"<p><code>{html.escape(repr(self))}</code></p><div style='max-height:30em;overflow:auto'>{table}</div>"


def _cell(column: int, text: str, kind: str = "td") -> str:
    """Return a table cell, with names aligned left and numbers right."""
    return f"<{kind} style='text-align:{'left' if column < 3 else 'right'}'>{html.escape(text)}</{kind}>"


def _array(x: Tensor) -> Any:
    return (x.float() if x.dtype == torch.bfloat16 else x).numpy(force=True)


def _listed(names: Iterable[str]) -> str:
    known = ", ".join(names)
    return f"recorded: {known}" if known else "nothing was recorded"


def _mean_norm(x: Tensor) -> float:
    """Return the mean norm of the vectors along the last axis."""
    return float(x.double().norm(dim=-1).mean()) if x.numel() else math.nan
