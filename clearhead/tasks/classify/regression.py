"""Regression: an encoder whose only output is a number, trained on the squared error of standardised numbers."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ...config import Config, DecodeConfig
from ...config.task_spec import Column
from ...config.values import require
from ...data.corpus import LabelledCorpus
from ...data.encoding import Encoded
from ...decode.model_handle import ModelHandle, as_module
from ...errors import DataError
from ...readers.columns import is_number
from ...readers.lines import shown
from ...readers.pairs import Pairs
from ...readers.skipped import Report
from ...scoring.bootstrap import FloatArray
from ...scoring.class_scores import NumberScores, number_scores, spelled
from ...tokenization.ragged import IntArray, Ragged
from ..base import EvaluationResult, ExampleEncoder, HeldOut
from ..source_reader import on_device
from .examples import LabelledEncoder, LabelledExamples, unusable
from .records import Numbered
from .task import Classification

if TYPE_CHECKING:
    from torch import Tensor, nn


HEAD = ("head.linear.weight", "head.linear.bias")
_LARGEST = 1e30  # the largest number to train on; float32 has larger ones, but not much larger


@dataclass(frozen=True)
class NumberedExamples(LabelledExamples):
    """Texts as tokens. The target of each is the bits of its standardised number."""

    @cached_property
    def values(self) -> FloatArray:
        """The standardised number of each text. (N,)"""
        return np.ascontiguousarray(self.targets.tokens, np.int32).view(np.float32)


@dataclass(frozen=True)
class NumberedEncoder(LabelledEncoder):
    """Tokenizes texts and standardises their numbers.

    Args:
        scale: mean and deviation.
    """

    scale: tuple[float, float] = field(kw_only=True)

    def __call__(self, pairs: Pairs) -> Encoded:
        values = numbers_of(zip(pairs.lines, pairs.targets), pairs.report)
        found = super().__call__(Pairs(pairs.sources, [""] * len(pairs), pairs.lines, pairs.report))
        return replace(found, targets=standardised(values, self.scale))


@dataclass(frozen=True)
class HeldOutNumbered(HeldOut):
    """Held-out texts.

    Args:
        truth: the number of each text (N,).
    """

    truth: FloatArray = field(kw_only=True)


def numbers_of(labels: Iterable[tuple[int, str]], report: Report) -> FloatArray:
    """Return the numbers in cells with their lines. (N,)

    Raises:
        DataError: a cell isn't a number.
    """
    found = []
    for line, cell in labels:
        if not is_number(cell):
            raise DataError(
                f"{' and '.join(report.paths)}: the label of {report.place(line)} isn't a number: {shown(cell)}",
                expected="a number such as 3 or -0.5",
                fix="correct the line or, if other columns have text and number, name them with "
                "`data.source_column=NAME` and `data.target_column=NAME`",
                name="data.label_kind",
                value=cell,
                line=line,
            )
        found.append(float(cell.strip('"')))
    return np.array(found, np.float64)


def standardised(values: FloatArray, scale: tuple[float, float]) -> Ragged:
    """Return the bits of the numbers without mean and deviation, as float32. (N,) -> N sequences of one"""
    mean, deviation = scale
    bits = ((values - mean) / deviation).astype(np.float32).view(np.int32)
    return Ragged.of(bits, np.ones(len(bits), np.int64))


def rescaled(
    weights: "Mapping[str, Tensor]", scale: tuple[float, ...], new: tuple[float, ...] = ()
) -> "Mapping[str, Tensor]":
    """Return weights whose head predicts the same numbers with another standardisation. Others stay unchanged.

    Args:
        weights: the weights of a model or an adapter.
        scale: mean and deviation of the numbers that the head says (default: 0 and 1).
        new: the same for the new head.
    """
    if scale == new or not {*HEAD} <= weights.keys():
        return weights
    (mean, deviation), (new_mean, new_deviation) = scale or (0.0, 1.0), new or (0.0, 1.0)
    weight, bias = (weights[name] * (deviation / new_deviation) for name in HEAD)
    return {**weights, HEAD[0]: weight, HEAD[1]: bias + (mean - new_mean) / new_deviation}


class Regression(Classification):
    """Predict a number for each text."""

    title = "A model that predicts numbers from texts"
    training_data = "texts with numbers"
    defaults: ClassVar[dict[str, Any]] = {**Classification.defaults, "train.r_drop": 0.0, "train.label_smoothing": 0.0}
    scores = ("loss", "pearson", "spearman")
    compared_by = ("mse",)

    @classmethod
    def derived(cls, config: Config) -> Mapping[str, Any]:
        for name, off in {"train.balance": "false", "train.r_drop": "0", "train.label_smoothing": "0"}.items():
            what, fix = "is for labels, not for numbers", f"leave out {name}"
            require(not config.value(name), name, config.value(name), off, what=what, fix=fix)
        return super().derived(config)

    @classmethod
    def from_data(cls, data: Any, config: Config) -> Mapping[str, Any]:
        """Return the settings for the numbers in the data: their mean and deviation.

        A model that continues from another (train.init_from) keeps its own if they're close: within one deviation, and
        a factor of two.

        Raises:
            DataError: a label isn't a number or is too large, or all are the same.
        """
        assert isinstance(data, LabelledCorpus)
        values = numbers_of(((line, cell) for line, _, cell in data), data.source.report)
        if (largest := float(np.abs(values).max())) > _LARGEST:
            raise unusable(data, f"numbers as large as {largest:g}", f"numbers up to {_LARGEST:g}", largest)
        if values.min() == values.max():
            raise unusable(data, f"only the number {spelled(values[0])} to train on", "different numbers", 1)
        mean, deviation = float(values.mean()), float(values.std())
        if config.train.init_from and config.data.labels:
            known_mean, known = config.data.number_scale or (0.0, 1.0)
            if abs(mean - known_mean) <= known and known / 2 <= deviation <= 2 * known:
                return {}
        labels = config.data.labels or (config.data.target_column or "number",)
        return {"data.labels": labels, "model.n_classes": 1, "data.number_scale": (mean, deviation)}

    @property
    def columns(self) -> Mapping[str, Column]:
        return {"number": Column("number", "number")}

    @property
    def scale(self) -> tuple[float, float]:
        """The mean and the deviation of the training data's numbers."""
        mean, deviation = self.config.data.number_scale or (0.0, 1.0)
        return mean, deviation

    @property
    def stored_as(self) -> tuple[str, str]:
        return super().stored_as[0], "<i4"

    @property
    def encoder(self) -> ExampleEncoder:
        encoder = super().encoder
        assert isinstance(encoder, LabelledEncoder)
        return NumberedEncoder(encoder.reader, (), encoder.limit, scale=self.scale)

    def examples(self, sides: tuple[Ragged, Ragged]) -> NumberedExamples:
        return NumberedExamples(*sides, positions=self.reader.positions)

    def hold_out(self, data: Pairs) -> HeldOutNumbered:  # type: ignore[override]
        found, truth = self.reader.readable(data), numbers_of(zip(data.lines, data.targets), data.report)
        examples = self.examples((found.arrays, standardised(truth, self.scale)))
        references, n_cut = [[spelled(it)] for it in truth.tolist()], int((found.cut > 0).sum())
        return HeldOutNumbered(examples, found.unread, n_cut, data.sources, references, found.arrays, truth=truth)

    def any_target(self, number: int) -> list[int]:
        return [int(np.float32(number).view(np.int32))]

    def criterion(  # type: ignore[override]
        self, logits: "Tensor", examples: NumberedExamples, rows: IntArray, smoothing: float
    ) -> "Tensor":
        """Return the squared error, summed over the texts in these rows. (B, 1), (B,) -> ()

        Args:
            logits: standardised numbers.
            examples: texts with their standardised numbers.
            rows: the examples that the logits are for.
            smoothing: not used.
        """
        import torch

        wide = logits[:, 0].to(torch.promote_types(logits.dtype, torch.float32))
        return ((wide - on_device(examples.values[rows], self.config.train.device)) ** 2).sum()

    def log_p(self, logits: "Tensor") -> "Tensor":
        """Return the numbers, which take the place of log-probabilities. (B, 1) -> (B, 1)"""
        mean, deviation = self.scale
        return logits * deviation + mean

    def record(self, text: str, scores: FloatArray, unknown: tuple[str, ...] = (), cut: int = 0) -> Numbered:
        """Return the number of a text.

        Args:
            text: the text, which is part of the record.
            scores: a row of `log_probabilities`, which holds the number (1,).
            unknown: words of the text that the vocabulary lacks.
            cut: number of tokens that were cut off.
        """
        return Numbered(text, float(scores[0]), unknown, cut=cut)

    def certainty(self, scores: FloatArray) -> None:
        """Return None: a number comes without a probability."""

    def evaluate(  # type: ignore[override]
        self, model: "ModelHandle | nn.Module", held_out: HeldOutNumbered, decode: DecodeConfig
    ) -> EvaluationResult:
        """Predict the number of each text, and score the predictions.

        Args:
            model: a torch module or a handle of a loaded model.
            held_out: texts with their numbers.
            decode: `batch_tokens` is the number of tokens read at a time.
        """
        found = self.log_probabilities(as_module(model), held_out.encoded, decode.batch_tokens)[:, 0]
        scores = number_scores(found, held_out.truth)
        return EvaluationResult(
            scores,
            held_out.sources,
            [spelled(it) for it in found.tolist()],
            held_out.references,
            lambda: {"mse": scores.mse.values},
        )

    def numbers(self, scores: NumberScores) -> dict[str, float]:  # type: ignore[override]
        loss = scores.mse.mean / self.scale[1] ** 2  # of standardised numbers
        return {"loss": loss, "rmse": scores.rmse, "pearson": scores.pearson, "spearman": scores.spearman}
