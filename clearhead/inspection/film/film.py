"""Film of a training run, recorded by `train --watch`: explanations of one text, one for each evaluation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import ConfigError, DataError, unknown
from ...folder.checkpoint import FILM
from ...pictures.canvas import readable
from ..views.head_grid import render_heads, render_keys
from ..views.text_columns import cut, wrapped
from .film_pictures import draw_sheet, label_of, write_gif
from .frame import Frame

_ROWS = 24  # maximum number of rows in a small picture


@dataclass(frozen=True)
class Film:
    """The frames of a run, in order, and the labels of their scores (default: their names)."""

    frames: Sequence[Frame]
    labels: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Sequence[Mapping[str, Any]], folder: Path, labels: Mapping[str, str] | None = None) -> "Film":
        """Build a film from the lines of `film.jsonl`. Raise DataError if there are none, or one is damaged."""
        if not records:
            what = f"{folder} has no film"
            expected = 'a model trained with `train.watch="a text"` and evaluated on held-out data'
            raise DataError(what, expected=expected, name=str(folder))
        frames = [Frame.read(it, Path(folder) / FILM, number) for number, it in enumerate(records, start=1)]
        heads = [{place: len(weights) for place, weights in it.weights.items()} for it in frames]
        if odd := next((number for number, it in enumerate(heads, start=1) if it != heads[0]), None):
            path = Path(folder) / FILM
            what = f"{path}, line {odd} doesn't have the same attention modules as line 1"
            raise DataError(what, expected="frames of a single run", name=str(path), line=odd)
        return cls(frames, labels or {})

    def place(self, name: str | None, layer: int) -> str:
        """Return the name of an attention module in the frames: "decoder.cross" in layer 0 is "decoder.0.cross".

        Args:
            name: a stack and a kind, such as "decoder.cross" (default: the last kind).
            layer: the number of the layer, from 0.

        Raises:
            ConfigError: the frames don't contain this module.
        """
        known = list(self.frames[-1].weights)
        kinds = list(dict.fromkeys(".".join(it.split(".")[::2]) for it in known))
        if not kinds:
            what = "the film has no attention weights, because the model's attention modules don't report any"
            expected = "a class with a method weights(q, k, *, mask, bias)"
            fix = "use --json to see the answers and the predictions of each layer"
            raise ConfigError(what, expected=expected, fix=fix, name="weights")
        stack, _, kind = (name or kinds[-1]).partition(".")
        found = f"{stack}.{layer}.{kind}"
        if found not in known:
            raise unknown(f"the film has no attention {found}", found, known, "attention")
        return found

    def render(self, place: str, *, color: bool = False) -> str:
        """Render the frames as text, one below the other: scores, answer and small pictures of all heads at `place`.

        Early answers may never end, so no frame shows more rows than the last one.
        """
        blocks, rows = [], min(len(self.frames[-1].axes[place][0]), _ROWS)
        for it in self.frames:
            weights = it.labelled(place, rows)
            heads = render_heads(place, weights, color=color, of=len(it.axes[place][0]))
            keys = render_keys(weights) if it is self.frames[0] or not place.endswith("cross") else []
            blocks.append([*keys, heads])
        return self._stacked(blocks)

    def render_lens(self) -> str:
        """Render the frames as text, with the predictions of each decoder layer instead of heads, last layer first.

        Raises:
            ConfigError: the model has no decoder.
        """
        if not (last := self.frames[-1].lens):
            what = "the film has no layer predictions, because its model has no decoder"
            raise ConfigError(what, expected="a model that translates, summarizes or generates", name="lens")
        tokens = max(map(len, last.values()))
        names = max(map(len, last)) + 2
        return self._stacked(
            [
                [row for name in reversed([*it.lens]) for row in wrapped(f"{name:<{names}}", it.lens[name][:tokens])]
                for it in self.frames
            ]
        )

    def _stacked(self, views: Sequence[Sequence[str]]) -> str:
        """Join the views of all frames, each after the frame's scores and answer."""
        blocks = [f'"{cut(readable(self.frames[0].text, 60), 60)}" at each evaluation']
        for it, view in zip(self.frames, views, strict=True):
            numbers = [f"{label_of(name, self.labels)} {value:.4g} " for name, value in it.scores.items()]
            scores = wrapped(f"step {it.step:,}  ", numbers or ["untrained"])
            blocks.append("\n".join([*scores, f"answer  {cut(readable(it.answer, 72), 72)}", *view]))
        return "\n\n".join(blocks)

    def to_dict(self) -> dict[str, Any]:
        return {"format_version": 1, "frames": [it.to_dict() for it in self.frames]}

    def draw(self, place: str, path: Path, *, moving: bool = False) -> None:
        """Draw up to eight frames as columns, with a row for each head, or, if `moving`, all frames as a GIF."""
        (write_gif if moving else draw_sheet)(self.frames, place, path, self.labels)
