"""Summarization: from a document to its summary, trained like translation and scored by ROUGE."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ...config import TASKS, Config
from ...data.forms import PairForm
from ...readers.column_roles import SUMMARIES
from ...scoring.summary_scores import summary_scores
from ...scoring.translation_scores import TokenCounts
from ..base import EvaluationResult, Units, rotary_positions
from ..examples import HeldOut
from ..sequences.task import Sequences, token_numbers
from .scores import SummarizationScores, of_each


class Summarization(Sequences):
    """Summarize documents. Long documents are truncated to the maximum length in training."""

    verb = "summarize"
    form = PairForm(SUMMARIES)
    units = Units("documents", "summary tokens", "summary", "documents")
    title = "A summarization model"
    training_data = "documents with summaries"
    usage = '"a document"'
    required = TASKS["summarize"].needs
    defaults: ClassVar[dict[str, Any]] = {
        "data.max_len": 400,
        "decode.no_repeat_ngram": 3,
        "decode.alpha": 2.0,  # without a strong length penalty, the shortest summaries win
        "train.best": "rougeL",
    }
    unused = ("model.pooling", "model.n_token_types")
    scores = ("loss", "token_accuracy", "rouge1", "rouge2", "rougeL")
    compared_by = ("rougeL", "rouge1", "rouge2")
    cuts = "summaries"

    @classmethod
    def derived(cls, config: Config) -> Mapping[str, Any]:
        """Return the settings for a pointer, rotary positions and a limit on the length of summaries.

        The pointer needs a joint vocabulary. On SAMSum, 240 steps of `nano` reach a validation loss of 4.1 with it and
        5.6 without; eight minutes reach 2.5 with rotary positions and 3.0 with sinusoidal ones. The limit keeps a
        document longer than those in training from getting a longer summary.
        """
        longest = max(config.data.max_len, config.decode.min_len)
        return {"model.copy": config.data.joint, "decode.max_len": longest} | rotary_positions(config)

    @property
    def readable(self) -> tuple[int, str]:
        """The limit in training, where the model saw only the beginning of longer documents."""
        return self.longest

    def judge(self, held_out: HeldOut, answers: Sequence[str], counts: TokenCounts | None) -> EvaluationResult:
        """Score summaries by ROUGE, all together and one by one."""
        rouge = summary_scores(answers, held_out.references)
        of_counts = (counts.accuracy, counts.perplexity) if counts else ()
        return EvaluationResult(
            SummarizationScores(rouge, held_out.sources, held_out.references, *of_counts),
            held_out.sources,
            answers,
            held_out.references,
            lambda: of_each(rouge),
        )

    def numbers(self, scores: SummarizationScores) -> dict[str, float]:
        """Return the scores for the training log."""
        values = {name: 100 * rouge.f1.mean for name, rouge in scores.measures.items()}
        return values | token_numbers(scores)
