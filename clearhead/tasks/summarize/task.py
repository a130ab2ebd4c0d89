"""Summaries of documents: learnt as translations are, scored by ROUGE beside what anybody can do without a model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...scoring.resampling import FloatArray
from ...scoring.significance import Comparison, compare_means
from ...scoring.summary_scores import Rouge, SummaryScores, first, longest, summary_scores
from ...scoring.translation_scores import References, TokenCounts
from ..base import Judged, Units
from ..examples import HeldOut
from ..sequences import Sequences, of_tokens

_PARTS = 3  # sentences or turns that make a summary without a model
_BASELINES: dict[str, Callable[[str, int], str]] = {f"first_{_PARTS}": first, f"longest_{_PARTS}": longest}


@dataclass(frozen=True)
class SummarizationScores:
    """ROUGE of the summaries of some documents, and of the tokens what was counted."""

    rouge: SummaryScores
    documents: Sequence[str]
    references: References
    token_accuracy: float | None = None
    perplexity: float | None = None

    @property
    def measures(self) -> dict[str, Rouge]:
        """ROUGE by its usual names."""
        return _by_name(self.rouge)

    @cached_property
    def baselines(self) -> dict[str, SummaryScores]:
        """The scores of the first and the longest sentences, which no model chose; nobody has to pay for them twice."""
        return {
            name: summary_scores([summarise(text, _PARTS) for text in self.documents], self.references)
            for name, summarise in _BASELINES.items()
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: F1 from 0 to 100 with the ends of its 95% interval."""
        tokens = {"token_accuracy": self.token_accuracy, "perplexity": self.perplexity}
        return {
            "documents": self.rouge.documents,
            **_percent(self.rouge),
            **{name: value for name, value in tokens.items() if value is not None},
            "baselines": {name: _percent(rouge) for name, rouge in self.baselines.items()},
        }


class Summarization(Sequences):
    """What training and scoring need to know of the task."""

    units = Units("documents", "summary tokens", "summary", "documents")
    cuts = "summaries"

    @property
    def readable(self) -> tuple[int, str]:
        """As much as in training: of longer documents the model knows the beginning alone."""
        return self.longest

    def judge(self, held_out: HeldOut, answers: Sequence[str], counts: TokenCounts | None) -> Judged:
        """ROUGE of all summaries, and of each by itself."""
        rouge = summary_scores(answers, held_out.references)
        of_counts = (counts.accuracy, counts.perplexity) if counts else ()
        return Judged(
            SummarizationScores(rouge, held_out.sources, held_out.references, *of_counts),
            held_out.sources,
            answers,
            held_out.references,
            lambda: _singly(rouge),
        )

    def numbers(self, scores: SummarizationScores) -> dict[str, float]:
        """What the log keeps and the best weights may be chosen by."""
        values = {name: 100 * rouge.f1.mean for name, rouge in scores.measures.items()}
        return values | of_tokens(scores.perplexity, scores.token_accuracy)

    def compare(self, systems: Sequence[tuple[str, Judged]]) -> Comparison:
        """Whether models summarise better than the first of them, or were lucky: the bootstrap, by document."""
        singly = [(system, it.singly()) for system, it in systems]
        names = singly[0][1]
        return Comparison({it: compare_means([(system, values[it]) for system, values in singly]) for it in names}, {})


def _by_name(scores: SummaryScores) -> dict[str, Rouge]:
    return {"rouge1": scores.rouge_1, "rouge2": scores.rouge_2, "rougeL": scores.rouge_l}


def _singly(scores: SummaryScores) -> dict[str, FloatArray]:
    """F1 of each document. 0 to 100, (N,)"""
    return {name: 100.0 * rouge.f1.values for name, rouge in _by_name(scores).items()}


def _percent(scores: SummaryScores) -> dict[str, Any]:
    """F1 and its interval, 0 to 100."""
    values: dict[str, Any] = {}
    for name, rouge in _by_name(scores).items():
        values |= {name: 100 * rouge.f1.mean, f"{name}_interval": [100 * rouge.f1.low, 100 * rouge.f1.high]}
    return values
