"""A moment of training: what a model made of a text, and where its heads looked."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...errors import DataError
from ..record.labelled import Labelled
from ..views.explanation import Explanation

_DIGITS = 4  # of a weight: a picture shows no more


@dataclass(frozen=True)
class Frame:
    """The scores at a step, what was made of the text, and its attention, (H, T, S) a place.

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

    @classmethod
    def read(cls, values: Mapping[str, Any], path: Path, number: int) -> "Frame":
        """From line `number` of a film, as JSON has it; a DataError where that is no frame."""
        try:
            frame = cls(**{name: values[name] for name in cls.__dataclass_fields__} | _texts(values))
            frame._check()
        except KeyError as error:
            wrong = f"it has no {error}"
        except (AttributeError, TypeError, ValueError):
            wrong = "its values are not those of a frame"
        else:
            return frame
        raise DataError(
            f"{path}, line {number} is damaged: {wrong}; expected a frame as `train --watch` writes it. "
            "Delete the line to see the others"
        )

    def _check(self) -> None:
        """Raise what is of no use: a KeyError, a TypeError or a ValueError."""
        if not isinstance(self.step, int) or not all(isinstance(it, float | int) for it in self.scores.values()):
            raise TypeError
        for place, weights in self.weights.items():
            rows, columns = self.axes[place]
            if np.asarray(weights, np.float64).shape != (len(weights), len(rows), len(columns)) or not rows:
                raise ValueError

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    def labelled(self, place: str, rows: int | None = None) -> Labelled:
        """The weights of a place, with the axes head, query, key; of so many queries at most."""
        queries, keys = self.axes[place]
        values = torch.tensor(self.weights[place])[:, :rows]
        return Labelled(values, ("head", "query", "key"), {"query": queries[:rows], "key": keys})


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    """The texts, of which the log takes "NaN" and "Infinity" for numbers."""
    texts = {name: values[name] for name in ("text", "answer")}
    texts = {name: json.dumps(it) if isinstance(it, float) else it for name, it in texts.items()}
    if not all(isinstance(it, str) for it in texts.values()):
        raise TypeError
    return texts
