"""Scores of transcripts."""

from dataclasses import dataclass
from typing import Any

from ...scoring.transcript_scores import ErrorRate


@dataclass(frozen=True)
class TranscriptScores:
    """Word and character error rate, exact matches, and token accuracy and perplexity if tokens were counted."""

    wer: ErrorRate
    cer: ErrorRate
    exact_match: float
    token_accuracy: float | None = None
    perplexity: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        values: dict[str, Any] = {"recordings": len(self.wer.edits)}
        for name, it in (("wer", self.wer), ("cer", self.cer)):
            values |= {name: it.rate, f"{name}_interval": [it.low, it.high]}
        tokens = {"token_accuracy": self.token_accuracy, "perplexity": self.perplexity}
        return values | {"exact_match": self.exact_match} | {k: it for k, it in tokens.items() if it is not None}
