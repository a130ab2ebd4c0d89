"""One frame of a film: a text's answer, attention weights and layer predictions at a training step."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...errors import DataError
from ..record.labels import LabelledArray
from ..views.explanation import Explanation

_DIGITS = 4  # decimals of a weight, enough for any picture


@dataclass(frozen=True)
class Frame:
    """The answer to a text at a training step, with scores, attention weights and layer predictions.

    `probability` is that of the answer; films of earlier versions don't have it.
    """

    step: int
    scores: Mapping[str, float]
    text: str
    answer: str
    axes: Mapping[str, tuple[Sequence[str], Sequence[str]]]  # queries and keys of each attention module
    weights: Mapping[str, list[list[list[float]]]]  # (H, T, S) for each attention module
    lens: Mapping[str, Sequence[str]]  # the tokens predicted from each decoder state
    probability: float | None = None

    @classmethod
    def of(cls, explanation: Explanation, step: int, scores: Mapping[str, float]) -> "Frame":
        """Make a frame from an explanation."""
        axes, weights = dict[str, Any](), dict[str, Any]()
        for name, calls in explanation.trace.calls.items():
            if calls[-1].known_weights is not None:
                stack, layer, kind = name.split(".")
                shown = explanation.shown_weights(f"{stack}.{kind}", int(layer))
                axes[name] = (shown.tokens["query"], shown.tokens["key"])
                weights[name] = np.round(shown.numpy().astype(np.float64), _DIGITS).tolist()
        lens = {it.name: [best[0] for best in it.tokens] for it in explanation.lens.layers} if explanation.said else {}
        values = explanation.values
        p = math.exp(values["log_probability"]) if "log_probability" in values else values.get("probability")
        return cls(step, dict(scores), explanation.text, explanation.answer, axes, weights, lens, p)

    @classmethod
    def read(cls, values: Mapping[str, Any], path: Path, number: int) -> "Frame":
        """Make a frame from `values`, line `number` of a film. Raise DataError if it isn't a valid frame."""
        try:
            values = {"probability": None, **values}
            frame = cls(**{name: values[name] for name in cls.__dataclass_fields__} | _texts(values))
            frame._check()
        except KeyError as error:
            wrong = f"it has no {error}"
        except (AttributeError, TypeError, ValueError):
            wrong = "its values aren't those of a frame"
        else:
            return frame
        what = f"{path}, line {number} is damaged: {wrong}"
        expected = "a frame that training with `train.watch` has written"
        fix = "delete the line to see the other frames"
        raise DataError(what, expected=expected, fix=fix, name=str(path), line=number)

    def _check(self) -> None:
        """Raise a KeyError, TypeError or ValueError if the values aren't usable."""
        numbers = [*self.scores.values(), self.probability or 0.0]
        if not isinstance(self.step, int) or not all(isinstance(it, float | int) for it in numbers):
            raise TypeError
        for place, weights in self.weights.items():
            rows, columns = self.axes[place]
            if np.asarray(weights, np.float64).shape != (len(weights), len(rows), len(columns)) or not rows:
                raise ValueError

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def labelled(self, place: str, rows: int | None = None) -> LabelledArray:
        """Return the weights of an attention module with axes head, query and key, for at most `rows` queries."""
        queries, keys = self.axes[place]
        values = torch.tensor(self.weights[place])[:, :rows]
        return LabelledArray(values, ("head", "query", "key"), {"query": queries[:rows], "key": keys})


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the text and the answer. Reading the log turns the texts "NaN" and "Infinity" into numbers; undo this."""
    texts = {name: values[name] for name in ("text", "answer")}
    texts = {name: json.dumps(it) if isinstance(it, float) else it for name, it in texts.items()}
    if not all(isinstance(it, str) for it in texts.values()):
        raise TypeError
    return texts
