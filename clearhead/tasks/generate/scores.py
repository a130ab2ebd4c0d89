"""Scores of a language model."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class TextScores:
    """Scores for predicting text.

    bits per byte = sum of -log2 p(token) / bytes of the text in UTF-8

    `loss` is in nats per token, so it depends on the vocabulary; bits per byte don't. An unknown token counts with the
    probability of <unk>, so bits per byte are too low for a text with many of them.
    """

    characters: int
    bits_per_byte: float
    nats_per_character: float
    loss: float
    perplexity: float
    token_accuracy: float
    unknown: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)
