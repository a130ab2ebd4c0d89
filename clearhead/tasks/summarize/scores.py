"""ROUGE scores of summaries and of simple baselines."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...scoring.bootstrap import FloatArray
from ...scoring.summary_scores import Rouge, SummaryScores, first, longest, summary_scores
from ...scoring.translation_scores import References

_PARTS = 3  # sentences or turns in a baseline summary
_BASELINES: dict[str, Callable[[str, int], str]] = {f"first_{_PARTS}": first, f"longest_{_PARTS}": longest}


@dataclass(frozen=True)
class SummarizationScores:
    """ROUGE of summaries, with token accuracy and perplexity if tokens were counted."""

    rouge: SummaryScores
    documents: Sequence[str]
    references: References
    token_accuracy: float | None = None
    perplexity: float | None = None

    @property
    def measures(self) -> dict[str, Rouge]:
        """ROUGE-1, ROUGE-2 and ROUGE-L by name."""
        return by_name(self.rouge)

    @cached_property
    def baselines(self) -> dict[str, SummaryScores]:
        """The scores of the first and of the longest sentences. They're computed once, when first needed."""
        return {
            name: summary_scores([summarise(text, _PARTS) for text in self.documents], self.references)
            for name, summarise in _BASELINES.items()
        }

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON: F1 from 0 to 100 with its 95% interval."""
        tokens = {"token_accuracy": self.token_accuracy, "perplexity": self.perplexity}
        return {
            "documents": self.rouge.documents,
            **_percent(self.rouge),
            **{name: value for name, value in tokens.items() if value is not None},
            "baselines": {name: _percent(rouge) for name, rouge in self.baselines.items()},
        }


def by_name(scores: SummaryScores) -> dict[str, Rouge]:
    """Return ROUGE-1, ROUGE-2 and ROUGE-L by name."""
    return {"rouge1": scores.rouge_1, "rouge2": scores.rouge_2, "rougeL": scores.rouge_l}


def of_each(scores: SummaryScores) -> dict[str, FloatArray]:
    """Return the F1 of each document, from 0 to 100. (N,)"""
    return {name: 100.0 * rouge.f1.values for name, rouge in by_name(scores).items()}


def _percent(scores: SummaryScores) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, rouge in by_name(scores).items():
        values |= {name: 100 * rouge.f1.mean, f"{name}_interval": [100 * rouge.f1.low, 100 * rouge.f1.high]}
    return values
