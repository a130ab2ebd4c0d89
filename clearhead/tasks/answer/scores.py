"""Scores of a model that answers questions."""

from dataclasses import dataclass
from typing import Any

from ...scoring.answer_scores import AnswerScores


@dataclass(frozen=True)
class AnsweringScores:
    """Exact match and F1, the loss per position in nats, and the scores of baselines."""

    answers: AnswerScores
    loss: float
    baselines: dict[str, dict[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**self.answers.to_dict(), "loss": self.loss, "baselines": self.baselines}
