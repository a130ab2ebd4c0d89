"""Classification of texts with any number of labels: a sigmoid and a threshold for each label."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ...config import Config, DecodeConfig
from ...config.task_spec import Column
from ...config.values import require
from ...decode.model_handle import ModelHandle, as_module
from ...readers.column_roles import label_list
from ...readers.pairs import Pairs
from ...readers.skipped import Skipped
from ...scoring.bootstrap import FloatArray
from ...scoring.class_scores import (
    DEFAULT,
    BoolArray,
    LabelSetScores,
    best_thresholds,
    label_set_scores,
    label_table,
)
from ...tokenization.ragged import IntArray, Ragged
from ..base import EvaluationResult, HeldOut
from ..source_reader import on_device
from .examples import UNSEEN, LabelledExamples, LabelScores
from .records import LabelSet, ranked
from .task import Classification

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True)
class SeveralLabels(LabelledExamples):
    """Texts as tokens. The target of each is the numbers of its labels, which may be none."""

    def batches(self, max_tokens: int, seed: int = 0, max_rows: int | None = None) -> Any:
        """Return the batches of each epoch. Each text counts as one prediction, however many labels it has.

        Args:
            max_tokens: maximum number of tokens in a batch, with padding.
            seed: seed of the order, which is different in each epoch.
            max_rows: maximum number of texts in a batch (default: no limit).
        """
        one_each = Ragged.of(np.zeros(len(self), np.int32), np.ones(len(self), np.int64))  # each text counts the same
        return LabelledExamples(self.sources, one_each, positions=self.positions).batches(max_tokens, seed, max_rows)


@dataclass(frozen=True)
class HeldOutSeveral(HeldOut):
    """Held-out texts. Those with an unknown label have no loss.

    Args:
        labels: the labels of the model, followed by the ones it doesn't know.
        truth: whether each text has each label (N, C).
    """

    labels: tuple[str, ...] = field(kw_only=True)
    truth: BoolArray = field(kw_only=True)


class MultiLabelClassification(Classification):
    """Give texts any number of labels."""

    title = "A text classifier with several labels per text"
    defaults: ClassVar[dict[str, Any]] = {
        **Classification.defaults,
        "train.r_drop": 0.0,  # rare labels are hardly learned with it: two readings soon agree on no label
    }
    scores = ("loss", "micro_f1", "macro_f1", "mean_average_precision")
    compared_by = ("exact_match",)
    is_tuned = True

    @classmethod
    def derived(cls, config: Config) -> Mapping[str, Any]:
        what = "doesn't work with several labels per text, which have no common weight"
        require(not config.train.balance, "train.balance", True, "false", what=what, fix="leave out train.balance")
        return super().derived(config)

    @property
    def columns(self) -> Mapping[str, Column]:
        return {"label": Column("label")}

    @property
    def separator(self) -> str:
        """The separator of the labels in an answer."""
        return self.config.data.label_separator

    @property
    def thresholds(self) -> tuple[float, ...]:
        """The probability from which a text has each label."""
        return self.config.data.thresholds or (DEFAULT,) * len(self.labels)

    def chosen(self, p: Sequence[float]) -> list[str]:
        """Return the labels of a text with these probabilities, the most likely first. (C,)"""
        given = [number for number, it in enumerate(self.thresholds) if p[number] >= it]
        return [self.labels[number] for number in sorted(given, key=lambda it: -p[it])]

    def examples(self, sides: tuple[Ragged, Ragged]) -> SeveralLabels:
        return SeveralLabels(*sides, positions=self.reader.positions)

    def hold_out(self, data: Pairs) -> HeldOutSeveral:  # type: ignore[override]
        """Prepare texts for scoring. An unknown label is never predicted."""
        given = [label_list(it) for it in data.targets]
        labels = (*self.labels, *sorted({it for own in given for it in own} - {*self.labels}))
        numbers = {label: number for number, label in enumerate(labels)}
        found = self.reader.readable(data)
        truth = np.zeros((len(found.places), len(labels)), np.bool_)
        for row, i in enumerate(found.places):
            truth[row, [numbers[it] for it in given[i]]] = True
        unseen, too_long = np.any(truth[:, len(self.labels) :], axis=1), [*found.unread]
        for i in (i for i, is_unseen in zip(found.places, unseen.tolist()) if is_unseen):
            names = self.separator.join(it for it in given[i] if it not in self.labels)
            too_long.append(Skipped(int(data.lines[i]), UNSEEN, f"{names}: {data.sources[i]}"))
        encoded = found.arrays.take(np.flatnonzero(~unseen)) if unseen.any() else found.arrays
        targets = Ragged([np.flatnonzero(row).tolist() for row in truth[~unseen]])
        examples = SeveralLabels(encoded, targets, positions=self.reader.positions)
        texts, references = (
            [data.sources[i] for i in found.places],
            [[self.separator.join(given[i])] for i in found.places],
        )
        n_cut = int((found.cut > 0).sum())
        return HeldOutSeveral(examples, too_long, n_cut, texts, references, found.arrays, labels=labels, truth=truth)

    def criterion(self, logits: "Tensor", examples: LabelledExamples, rows: IntArray, smoothing: float) -> "Tensor":
        """Return the binary cross-entropy of each label, summed over labels and texts. (B, C), (B,) -> ()

        Args:
            logits: those of all labels.
            examples: texts with the numbers of their labels.
            rows: the examples that the logits are for.
            smoothing: amount of label smoothing; see `label_cross_entropy`.
        """
        from ..loss import label_cross_entropy

        targets = np.zeros((len(rows), len(self.labels)), np.float32)
        for own, row in zip(targets, rows.tolist()):
            own[examples.targets.array(row)] = 1
        return label_cross_entropy(logits, on_device(targets, self.config.train.device), smoothing=smoothing)

    def disagreement(self, logits: "Tensor", examples: LabelledExamples, rows: IntArray) -> "Tensor":
        """Return the R-Drop loss: the difference between two predictions for the same texts.

        Args:
            logits: those of all labels, from two readings (2B, C).
            examples: not used: labels have no weights.
            rows: not used.
        """
        from ..loss import label_disagreement

        return label_disagreement(*logits.chunk(2))

    def log_p(self, logits: "Tensor") -> "Tensor":
        from torch.nn.functional import logsigmoid

        return logsigmoid(logits)

    def record(self, text: str, scores: FloatArray, unknown: tuple[str, ...] = (), cut: int = 0) -> LabelSet:
        """Return the labels of a text.

        Args:
            text: the text, which is part of the record.
            scores: a row of `log_probabilities` (C,).
            unknown: words of the text that the vocabulary lacks.
            cut: number of tokens that were cut off.
        """
        p = np.exp(scores).tolist()
        chosen = self.chosen(p)
        return LabelSet(text, self.separator.join(chosen), tuple(chosen), ranked(self.labels, p), unknown, cut=cut)

    def certainty(self, scores: FloatArray) -> FloatArray:
        """Return the log-probability of the labels in the answer and of no others. (N, C) -> (N,)"""
        p = np.exp(scores)
        return np.log(np.where(p >= np.array(self.thresholds), p, 1 - p).clip(min=1e-12)).sum(1)

    def evaluate(  # type: ignore[override]
        self, model: "ModelHandle | nn.Module", held_out: HeldOutSeveral, decode: DecodeConfig
    ) -> EvaluationResult:
        """Label texts, and score the labels. Also offer the thresholds with the best F1 on these texts.

        Args:
            model: a torch module or a handle of a loaded model.
            held_out: texts with their labels.
            decode: `batch_tokens` is the number of tokens read at a time.
        """
        log_p = self.log_probabilities(as_module(model), held_out.encoded, decode.batch_tokens)
        n, truth = len(self.labels), held_out.truth
        p, known = np.exp(log_p), ~np.any(truth[:, n:], axis=1)
        of_known = np.where(truth[:, :n], log_p, np.log1p(-p.clip(max=1 - 1e-16))).sum(1)
        never = np.zeros((len(p), len(held_out.labels) - n))
        thresholds = (*self.thresholds, *(1.0,) * never.shape[1])
        scores = label_set_scores(np.concatenate([p, never], 1), truth, held_out.labels, thresholds)
        exact = scores.exact_match.values.astype(np.float64)
        return EvaluationResult(
            LabelScores(scores, float(-of_known[known].mean()) if known.any() else None, int((~known).sum())),
            held_out.sources,
            [self.separator.join(self.chosen(it)) for it in p.tolist()],
            held_out.references,
            lambda: {"right_probability": np.exp(of_known), "exact_match": exact},
            label_table(scores),
            tuned=lambda: {"data.thresholds": best_thresholds(p, truth[:, :n])},
            certainty=self.certainty(log_p),
        )

    def numbers(self, scores: LabelScores[LabelSetScores]) -> dict[str, float]:  # type: ignore[override]
        names = ("micro_f1", "macro_f1", "mean_average_precision")
        values = {name: getattr(scores.scores, name) for name in names}
        return values if scores.loss is None else {"loss": scores.loss, **values}
