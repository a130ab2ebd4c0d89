"""Classification of texts with several targets, such as topic and priority: a softmax over the labels of each."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ...config import DecodeConfig
from ...config.task_spec import Column
from ...decode.model_handle import ModelHandle, as_module
from ...readers.column_roles import OF_PROBABILITY, by_target, label_list
from ...readers.pairs import Pairs
from ...scoring.bootstrap import Estimate, FloatArray, estimates
from ...tokenization.ragged import IntArray, Ragged
from ..base import EvaluationResult, HeldOut
from .examples import HeldOutLabelled, LabelledExamples, expect_targets
from .records import TargetLabels, ranked
from .task import Classification

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True)
class Target:
    """One of several targets: its name, the place of its labels among all labels, and the task of predicting it."""

    name: str
    place: slice
    task: Classification

    @property
    def labels(self) -> Sequence[str]:
        """The labels without the name of the target."""
        return self.task.labels


@dataclass(frozen=True)
class TargetExamples(LabelledExamples):
    """Texts as tokens. The target of each is the numbers of its labels, one for each of several targets.

    Args:
        starts: the number of the first label of each target.
    """

    starts: Sequence[int] = field(kw_only=True)

    @cached_property
    def parts(self) -> list[LabelledExamples]:
        """The texts with their labels of each target, numbered from 0."""
        one_each = np.ones(len(self), np.int64)
        numbers = np.sort(self.numbers.reshape(-1, len(self.starts)), axis=1) - self.starts
        sides = (Ragged.of(own, one_each) for own in numbers.T.astype(np.int32))
        return [LabelledExamples(self.sources, own, positions=self.positions) for own in sides]

    def batches(self, max_tokens: int, seed: int = 0, max_rows: int | None = None) -> Any:
        """Return the batches of each epoch. Each text counts as one prediction, as with a single target.

        Args:
            max_tokens: maximum number of tokens in a batch, with padding.
            seed: seed of the order, which is different in each epoch.
            max_rows: maximum number of texts in a batch (default: no limit).
        """
        return self.parts[0].batches(max_tokens, seed, max_rows)  # each text counts the same


@dataclass(frozen=True)
class HeldOutTargets(HeldOut):
    """Held-out texts. Those with an unknown label have no loss.

    Args:
        parts: the texts with their labels of each target.
    """

    parts: Sequence[HeldOutLabelled] = field(kw_only=True)


@dataclass(frozen=True)
class TargetScores:
    """The scores of each target, and their means.

    Args:
        each: the scores of each target, by name.
        accuracy: the mean accuracy of the targets.
        loss: the sum of the targets' mean -log p of the correct label in nats; None without any known label.
    """

    each: Mapping[str, Mapping[str, Any]]
    accuracy: Estimate
    loss: float | None

    @property
    def macro_f1(self) -> float:
        """The mean of the targets' macro F1."""
        return float(np.mean([it["macro_f1"] for it in self.each.values()]))

    def to_dict(self) -> dict[str, Any]:
        found = {"texts": len(self.accuracy.values), **self.accuracy.named("accuracy"), "macro_f1": self.macro_f1}
        loss = {} if self.loss is None else {"negative_log_likelihood": self.loss}
        return {**found, **loss, "targets": {name: dict(values) for name, values in self.each.items()}}


