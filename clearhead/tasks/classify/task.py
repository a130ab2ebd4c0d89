"""Classification: which label a text has. An encoder, and on it a score for each label (BERT, Devlin et al. 2019)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...config import DROPOUT, Config, DecodeConfig
from ...data.batches import Batches
from ...model.transformer import evaluation
from ...readers.pairs import Pairs
from ...scoring.class_scores import ClassScores, class_scores
from ...scoring.confusion import confusion_table
from ...scoring.resampling import FloatArray
from ...scoring.significance import Comparison, compare_means
from ...tokenization.ragged import IntArray, Ragged
from ...tokenization.tokenizer import PAD, Tokenizers
from ..base import Judged, Units
from ..loss import class_cross_entropy, disagreement
from .labels import HeldOutTexts, LabelledEncoder, LabelledTexts


@dataclass(frozen=True)
class LabelScores:
    """The scores of a classifier, with the labels that it cannot give: texts of these count as wrong.

    `loss` is -log p of the right label in nats, the mean over the texts whose label it can give; None without any.
    """

    scores: ClassScores
    loss: float | None
    n_unseen: int  # texts of the other labels

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        values = self.scores.to_dict()
        found = {"texts": values.pop("examples"), **values, "unseen_labels": self.n_unseen}
        del found["negative_log_likelihood"]
        return found | ({} if self.loss is None else {"negative_log_likelihood": self.loss})


class Classification:
    """What training and scoring need to know of the task."""

    units = Units("texts", "tokens", "label", "texts")

    def __init__(self, tokenizers: Tokenizers, config: Config) -> None:
        self.tokenizers, self.config = tokenizers, config
        self.labels = config.data.labels
        self.device = torch.device(config.train.device)

    @property
    def longest(self) -> tuple[int, str]:
        """The most tokens of a text that are read, and the setting that says so; EOS and BOS come to them."""
        readable = self.config.model.max_len - 1 - self._begins
        return min((self.config.data.max_len, "data.max_len"), (readable, "model.max_len"))

    @property
    def _begins(self) -> bool:
        """Whether a token stands in front of the text, for what is read of it to be taken from there."""
        return self.config.model.pooling == "first"

    @property
    def encoder(self) -> LabelledEncoder:
        """What makes tokens of texts, and numbers of labels."""
        return LabelledEncoder(self.tokenizers.source, self.labels, *self.longest, begins=self._begins)

    def examples(self, sides: tuple[Ragged, Ragged]) -> LabelledTexts:
        """The examples, which may stay on the disk."""
        return LabelledTexts(*sides)

    def hold_out(self, data: Pairs) -> HeldOutTexts:
        """Prepare texts for scoring."""
        return HeldOutTexts.of(data, self.encoder)

    def loss(self, model: nn.Module, examples: LabelledTexts, rows: IntArray, *, smoothing: float) -> Tensor:
        """Cross-entropy summed over the texts, each weighed by its label with `train.balance`.

        With `train.r_drop`, a, it is the mean of two readings and a/4 of their disagreement: half of that paper's loss,
        to be as large as that of one reading. Without dropout there is one: both would be the same.
        """
        texts = torch.from_numpy(examples.sources.padded(rows, PAD)).to(self.device)
        targets, weights = torch.from_numpy(examples.numbers[rows]).to(self.device), None
        if self.config.train.balance:
            weights = torch.from_numpy(examples.weights(len(self.labels))).to(self.device)
        drops = any(self.config.value(name) for name in DROPOUT)
        if not (self.config.train.r_drop and drops):
            return class_cross_entropy(model(texts), targets, smoothing=smoothing, weights=weights)
        both = model(texts.repeat(2, 1))
        right = class_cross_entropy(both, targets.repeat(2), smoothing=smoothing, weights=weights)
        one, other = both.chunk(2)
        apart = disagreement(one, other, None if weights is None else weights[targets])
        return right / 2 + self.config.train.r_drop / 4 * apart

    def log_probabilities(self, model: nn.Module, texts: Ragged, together: int) -> FloatArray:
        """Of every label, for each text; at most `together` tokens are read at once. (N, C)"""
        found = np.empty((len(texts), len(self.labels)))
        batches = Batches(texts.lengths, np.zeros_like(texts.lengths), together)
        with evaluation(model), torch.inference_mode():
            for rows in batches.epoch(0):
                logits = model(torch.from_numpy(texts.padded(rows, PAD)).to(self.device))
                found[rows] = logits.double().log_softmax(-1).cpu().numpy()
        return found

    def evaluate(self, model: nn.Module, held_out: HeldOutTexts, decode: DecodeConfig) -> Judged:
        """Label every text, and score that."""
        log_p, truth = self.log_probabilities(model, held_out.tokens, decode.batch_tokens), held_out.truth
        never = np.full((len(log_p), len(held_out.labels) - len(self.labels)), -np.inf)
        log_p = np.concatenate([log_p, never], axis=1)
        of_right, known = log_p[np.arange(len(truth)), truth], truth < len(self.labels)
        scores = class_scores(log_p, truth, held_out.labels)
        loss = float(-of_right[known].mean()) if known.any() else None
        return Judged(
            LabelScores(scores, loss, int((~known).sum())),
            held_out.sources,
            [held_out.labels[number] for number in log_p.argmax(1)],
            held_out.references,
            lambda: {"right_probability": np.exp(of_right), "accuracy": scores.accuracy.values.astype(np.float64)},
            confusion_table(scores),
        )

    def numbers(self, scores: LabelScores) -> dict[str, float]:
        """What the log keeps and the best weights may be chosen by."""
        values = {"accuracy": scores.scores.accuracy.mean, "macro_f1": scores.scores.macro_f1}
        return values if scores.loss is None else {"loss": scores.loss, **values}

    def compare(self, systems: Sequence[tuple[str, Judged]]) -> Comparison:
        """Whether models are right more often than the first of them, or were lucky."""
        name = "accuracy"
        return Comparison({name: compare_means([(system, it.singly()[name]) for system, it in systems])}, {})

    def expect_search(self, model: nn.Module) -> None:
        """Nothing is searched for."""
