"""The logit lens: the prediction of each layer, computed with the model's own final norm and projection
(nostalgebraist 2020, "interpreting GPT: the logit lens")."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...model.transformer import Decoder
from ..record.trace import Trace
from .text_columns import WIDTH, cut, left, preformatted, with_note

_CELL = 13  # columns of a cell
_BEST = 3  # tokens to keep for each position


@dataclass(frozen=True)
class LensLayer:
    """Predictions from the decoder's state after a layer: the top tokens per position, and the rank of the final one.

    Rank 0 is the most likely token.
    """

    name: str  # "embedded", "layer 0", ...
    tokens: tuple[tuple[str, ...], ...]  # (T, 3)
    probabilities: tuple[tuple[float, ...], ...]  # (T, 3)
    ranks: tuple[int, ...]  # (T,)


@dataclass(frozen=True)
class Lens:
    """The predictions of each layer at each position. The `note` holds remarks about the run."""

    outputs: tuple[str, ...]  # T
    layers: tuple[LensLayer, ...]
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"outputs": list(self.outputs), "layers": [vars(layer) for layer in self.layers]}

    def _repr_html_(self) -> str:
        return preformatted(self.render())

    def render(self) -> str:
        """Render a row for each layer, the last on top, and a column for each position, in tables of 80 columns."""
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
        return with_note("\n\n".join([*blocks, "* agrees with the answer"]), self.note)


def lens_logits(decoder: Decoder, trace: Trace) -> dict[str, Tensor]:
    """Return the logits of each recorded state: {"embedded": (B, T, V), "layer 0": ...}.

    Those of the last layer are the model's own, before a pointer copies.
    """
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
    """Return the most likely tokens of every layer in a recorded pass.

    Args:
        decoder: the model's decoder.
        trace: the recorded pass.
        said: the token ids of the answer, (T,).
        pieces: spells token ids.
        row: which row of the batch.
    """
    answer = torch.tensor(said)
    layers = []
    for name, logits in lens_logits(decoder, trace).items():
        p = logits[row].float().softmax(-1).cpu()
        best, ids = p.topk(min(_BEST, p.size(-1)))
        ranks = (p > p.gather(-1, answer[:, None])).sum(-1)
        tokens = tuple(tuple(pieces(some)) for some in ids.tolist())
        layers.append(LensLayer(name, tokens, tuple(map(tuple, best.tolist())), tuple(ranks.tolist())))
    return Lens(tuple(pieces(said)), tuple(layers), trace.note)
