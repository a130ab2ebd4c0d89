"""Attention of one recorded pass: its places, its weights labelled with tokens, and its views as text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ...errors import ConfigError, unknown
from ..record.calls import AttentionCall
from ..record.labels import LabelledArray
from ..record.trace import Trace
from . import PLACES
from .equation import equation_steps, render_matrix, render_steps
from .head_grid import render_heads, render_keys
from .text_columns import with_note


@dataclass(frozen=True, kw_only=True)
class RecordedAttention:
    """The attention of a recorded pass, by place ("decoder.cross") and layer.

    Attributes:
        tokens: the input tokens of each stack, {"encoder": S, "decoder": T}.
        outputs: the decoder's output after each of its tokens. The last one is the end token, unless the answer was
            cut off.
    """

    tokens: Mapping[str, tuple[str, ...]]
    outputs: tuple[str, ...] = ()
    trace: Trace

    @property
    def places(self) -> list[str]:
        """The places of the recorded attention modules, as keys of `PLACES`."""
        found = {f"{name.split('.')[0]}.{name.split('.')[-1]}" for name in self.trace.calls}
        return [it for it in PLACES if it in found]

    @property
    def main_place(self) -> str:
        """The place to show by default: the last one, which is cross-attention if the model has it."""
        return self.places[-1]

    def n_layers(self, place: str) -> int:
        """Return the number of layers with attention at a place. Raise ConfigError if there's no such place."""
        if place not in self.places:
            raise unknown(f"{place!r} isn't an attention of this model", place, self.places, "attention")
        stack, kind = place.split(".")
        return sum(name.startswith(f"{stack}.") and name.endswith(f".{kind}") for name in self.trace.calls)

    def attention(self, place: str, layer: int) -> AttentionCall:
        """Return the latest recorded attention call at a place of a layer.

        Raises:
            ConfigError: the model has no such attention module or layer.
        """
        n_layers, (stack, kind) = self.n_layers(place), place.split(".")
        if layer not in range(n_layers):
            what = f"layer {layer} of {place} doesn't exist"
            raise ConfigError(what, expected=f"a layer from 0 to {n_layers - 1}", name="layer", value=layer)
        return self.trace.calls[f"{stack}.{int(layer)}.{kind}"][-1]

    def weights(self, place: str, layer: int) -> Tensor:
        """Return the attention weights of every head of a layer, (H, T, S).

        Raises:
            ConfigError: the model has no such attention module or layer.
            ModelError: a custom attention module doesn't report its weights.
        """
        return self.attention(place, layer).weights.values[0]

    def labelled_weights(self, place: str, layer: int) -> LabelledArray:
        """Return the weights with axes head, query and key, labelled with tokens."""
        rows, columns = self.axes(place)
        return LabelledArray(self.weights(place, layer), ("head", "query", "key"), {"query": rows, "key": columns})

    def shown_weights(self, place: str, layer: int) -> LabelledArray:
        """Return the weights that a film shows, with axes head, query and key."""
        return self.labelled_weights(place, layer)

    def axes(self, place: str) -> tuple[Sequence[str], Sequence[str]]:
        """Return the tokens that label the rows (queries) and the columns (keys) at a place.

        In cross-attention, a row is labelled with the token that the model generates at this position.
        """
        self.n_layers(place)
        stack, kind = place.split(".")
        if kind == "cross":
            return self.outputs, self.tokens["encoder"]
        return self.tokens[stack], self.tokens[stack]

    @property
    def without_weights(self) -> list[str]:
        """The names of the attention modules that don't report their weights."""
        return [name for name, calls in self.trace.calls.items() if calls[-1].known_weights is None]

    def attention_values(self, place: str, layer: int, head: int) -> dict[str, Any]:
        """Return the steps of Equation 1 for one head as plain values for JSON.

        Args:
            place: one of `places`.
            layer: the number of the layer, from 0.
            head: the number of the head, from 0.
        """
        attention, (rows, columns) = self.attention(place, layer), self.axes(place)
        return {
            "place": place,
            "layer": layer,
            "head": head,
            "rows": list(rows),
            "columns": list(columns),
            "largest_difference": attention.largest_difference,
            "steps": [step.to_dict() for step in equation_steps(attention, head)],
        }

    def render_attention(self, place: str, layer: int, head: int) -> str:
        """Render Equation 1 step by step with the numbers of one head, and a table of its weights.

        Args:
            place: one of `places`.
            layer: the number of the layer, from 0.
            head: the number of the head, from 0.
        """
        attention = self.attention(place, layer)
        title = f"attention {place}, layer {layer}, head {head}:\n{PLACES[place]}"
        view = f"{title}\n{render_steps(equation_steps(attention, head), *self.axes(place))}"
        if attention.known_weights is None:
            return with_note(f"{view}\n{attention.kind} doesn't report its weights.", self.trace.note)
        exact = f"The model's own output {in_words(attention.largest_difference, 'the last step')}."
        table = render_matrix(attention.weights.values[0, head], *self.axes(place))
        return with_note(f"{view}\n{exact}\n\nweights: rows attend to columns\n{table}", self.trace.note)

    def render_heads(self, place: str, layer: int | None, *, color: bool = False) -> str:
        """Render all heads of a layer, or of all layers, as small maps.

        Args:
            place: one of `places`.
            layer: the number of the layer, from 0. None renders all layers.
            color: use background colours instead of characters.
        """
        blocks: list[str] = []
        for number in range(self.n_layers(place)) if layer is None else [layer]:
            call = self.attention(place, number)
            if call.known_weights is None:
                blocks.append(f"{call.name}: {call.kind} doesn't report its weights")
                continue
            weights = self.labelled_weights(place, number)
            blocks += ["\n".join(keys)] if not blocks and (keys := render_keys(weights)) else []
            blocks.append(render_heads(call.name, weights, color=color))
        return with_note("\n\n".join(blocks), self.trace.note)


def in_words(difference: float, other: str) -> str:
    """Return the end of a sentence that describes a difference from `other`."""
    return f"differs from {other} by at most {difference:.1e}" if difference else f"equals {other}, bit for bit"
