"""How a model came to see a text as it does: what `train --watch` kept of it at each evaluation, frame by frame."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..errors import ConfigError, DataError, did_you_mean
from ..figures import INK, drawing, readable
from ..storage import write_file, writing
from .explanation import Explanation
from .heads import render_heads
from .labelled import Labelled

FILM = "film.jsonl"
_DIGITS = 4  # of a weight: a picture shows no more
_ACROSS = 8  # frames of a sheet at most, evenly chosen
_SECONDS = 0.6  # that a frame of a moving picture is seen


@dataclass(frozen=True)
class Frame:
    """A moment of training: the scores, what was made of the text, and its attention, (H, T, S) a place.

    `lens` has for each state of a decoder the token that it would have said at each place, by the names of the states.
    """

    step: int
    scores: Mapping[str, float]
    text: str
    answer: str
    axes: Mapping[str, tuple[Sequence[str], Sequence[str]]]  # the rows and columns of each place
    weights: Mapping[str, list[list[list[float]]]]
    lens: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, explanation: Explanation, step: int, scores: Mapping[str, float]) -> "Frame":
        """What is kept of an explanation."""
        axes, weights = dict[str, Any](), dict[str, Any]()
        for name, calls in explanation.trace.calls.items():
            if calls[-1].known_weights is not None:
                stack, _, kind = name.split(".")
                axes[name] = explanation.axes(f"{stack}.{kind}")
                weights[name] = np.round(calls[-1].weights.select(row=0).numpy().astype(np.float64), _DIGITS).tolist()
        lens = {it.name: [best[0] for best in it.tokens] for it in explanation.lens.layers} if explanation.said else {}
        return cls(step, dict(scores), explanation.text, explanation.answer, axes, weights, lens)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    def labelled(self, place: str) -> Labelled:
        """The weights of a place, with the axes head, query, key."""
        rows, columns = self.axes[place]
        return Labelled(torch.tensor(self.weights[place]), ("head", "query", "key"), {"query": rows, "key": columns})


@dataclass(frozen=True)
class Film:
    """The frames of a run, in order."""

    frames: Sequence[Frame]

    @classmethod
    def of(cls, records: Sequence[Mapping[str, Any]], folder: Path) -> "Film":
        """From the lines of `film.jsonl`; a DataError where there are none."""
        if not records:
            raise DataError(
                f'{folder} has no film; expected a model that was trained with --watch "a text", and data held out'
            )
        return cls([Frame(**{name: it[name] for name in Frame.__dataclass_fields__}) for it in records])

    def place(self, name: str | None, layer: int) -> str:
        """The attention to be shown, as the frames call it: "decoder.cross" of layer 0 is "decoder.0.cross".

        Without a name it is the last kind there is. ConfigError: it was not kept.
        """
        known = list(self.frames[-1].weights)
        kinds = list(dict.fromkeys(".".join(it.split(".")[::2]) for it in known))
        stack, kind = (name or kinds[-1]).split(".") if kinds else ("", "")
        found = f"{stack}.{layer}.{kind}"
        if found not in known:
            raise ConfigError(
                f"{found} was not kept; there are {', '.join(known) or 'none'}{did_you_mean(found, known)}"
            )
        return found

    def render(self, place: str, *, color: bool = False) -> str:
        """A frame below the other: the scores, the answer, and the heads of a place as small pictures."""
        blocks = [f'"{self.frames[0].text}" at each evaluation']
        for it in self.frames:
            scores = "  ".join(f"{name} {value:.4g}" for name, value in it.scores.items())
            heads = render_heads(place, it.labelled(place), color=color)
            blocks.append(f"step {it.step:,}  {scores or 'nothing learnt'}\nanswer  {readable(it.answer, 70)}\n{heads}")
        return "\n\n".join(blocks)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"format_version": 1, "frames": [it.to_dict() for it in self.frames]}

    def draw(self, place: str, path: Path, *, moving: bool = False) -> None:
        """A sheet, with a column a frame, eight of them at most, and a row a head; or a GIF of all of them."""
        if moving:
            self._move(place, path)
            return
        chosen = sorted({round(i) for i in np.linspace(0, len(self.frames) - 1, min(_ACROSS, len(self.frames)))})
        self._sheet([self.frames[i] for i in chosen], place, path)

    def _sheet(self, frames: Sequence[Frame], place: str, path: Path) -> None:
        n_heads = len(frames[0].weights[place])
        with drawing(path, layout="compressed", again="give the command again") as figure:
            figure.set_size_inches(1.5 * len(frames) + 0.6, 1.5 * n_heads + 1.4)
            panels = figure.subplots(n_heads, len(frames), squeeze=False)
            for column, frame in enumerate(frames):
                for head, weights in enumerate(frame.weights[place]):
                    panel = panels[head][column]
                    panel.imshow(weights, cmap="Blues", vmin=0, vmax=1, interpolation="nearest", aspect="auto")
                    panel.grid(visible=False)
                    panel.set_xticks([])
                    panel.set_yticks([])
                    if column == 0:
                        panel.set_ylabel(f"head {head}", color=INK)
                loss = f"loss {frame.scores['loss']:.2f}" if "loss" in frame.scores else "nothing learnt"
                panels[0][column].set_title(f"step {frame.step:,}\n{loss}", fontsize=8)
                panels[-1][column].set_xlabel(_folded(frame.answer), fontsize=6, parse_math=False)
            title = f'{place} of "{readable(frames[0].text, 40)}": rows look at columns'
            figure.suptitle(title, fontweight="bold", parse_math=False)

    def _move(self, place: str, path: Path) -> None:
        """All frames one after the other, as Pillow writes them, which matplotlib needs in any case."""
        with tempfile.TemporaryDirectory() as folder:
            shots = [Path(folder) / f"{number}.png" for number in range(len(self.frames))]
            for frame, shot in zip(self.frames, shots):
                self._sheet([frame], place, shot)
            from PIL import Image  # matplotlib has brought it

            images = [Image.open(shot).convert("P", palette=Image.Palette.ADAPTIVE) for shot in shots]
            whole = Path(folder) / "film.gif"
            images[0].save(whole, save_all=True, append_images=images[1:], duration=1000 * _SECONDS, loop=0)
            with writing(path.parent, again="give the command again"):
                path.parent.mkdir(parents=True, exist_ok=True)
                write_file(path, whole.read_bytes())


def _folded(text: str) -> str:
    """A text in lines of so many letters as stand below a small picture."""
    short = readable(text, 54)
    return "\n".join(short[i : i + 18] for i in range(0, len(short), 18))
