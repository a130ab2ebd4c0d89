"""Logit lens: apply the model's final norm and projection to the state after each layer to see what it predicts
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
_BEST = 3  # predicted tokens to keep for each position


@dataclass(frozen=True)
class LensLayer:
    """Predictions from the decoder's state after one layer.

    Attributes:
        name: "embedded" for the input of the first layer, then "layer 0", "layer 1", ...
        tokens: the three most likely tokens at each position, (T, 3).
        probabilities: their probabilities, (T, 3).
        ranks: the rank of the answer's token at each position, (T,). Rank 0 is the most likely token.
    """

    name: str
    tokens: tuple[tuple[str, ...], ...]
    probabilities: tuple[tuple[float, ...], ...]
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Lens:
    """The predictions of all layers for an answer.

    Attributes:
        outputs: the answer's tokens, (T,).
        layers: the predictions of each layer, from the input of the first layer to the output of the last one.
        note: remarks about the run.
    """

    outputs: tuple[str, ...]
    layers: tuple[LensLayer, ...]
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {"outputs": list(self.outputs), "layers": [vars(layer) for layer in self.layers]}

    def _repr_html_(self) -> str:
        return preformatted(self.render())

    def render(self) -> str:
        """Render a table with a row for each layer, last layer first, split into tables of 80 terminal columns."""
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
    """Project the recorded state after each layer to logits: {"embedded": (B, T, V), "layer 0": ...}.

    For the last layer, these are the model's own logits, before any pointer mechanism is applied.
    """
    states = {"embedded": trace["decoder.embedded"].output}
    states |= {f"layer {n}": trace[f"decoder.{n}"].output for n in range(len(decoder.blocks))}
    with torch.no_grad():
        return {name: decoder.projection(decoder.norm(x)) for name, x in states.items()}


def lens(decoder: Decoder, trace: Trace, said: Sequence[int], pieces: Callable[[Iterable[int]], list[str]]) -> Lens:
    """Return the predictions of every decoder layer at every position of a recorded pass.

    Args:
        said: the token ids of the answer, (T,).
        pieces: converts token ids to text.
    """
    answer = torch.tensor(said)
    layers = []
    for name, logits in lens_logits(decoder, trace).items():
        p = logits[0].float().softmax(-1).cpu()
        best, ids = p.topk(min(_BEST, p.size(-1)))
        ranks = (p > p.gather(-1, answer[:, None])).sum(-1)
        tokens = tuple(tuple(pieces(some)) for some in ids.tolist())
        layers.append(LensLayer(name, tokens, tuple(map(tuple, best.tolist())), tuple(ranks.tolist())))
    return Lens(tuple(pieces(said)), tuple(layers), trace.note)
