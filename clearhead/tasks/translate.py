"""Translation: from a source sentence to a target sentence, with an encoder-decoder."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..config import TASKS, Config
from ..data.corpus import origin_of
from ..data.forms import PairForm
from ..readers.column_roles import SENTENCES
from ..scoring.translation_scores import Scores, TokenCounts, score, sentence_chrf
from .base import EvaluationResult, Units
from .examples import HeldOut
from .sequences import Sequences, token_numbers

if TYPE_CHECKING:
    from ..scoring.bootstrap import Comparison


class Translation(Sequences):
    """Translate sentences. BLEU, chrF and exact match are the scores."""

    verb = "translate"
    form = PairForm(SENTENCES)
    units = Units("pairs", "target tokens", "translation", "sentences")
    title = "A translation model"
    training_data = "sentence pairs"
    usage = '"a sentence"'
    required = TASKS["translate"].needs
    unused = ("model.pooling", "model.n_token_types")
    scores = ("loss", "token_accuracy", "bleu", "chrf", "exact_match")
    compared_by = ("bleu", "chrf")

    @classmethod
    def from_data(cls, data: Any, config: Config) -> Mapping[str, Any]:
        """Return the licence and the source stated in the data, for the model card."""
        return origin_of(data, config)

    def judge(self, held_out: HeldOut, answers: Sequence[str], counts: TokenCounts | None) -> EvaluationResult:
        """Score translations by BLEU, chrF and exact match.

        Args:
            held_out: has one or more references for each sentence.
            answers: one translation for each sentence.
            counts: sums over the target tokens. Without them (None), there's no token accuracy and no perplexity.
        """
        references = held_out.references
        return EvaluationResult(
            score(answers, references, counts),
            held_out.sources,
            answers,
            references,
            lambda: {"chrf": np.array(sentence_chrf(answers, references))},
        )

    def numbers(self, scores: Scores) -> dict[str, float]:
        values = {"bleu": scores.bleu, "chrf": scores.chrf, "exact_match": scores.exact_match}
        return values | token_numbers(scores)

    def compare(self, systems: Sequence[tuple[str, EvaluationResult]]) -> "Comparison":
        from ..scoring.bootstrap import paired_bootstrap

        return paired_bootstrap([(name, it.answers) for name, it in systems], systems[0][1].references)
