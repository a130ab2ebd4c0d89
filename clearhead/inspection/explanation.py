"""One answer with all that attention did for it: what `clearhead explain` shows, as text and as plain values."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ..errors import ConfigError, did_you_mean
from .alignment import align
from .equation import equation_steps, render_matrix, render_steps
from .flow import Step, render_flow
from .places import PLACES
from .trace import Attention, Trace


@dataclass(frozen=True)
class Explanation:
    """A text, its translation, and the record of one pass through the model with both.

    `source` are the tokens that the encoder reads, `inputs` those that the decoder reads, and `outputs` what it says
    after each of them; its last is the end token, unless the answer was cut off before it came to an end.
    `source_words` and `target_words` tell of each token, the end aside, which word it belongs to.
    """

    text: str
    translation: str
    score: float
    log_probability: float
    source: tuple[str, ...]  # S
    inputs: tuple[str, ...]  # T
    outputs: tuple[str, ...]  # T
    source_words: tuple[int, ...]
    target_words: tuple[int, ...]
    flow: tuple[Step, ...]
    trace: Trace

    def weights(self, place: str, layer: int) -> Tensor:
        """The attention weights of every head of a layer, (H, T, S); `place` is one of `PLACES`.

        A ConfigError says which places and layers there are.
        """
        return self._attention(place, layer).weights.values[0]

    def axes(self, place: str) -> tuple[Sequence[str], Sequence[str]]:
        """The tokens of the rows, which attend, and of the columns, which are attended, of a place's weights."""
        _check(place)
        return {
            "encoder.self": (self.source, self.source),
            "decoder.self": (self.inputs, self.inputs),
            "decoder.cross": (self.outputs, self.source),
        }[place]

    @property
    def alignment_layer(self) -> int:
        """The layer whose attention is the nearest to an alignment: the last but one (Garg et al. 2019).

        Of fewer than three it is the last.
        """
        last = sum(name.endswith(".cross") for name in self.trace.calls) - 1
        return last - 1 if last >= 2 else last

    def alignment(self, layer: int | None = None) -> list[tuple[int, int]]:
        """(i, j): word i of the text is what word j of the translation looks at most, by the mean of a layer's heads.

        Without a layer it is `alignment_layer`.
        """
        layer = self.alignment_layer if layer is None else layer
        return align(self.weights("decoder.cross", layer).mean(0), self.source_words, self.target_words)

    def to_dict(self, place: str, layer: int, head: int) -> dict[str, Any]:
        """Plain values for JSON: everything, and of attention the steps of one head."""
        attention = self._attention(place, layer)
        rows, columns = self.axes(place)
        shown = {"place": place, "layer": layer, "head": head, "rows": list(rows), "columns": list(columns)}
        shown["largest_difference"] = attention.largest_difference
        return {
            "format_version": 1,
            "source": self.text,
            "text": self.translation,
            "score": self.score,
            "log_probability": self.log_probability,
            "tokens": {"source": self.source, "inputs": self.inputs, "outputs": self.outputs},
            "alignment": self.alignment(),
            "alignment_layer": self.alignment_layer,
            "flow": [step.to_dict() for step in self.flow],
            "attention": {**shown, "steps": [step.to_dict() for step in equation_steps(attention, head)]},
        }

    def render(self, place: str, layer: int, head: int) -> str:
        """The same for people, in 80 columns."""
        attention = self._attention(place, layer)
        steps = equation_steps(attention, head)
        title = f"attention {place}, layer {layer}, head {head}:\n{PLACES[place]}"
        exact = f"The model's own output differs from these steps by at most {attention.largest_difference:.1e}."
        table = render_matrix(attention.weights.values[0, head], *self.axes(place))
        return "\n\n".join(
            (
                f"source       {self.text}\ntranslation  {self.translation}\n"
                f"score        {self.score:.4f}, from a log-probability of {self.log_probability:.4f}",
                f"source tokens  {' '.join(self.source)}\noutput tokens  {' '.join(self.outputs)}",
                f"dimensions\n{render_flow(self.flow)}",
                f"{title}\n{render_steps(steps)}\n{exact}",
                f"weights: a row looks at the columns\n{table}",
            )
        )

    def _attention(self, place: str, layer: int) -> Attention:
        _check(place)
        stack, kind = place.split(".")
        n_layers = sum(name.startswith(f"{stack}.") and name.endswith(f".{kind}") for name in self.trace.calls)
        if not 0 <= layer < n_layers:
            raise ConfigError(f"layer {layer} of {place} is not there; expected 0 to {n_layers - 1}")
        return self.trace.calls[f"{stack}.{layer}.{kind}"][-1]


def _check(place: str) -> None:
    if place not in PLACES:
        raise ConfigError(
            f"{place!r} is no place of attention; there are {', '.join(PLACES)}{did_you_mean(place, PLACES)}"
        )
