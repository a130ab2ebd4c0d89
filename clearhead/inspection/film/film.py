"""How a model came to see a text as it does: what `train --watch` kept of it at each evaluation, frame by frame."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import ConfigError, DataError, did_you_mean
from ...folder.checkpoint import FILM
from ...pictures.canvas import readable
from ..views.head_grid import render_heads, render_keys
from ..views.text_columns import cut, wrapped
from .film_pictures import draw_sheet, label_of, write_gif
from .frame import Frame

_ROWS = 24  # of a small picture at most


@dataclass(frozen=True)
class Film:
    """The frames of a run, in order; `labels` are what people call their scores, where that is not their name."""

    frames: Sequence[Frame]
    labels: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Sequence[Mapping[str, Any]], folder: Path, labels: Mapping[str, str] | None = None) -> "Film":
        """From the lines of `film.jsonl`; a DataError where there are none, or one of them is damaged."""
        if not records:
            raise DataError(
                f'{folder} has no film; expected a model that was trained with --watch "a text", and data held out'
            )
        frames = [Frame.read(it, Path(folder) / FILM, number) for number, it in enumerate(records, start=1)]
        heads = [{place: len(weights) for place, weights in it.weights.items()} for it in frames]
        if odd := next((number for number, it in enumerate(heads, start=1) if it != heads[0]), None):
            raise DataError(
                f"{Path(folder) / FILM}, line {odd} is of another model than line 1: its attentions are others; "
                "expected the frames of one run"
            )
        return cls(frames, labels or {})

    def place(self, name: str | None, layer: int) -> str:
        """The attention to be shown, as the frames call it: "decoder.cross" of layer 0 is "decoder.0.cross".

        Without a name it is the last kind there is. ConfigError: it was not kept.
        """
        known = list(self.frames[-1].weights)
        kinds = list(dict.fromkeys(".".join(it.split(".")[::2]) for it in known))
        if not kinds:
            raise ConfigError(
                "no attention was kept of this run: those of its model do not tell their weights; expected a method "
                "weights(q, k, *, mask, bias) of its class, or --json, which has the answers and what each layer said"
            )
        stack, kind = (name or kinds[-1]).split(".")
        found = f"{stack}.{layer}.{kind}"
        if found not in known:
            raise ConfigError(f"{found} was not kept; there are {', '.join(known)}{did_you_mean(found, known)}")
        return found

    def render(self, place: str, *, color: bool = False) -> str:
        """A frame below the other: the scores, the answer, and the heads of a place as small pictures.

        Of an answer that does not come to its end, as those of the beginning, as many rows are shown as the last has.
        """
        blocks, rows = [], min(len(self.frames[-1].axes[place][0]), _ROWS)
        for it in self.frames:
            weights = it.labelled(place, rows)
            heads = render_heads(place, weights, color=color, of=len(it.axes[place][0]))
            keys = render_keys(weights) if it is self.frames[0] or not place.endswith("cross") else []
            blocks.append([*keys, heads])
        return self._beside(blocks)

    def render_lens(self) -> str:
        """The same with what each layer of the decoder would have said in the place of the heads, the last layer first.

        ConfigError: the model has no decoder.
        """
        if not (last := self.frames[-1].lens):
            raise ConfigError("a lens shows what a decoder would have said, and the model of this film has none")
        tokens = max(map(len, last.values()))
        names = max(map(len, last)) + 2
        return self._beside(
            [
                [row for name in reversed([*it.lens]) for row in wrapped(f"{name:<{names}}", it.lens[name][:tokens])]
                for it in self.frames
            ]
        )

    def _beside(self, views: Sequence[Sequence[str]]) -> str:
        """A view of each frame, below its scores and its answer."""
        blocks = [f'"{cut(readable(self.frames[0].text, 60), 60)}" at each evaluation']
        for it, view in zip(self.frames, views, strict=True):
            numbers = [f"{label_of(name, self.labels)} {value:.4g} " for name, value in it.scores.items()]
            scores = wrapped(f"step {it.step:,}  ", numbers or ["nothing learnt"])
            blocks.append("\n".join([*scores, f"answer  {cut(readable(it.answer, 72), 72)}", *view]))
        return "\n\n".join(blocks)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"format_version": 1, "frames": [it.to_dict() for it in self.frames]}

    def draw(self, place: str, path: Path, *, moving: bool = False) -> None:
        """A sheet, with a column a frame, eight of them at most, and a row a head; or a GIF of all of them."""
        (write_gif if moving else draw_sheet)(self.frames, place, path, self.labels)
