"""The film of a watched run for the page, in as few bytes as a small picture needs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .arrays import shades_array

_LARGEST = 300_000  # bytes of a film's arrays


def film_data(frames: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], int]:
    """Return the film, and how many of its frames were left out to keep it small. The first and last always stay."""
    scores = [{"step": it["step"], **it["scores"]} for it in frames]
    size = sum(np.size(weights) for weights in frames[0]["weights"].values()) * 4 / 3
    most = max(2, int(_LARGEST / max(size, 1)))
    kept = sorted({round(it) for it in np.linspace(0, len(frames) - 1, min(most, len(frames)))})
    found = [_frame(frames[number], number) for number in kept]
    return {"text": frames[0]["text"], "scores": scores, "frames": found}, len(frames) - len(kept)


def _frame(frame: Mapping[str, Any], number: int) -> dict[str, Any]:
    weights = {name: shades_array(it) for name, it in frame["weights"].items()}
    return {
        "number": number,
        "step": frame["step"],
        "answer": frame["answer"],
        "weights": weights,
        "lens": frame["lens"],
    }
