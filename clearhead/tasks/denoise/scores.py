"""Scores of a model that recovers masked tokens."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class DenoisingScores:
    """Scores for recovering masked tokens."""

    texts: int
    hidden_accuracy: float
    hidden_perplexity: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)
