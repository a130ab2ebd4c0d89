"""What each layer would have said: its state, read by the model's own last norm and projection (nostalgebraist 2020,
"interpreting GPT: the logit lens")."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...model.transformer import Decoder
from ..record.trace import Trace
from .text_columns import WIDTH, cut, left, noted, preformatted

_CELL = 13  # columns of a cell
_BEST = 3  # tokens a place that are kept


@dataclass(frozen=True)
class LensLayer:
    """One state of the decoder, its embedding being the first: the likeliest tokens at each place, best first, and the
    rank that the token had there which the model said in the end, 0 being the first."""

    name: str  # "embedded", "layer 0", ...
    tokens: tuple[tuple[str, ...], ...]  # (T, 3)
    probabilities: tuple[tuple[float, ...], ...]  # (T, 3)
    ranks: tuple[int, ...]  # (T,)


@dataclass(frozen=True)
class Lens:
    """What every layer would have said at each place, of what was said; the `note` is of parts that were compiled."""

    outputs: tuple[str, ...]  # T
    layers: tuple[LensLayer, ...]
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"outputs": list(self.outputs), "layers": [vars(layer) for layer in self.layers]}

    def _repr_html_(self) -> str:
        """For notebooks, what `render` gives."""
        return preformatted(self.render())

    def render(self) -> str:
        """A row a layer, the last first, and a column a place, in as many tables as 80 columns need."""
        blocks, label = [], max(len(it.name) for it in self.layers) + 2
        at_once = (WIDTH - label) // _CELL
        for start in range(0, len(self.outputs), at_once):
            here = range(start, min(start + at_once, len(self.outputs)))
            said = "".join(left(cut(self.outputs[t], _CELL - 2), _CELL) for t in here)
            lines = [f"{'said':<{label}}{said}".rstrip()]
            for layer in reversed(self.layers):
                cells = (f"{cut(layer.tokens[t][0], 6)} {layer.probabilities[t][0]:.0%}" for t in here)
                ranked = "".join(left(cell + ("" if layer.ranks[t] else "*"), _CELL) for t, cell in zip(here, cells))
                lines.append(f"{layer.name:<{label}}{ranked}".rstrip())
            blocks.append("\n".join(lines))
        return noted("\n\n".join([*blocks, "* it would have said the same as the whole model"]), self.note)


def lens_logits(decoder: Decoder, trace: Trace) -> dict[str, Tensor]:
    """The logits that each recorded state of the decoder gives, those of the last layer being the model's own (before a
    pointer copies), {"embedded": (B, T, V), "layer 0": ...}."""
    states = {"embedded": trace["decoder.embedded"].output}
    states |= {f"layer {n}": trace[f"decoder.{n}"].output for n in range(len(decoder.blocks))}
    with torch.no_grad():
        return {name: decoder.projection(decoder.norm(x)) for name, x in states.items()}


def lens(
    decoder: Decoder,
    trace: Trace,
    said: Sequence[int],
    pieces: Callable[[Iterable[int]], list[str]],
    row: int = 0,
) -> Lens:
    """The likeliest tokens by every layer, for the tokens `said` (T) in the end at the places of a recorded pass."""
    right = torch.tensor(said)
    layers = []
    for name, logits in lens_logits(decoder, trace).items():
        p = logits[row].float().softmax(-1).cpu()
        best, ids = p.topk(min(_BEST, p.size(-1)))
        ranks = (p > p.gather(-1, right[:, None])).sum(-1)
        tokens = tuple(tuple(pieces(some)) for some in ids.tolist())
        layers.append(LensLayer(name, tokens, tuple(map(tuple, best.tolist())), tuple(ranks.tolist())))
    return Lens(tuple(pieces(said)), tuple(layers), trace.note)
