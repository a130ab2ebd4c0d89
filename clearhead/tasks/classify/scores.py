"""Scores of a classifier."""

from dataclasses import dataclass
from typing import Any

from ...scoring.class_scores import ClassScores


@dataclass(frozen=True)
class LabelScores:
    """The scores of a classifier, including texts whose label it doesn't know, which count as wrong.

    Args:
        scores: accuracy, F1, calibration and the confusion matrix.
        loss: the mean -log p of the correct label in nats, over texts with a known label; None without any.
        n_unseen: the number of texts with an unknown label.
        what: the noun for what is labelled.
    """

    scores: ClassScores
    loss: float | None
    n_unseen: int
    what: str = "texts"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        values = self.scores.to_dict()
        found = {self.what: values.pop("examples"), **values, "unseen_labels": self.n_unseen}
        del found["negative_log_likelihood"]
        return found | ({} if self.loss is None else {"negative_log_likelihood": self.loss})
