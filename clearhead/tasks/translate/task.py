"""Translation: source and target sentences for an encoder-decoder."""

from collections.abc import Sequence

import numpy as np

from ...scoring.significance import Comparison, paired_bootstrap
from ...scoring.translation_scores import Scores, TokenCounts, score, sentence_chrf
from ..base import Judged, Units
from ..examples import HeldOut
from ..sequences import Sequences, of_tokens


class Translation(Sequences):
    """What training and scoring need to know of the task."""

    units = Units("pairs", "target tokens", "translation", "sentences")

    def judge(self, held_out: HeldOut, answers: Sequence[str], counts: TokenCounts | None) -> Judged:
        """BLEU, chrF and exact matches; each translation by itself has its chrF."""
        references = held_out.references
        return Judged(
            score(answers, references, counts),
            held_out.sources,
            answers,
            references,
            lambda: {"chrf": np.array(sentence_chrf(answers, references))},
        )

    def numbers(self, scores: Scores) -> dict[str, float]:
        """What the log keeps and the best weights may be chosen by."""
        values = {"bleu": scores.bleu, "chrf": scores.chrf, "exact_match": scores.exact_match}
        return values | of_tokens(scores.perplexity, scores.token_accuracy)

    def compare(self, systems: Sequence[tuple[str, Judged]]) -> Comparison:
        """Whether models translate better than the first of them, or were lucky: the paired bootstrap."""
        return paired_bootstrap([(name, it.answers) for name, it in systems], systems[0][1].references)