class TargetClassification(Classification):
    """Give texts a label for each of several targets. The loss is the sum of theirs."""

    title = "A text classifier with several targets"
    defaults: ClassVar[dict[str, Any]] = {
        **Classification.defaults,
        "train.r_drop": 1.0,  # with 8, targets of many labels learn much less next to those of few
    }

    @cached_property
    def targets(self) -> Sequence[Target]:
        """The targets, in the order of their columns."""
        found, start = list[Target](), 0
        for name, labels in by_target(self.labels).items():
            config = self.config.assign({"data.labels": tuple(labels), "data.label_kind": ""}, "data")
            place = slice(start, start := start + len(labels))
            found.append(Target(name, place, Classification(self.tokenizers, config)))
        return found

    @property
    def columns(self) -> Mapping[str, Column]:
        found = {}
        for it in self.targets:
            found[it.name] = Column("labels", key=it.name)
            found[f"{it.name}{OF_PROBABILITY}"] = Column("probability", "number", it.name)
        return found

    def joined(self, labels: Iterable[str]) -> str:
        """Return the labels of a text as one line."""
        return self.config.data.label_separator.join(labels)

    def examples(self, sides: tuple[Ragged, Ragged]) -> TargetExamples:
        starts = [it.place.start for it in self.targets]
        return TargetExamples(*sides, positions=self.reader.positions, starts=starts)

    def hold_out(self, data: Pairs) -> HeldOutTargets:  # type: ignore[override]
        """Prepare texts for scoring. Every answer to one with an unknown label counts as wrong.

        Raises:
            DataError: the data has other targets than the model.
        """
        given, names = [by_target(label_list(it)) for it in data.targets], [it.name for it in self.targets]
        for each in given:
            expect_targets([*each], names, data.report)
        found, parts = self.reader.readable(data), []
        for target in self.targets:
            own = Pairs(data.sources, [it[target.name][0] for it in given], data.lines, data.report)
            parts.append(HeldOutLabelled.of(own, found, self.reader, target.labels))
        known = np.all([it.truth < len(target.labels) for it, target in zip(parts, self.targets)], axis=0)
        numbers = np.stack([it.truth + target.place.start for it, target in zip(parts, self.targets)], axis=1)
        sides = found.arrays.take(np.flatnonzero(known)), Ragged(numbers[known].tolist())
        too_long = [*{it.line: it for part in parts for it in part.too_long}.values()]
        references = [[self.joined(it[0] for it in each)] for each in zip(*(part.references for part in parts))]
        return HeldOutTargets(
            self.examples(sides), too_long, parts[0].cut, parts[0].sources, references, found.arrays, parts=parts
        )

    def any_target(self, number: int) -> list[int]:
        return [it.place.start + number % len(it.labels) for it in self.targets]

    def criterion(  # type: ignore[override]
        self, logits: "Tensor", examples: TargetExamples, rows: IntArray, smoothing: float
    ) -> "Tensor":
        """Return the sum of the targets' cross-entropies over the texts in these rows. (B, C), (B,) -> ()

        Args:
            logits: those of all labels.
            examples: texts with one label of each target.
            rows: the examples that the logits are for.
            smoothing: amount of label smoothing, spread over the labels of a target.
        """
        each = zip(self.targets, examples.parts)
        return sum(it.task.criterion(logits[:, it.place], part, rows, smoothing) for it, part in each)  # type: ignore[return-value]

    def disagreement(  # type: ignore[override]
        self, logits: "Tensor", examples: TargetExamples, rows: IntArray
    ) -> "Tensor":
        """Return the sum of the targets' R-Drop losses: the difference between two predictions for the same texts.

        Args:
            logits: those of all labels, from two readings (2B, C).
            examples: texts with one label of each target.
            rows: the examples that were read (B,).
        """
        each = zip(self.targets, examples.parts)
        return sum(it.task.disagreement(logits[:, it.place], part, rows) for it, part in each)  # type: ignore[return-value]

    def log_p(self, logits: "Tensor") -> "Tensor":
        """Return the log-probability of every label among those of its target. (B, C) -> (B, C)"""
        import torch

        return torch.cat([logits[:, it.place].log_softmax(-1) for it in self.targets], dim=-1)

    def record(self, text: str, scores: FloatArray, unknown: tuple[str, ...] = (), cut: int = 0) -> TargetLabels:
        """Return the most likely label of each target.

        Args:
            text: the text, which is part of the record.
            scores: a row of `log_probabilities` (C,).
            unknown: words of the text that the vocabulary lacks.
            cut: number of tokens that were cut off.
        """
        p = np.exp(scores)
        each = {it.name: ranked(it.labels, p[it.place].tolist()) for it in self.targets}
        labels = {name: next(iter(own)) for name, own in each.items()}
        best = {name: own[labels[name]] for name, own in each.items()}
        return TargetLabels(text, self.joined(labels.values()), labels, best, each, unknown, cut=cut)

    def certainty(self, scores: FloatArray) -> FloatArray:
        """Return the log-probability of all labels of an answer. (N, C) -> (N,)"""
        return np.sum([scores[:, it.place].max(1) for it in self.targets], axis=0)

    def evaluate(  # type: ignore[override]
        self, model: "ModelHandle | nn.Module", held_out: HeldOutTargets, decode: DecodeConfig
    ) -> EvaluationResult:
        """Label texts, and score each target and their means.

        Args:
            model: a torch module or a handle of a loaded model.
            held_out: texts with the labels of each target.
            decode: `batch_tokens` is the number of tokens read at a time.
        """
        log_p = self.log_probabilities(as_module(model), held_out.encoded, decode.batch_tokens)
        found = [it.task.judged(log_p[:, it.place], part) for it, part in zip(self.targets, held_out.parts)]
        singly = [it.singly() for it in found]
        per_text: dict[str, FloatArray] = {
            "right_probability": np.prod([it["right_probability"] for it in singly], axis=0),
            "accuracy": np.mean([it["accuracy"] for it in singly], axis=0),
        }
        each = {target.name: it.scores.to_dict() for target, it in zip(self.targets, found)}
        losses = [it["negative_log_likelihood"] for it in each.values() if "negative_log_likelihood" in it]
        loss = float(sum(losses)) if len(losses) == len(each) else None
        return EvaluationResult(
            TargetScores(each, estimates(per_text["accuracy"][:, None])[0], loss),
            held_out.sources,
            [self.joined(labels) for labels in zip(*(it.answers for it in found))],
            held_out.references,
            lambda: per_text,
            "\n\n".join(f"{target.name}\n{it.details}" for target, it in zip(self.targets, found)),
            certainty=self.certainty(log_p),
        )

    def numbers(self, scores: TargetScores) -> dict[str, float]:  # type: ignore[override]
        values = {"accuracy": scores.accuracy.mean, "macro_f1": scores.macro_f1}
        return values if scores.loss is None else {"loss": scores.loss, **values}
