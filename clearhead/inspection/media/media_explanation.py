"""Explanation of an answer about an image or a recording. All of it is computed from the record of one forward pass."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...errors import ConfigError
from ...model.transformer import EncoderModel
from ..record.labels import LabelledArray
from ..record.trace import Trace
from ..views.alignment import TokenTiming, timings
from ..views.explanation import Explanation
from ..views.head_grid import heads_of
from .media_input import AudioInput, ImageInput, MediaInput, media_input
from .media_text import InputMap, render_maps, render_occlusion, render_timings
from .occlusion import Occlusion, occluded_falls


@dataclass(frozen=True, kw_only=True)
class MediaExplanation(Explanation):
    """An explanation whose encoder reads patches of an image, or frames of a recording."""

    @cached_property
    def input(self) -> MediaInput:
        """The image or recording, as the front end read it."""
        return media_input(self.forward)

    def rows(self, place: str) -> tuple[str, ...]:
        """Return what attends to the input at a place: the tokens of the answer, the label, or all positions."""
        self.n_layers(place)
        if place == "decoder.cross":
            return self.outputs
        return (self.answer,) if isinstance(self.model, EncoderModel) else ("all positions",)

    def maps(self, place: str, layer: int) -> NDArray[np.float64]:
        """Return the attention of every head to each position of the input, (H, R, S), with a row for each of `rows`.

        In the encoder, the queries are averaged as the model's head reads them: with the weights of its pooling.

        Raises:
            ConfigError: there's no such place or layer, or the place attends to tokens.
        """
        if place == "decoder.self":
            what = "decoder.self attends to tokens, not to the image or recording"
            raise ConfigError(what, expected="encoder.self or decoder.cross", name="attention", value=place)
        weights = self.weights(place, layer).double()
        found = weights if place == "decoder.cross" else self._reading @ weights
        return found.numpy(force=True)

    def shown_weights(self, place: str, layer: int) -> LabelledArray:
        """Return the weights that a film shows: `maps`, with axes head, query and key."""
        if place == "decoder.self":
            return super().shown_weights(place, layer)
        names = {"query": self.rows(place), "key": self.tokens["encoder"]}
        return LabelledArray(torch.from_numpy(self.maps(place, layer)), ("head", "query", "key"), names)

    def mean_map(self, place: str, layer: int | None = None) -> NDArray[np.float64]:
        """Return the mean of `maps` over heads, (R, S). By default, it's that of the layer `alignment_layer`, or of
        the encoder's last one."""
        if layer is None:
            layer = self.alignment_layer if place == "decoder.cross" else self.n_layers(place) - 1
        return self.maps(place, layer).mean(0)

    def rollout(self, place: str) -> NDArray[np.float64]:
        """Return attention to the input, followed through all layers of the encoder, (R, S).

        Cross-attention is multiplied with the encoder's rollout.
        """
        through = rollout(self.trace).numpy(force=True)
        if place == "decoder.cross":
            return self.mean_map(place) @ through
        self.n_layers(place)
        return self._reading.numpy(force=True) @ through

    @property
    def _reading(self) -> Tensor:
        """The weight of each position of the encoder's output in the answer, (1, S)."""
        if isinstance(self.model, EncoderModel):
            reading = self.chosen.readout(self.forward, self.trace).reading
            assert reading is not None
            return reading.double()
        n_positions = len(self.tokens["encoder"])
        return torch.full((1, n_positions), 1 / n_positions, dtype=torch.float64)

    @cached_property
    def occlusion(self) -> Occlusion:
        """The drop in the answer's score when each patch or stretch of the recording is hidden."""
        place, groups = self.main_place, self.input.groups
        falls = occluded_falls(self.forward, groups).numpy()
        attention, through = (
            np.stack([it[:, group].sum(1) for group in groups], 1) for it in (self.mean_map(place), self.rollout(place))
        )
        rows = tuple(self.forward.said) if isinstance(self.model, EncoderModel) else self.rows(place)
        return Occlusion(groups, rows, falls, attention, through)

    def timings(self, layer: int | None = None) -> tuple[TokenTiming, ...]:
        """Return the time at which each token of a transcript was spoken, by the cross-attention of a layer.

        Args:
            layer: a layer of the cross-attention (default: `alignment_layer`).

        Raises:
            ConfigError: the model doesn't transcribe recordings.
        """
        if "decoder.cross" not in self.places or not isinstance(self.input, AudioInput):
            what = "only the tokens of a transcript have a time"
            raise ConfigError(what, expected="a model for `transcribe`", name="alignment")
        said = self.outputs[: len(self.target_words)]
        return timings(self.mean_map("decoder.cross", layer), said, self.input.step, self.input.seconds)

    # --- as text and as plain values

    def render(self) -> str:
        """Render the input, the answer, and a table of the model's parts, then where the model looked."""
        if self.without_weights:
            return super().render()
        place = self.main_place
        maps = [InputMap("attention, mean of heads", self.mean_map(place)), InputMap("rollout", self.rollout(place))]
        return f"{super().render()}\n\n{render_maps(self.input, self.rows(place), maps)}"

    @property
    def _described(self) -> tuple[str, Iterable[str]]:
        return self.input.noun, self.input.describe().split()

    def render_heads(self, place: str, layer: int | None, *, color: bool = False) -> str:
        """Render where each head of a layer, or of all layers, looks in the image or recording.

        Args:
            place: such as "encoder.self" or "decoder.cross".
            layer: the number of the layer, from 0. None renders all layers.
            color: use background colours instead of characters.
        """
        if place == "decoder.self":
            return super().render_heads(place, layer, color=color)
        blocks = []
        for number in range(self.n_layers(place)) if layer is None else [layer]:
            call = self.attention(place, number)
            if call.known_weights is None:
                blocks.append(f"{call.name}: {call.kind} doesn't report its weights")
                continue
            heads, described = self.maps(place, number), heads_of(self.labelled_weights(place, number))
            maps = [InputMap(f"head {it.number}, {it.entropy:.2f} bits", heads[it.number]) for it in described] + [
                InputMap("mean", heads.mean(0))
            ]
            blocks.append(f"{call.name}\n{render_maps(self.input, self.rows(place), maps, color=color)}")
        if not self.without_weights:
            whole = InputMap("rollout", self.rollout(place))
            blocks.append(f"all layers\n{render_maps(self.input, self.rows(place), [whole], color=color)}")
        return "\n\n".join(blocks)

    def render_alignment(self, layer: int | None = None) -> str:
        """Render the time at which each token of a transcript was spoken."""
        number = self.alignment_layer if layer is None else layer
        return render_timings(self.timings(layer), number)

    def render_occlusion(self, *, color: bool = False) -> str:
        """Render the drop in score for each hidden part, next to attention and rollout."""
        return render_occlusion(self.input, self.occlusion, self.tokens["encoder"], color=color)

    def to_dict(self, place: str, layer: int, head: int) -> dict[str, Any]:
        """Return everything as plain values for JSON, with each head's attention to the image or recording.

        Args:
            place: the place of the head whose steps are included, such as "decoder.cross".
            layer: its layer, from 0.
            head: its number, from 0.
        """
        found, main = super().to_dict(place, layer, head), self.main_place
        layers = range(self.n_layers(main))
        known = {n: self.maps(main, n) for n in layers if self.attention(main, n).known_weights is not None}
        found["maps"] = {
            "place": main,
            "rows": list(self.rows(main)),
            "layers": {str(number): it.tolist() for number, it in known.items()},
        }
        if not self.without_weights:
            found["maps"]["rollout"] = self.rollout(main).tolist()
        if isinstance(self.input, ImageInput):
            found["image"] = {"patches_across": self.input.across, "patch_size": self.input.patch_size,
                                "class_token": bool(self.input.first)}  # fmt: skip
        elif main == "decoder.cross" and not self.without_weights:
            found["timings"] = [vars(it) for it in self.timings()]
        return found


def rollout(trace: Trace) -> Tensor:
    """Return how much of each input position reaches each position of the encoder's output, (S, S).

    This is attention rollout (Abnar & Zuidema 2020, "Quantifying Attention Flow in Transformers").
    A layer passes on half of its input through the residual connection, and half through attention, averaged over
    heads: A = (mean of W + I) / 2. The rollout is the product A_L ... A_2 A_1. Its rows sum to 1.

    Raises:
        ModelError: a custom attention module doesn't report its weights.
    """
    layers = {
        int(name.split(".")[1]): calls[-1]
        for name, calls in trace.calls.items()
        if name.startswith("encoder.") and name.endswith(".self")
    }
    found: Tensor | None = None
    for number in sorted(layers):
        weights = layers[number].weights.values[0].double().mean(0)
        mixed = (weights + torch.eye(len(weights), dtype=weights.dtype, device=weights.device)) / 2
        found = mixed if found is None else mixed @ found
    assert found is not None
    return found
