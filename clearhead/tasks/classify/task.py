"""Classification of texts, images and audio: an encoder with a score for each label (BERT, Devlin et al. 2019)."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from ...config import DROPOUT, NEWEST, TASKS, Config, DecodeConfig
from ...data.batches import Batches
from ...data.forms import IMAGES, RECORDINGS, MediaForm, PairForm
from ...data.media_encoding import MediaEncoder
from ...decode.model_handle import ModelHandle, as_module
from ...readers.column_roles import LABELLED
from ...readers.pairs import Pairs
from ...scoring.bootstrap import Comparison, FloatArray, compare_means
from ...scoring.class_scores import ClassScores, class_scores, confusion_table, draw_confusion
from ...tokenization.ragged import IntArray, Ragged
from ...tokenization.source_and_target import Tokenizers
from ..base import EvaluationResult, ExampleEncoder, Task, Units, check_filled, rotary_positions, search_settings_but
from ..source_reader import Images, MediaReader, Recordings, SourceReader, TextReader, longest_text, on_device
from .examples import UNSEEN, HeldOutLabelled, LabelledEncoder, LabelledExamples, LabelScores, label_settings
from .records import ClassRecord, Labelled, ranked

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ...inspection.views.explanation import Explanation
    from ...model.transformer import EncoderModel


_OF_MEDIA: dict[str, Any] = {  # of images and audio alike
    "model.dropout": 0.1,
    "data.split": 0.05,
    "train.best": NEWEST,
    "train.eval_sentences": 5_000,
}


class Classification(Task):
    """Label texts."""

    verb = "classify"
    form = PairForm(LABELLED)
    units = Units("texts", "tokens", "label", "texts")
    title = "A text classifier"
    training_data = "labelled texts"
    usage = '"a text"'
    required: ClassVar[dict[str, Any]] = {**TASKS["classify"].needs, "data.joint": True}
    defaults: ClassVar[dict[str, Any]] = {
        "model.pre_norm": True,
        "model.dropout": 0.3,  # a model overfits a few thousand texts quickly
        "data.split": 0.05,
        "train.best": NEWEST,  # a few hundred held-out texts are too few to choose weights by a score
        "train.r_drop": 8.0,
        "train.eval_sentences": 10_000,  # labelling takes a thousandth of the time of translating
    }
    unused = ("model.n_token_types", *search_settings_but("batch_tokens"))
    scores: ClassVar[Sequence[str]] = ("loss", "accuracy", "macro_f1")
    compared_by: ClassVar[Sequence[str]] = ("accuracy", "right_probability")
    has_labels = True
    searches = False

    def __init__(self, tokenizers: Tokenizers, config: Config) -> None:
        super().__init__(tokenizers, config)
        self.labels = config.data.labels

    @classmethod
    def derived(cls, config: Config) -> Mapping[str, Any]:
        """Return the settings for a model that reads a text with BOS and EOS, with rotary positions."""
        return {"model.max_len": config.data.max_len + 2} | rotary_positions(config)

    @classmethod
    def from_data(cls, data: Any, config: Config) -> Mapping[str, Any]:
        return label_settings(data, config)

    @classmethod
    def texts(cls, data: Any) -> Sequence[str]:
        return data.sources

    @property
    def longest(self) -> tuple[int, str]:
        return longest_text(self.config)

    @cached_property
    def reader(self) -> SourceReader:
        """Reads sources. Those that are longer than `longest` are truncated."""
        return TextReader(self.tokenizers.source, self.longest[0], self.config.model.begins, self.config)

    @property
    def encoder(self) -> ExampleEncoder:
        return LabelledEncoder(cast(TextReader, self.reader), self.labels, self.longest[1])

    def examples(self, sides: tuple[Ragged, Ragged]) -> LabelledExamples:
        return LabelledExamples(*sides, positions=self.reader.positions)

    def hold_out(self, data: Pairs) -> HeldOutLabelled:
        """Prepare sources for scoring. Files that can't be read are reported, and not scored."""
        return HeldOutLabelled.of(data, self.reader.readable(data), self.reader, self.labels)

    def any_target(self, number: int) -> list[int]:
        """Return a target for an example that's made up, different for different numbers."""
        return [number % len(self.labels)]

    def loss(self, model: "nn.Module", examples: LabelledExamples, rows: IntArray, *, smoothing: float) -> "Tensor":
        """Return the cross-entropy, summed over the texts in these rows. With train.balance, it's weighted by label.

        With train.r_drop = a and any dropout, each text is read twice, and the loss is half the sum of both
        cross-entropies plus a/4 of their disagreement. That is half the loss of the R-Drop paper, so that its size
        doesn't depend on train.r_drop.

        Args:
            model: a model with a class head, or of a derived task.
            examples: texts, images or recordings with their labels.
            rows: indices of the examples (B,).
            smoothing: amount of label smoothing, spread over all labels.
        """
        import torch

        texts = self.reader.tensor(examples.sources, rows)
        if model.training:
            texts = cast("EncoderModel", model).encoder.embedding.augment(texts)
        drops = any(self.config.value(name) for name in DROPOUT)
        if not (self.config.train.r_drop and drops):
            return self.criterion(model(texts), examples, rows, smoothing)
        both = model(torch.cat((texts, texts)))
        right = self.criterion(both, examples, np.tile(rows, 2), smoothing)
        return right / 2 + self.config.train.r_drop / 4 * self.disagreement(both, examples, rows)

    def criterion(self, logits: "Tensor", examples: LabelledExamples, rows: IntArray, smoothing: float) -> "Tensor":
        """Return the cross-entropy, summed over the texts in these rows. (B, C), (B,) -> ()

        Args:
            logits: the scores of all labels.
            examples: texts with their labels.
            rows: the examples that the logits are for; with R-Drop, each of them twice.
            smoothing: amount of label smoothing, spread over all labels.
        """
        from ..loss import class_cross_entropy

        targets, weights = self._targets(examples, rows)
        return class_cross_entropy(logits, targets, smoothing=smoothing, weights=weights)

    def disagreement(self, logits: "Tensor", examples: LabelledExamples, rows: IntArray) -> "Tensor":
        """Return the R-Drop loss: the difference between two predictions for the same texts. (2B, C), (B,) -> ()

        Args:
            logits: the first readings of all texts, then the second ones.
            examples: texts with their labels, which have weights with train.balance.
            rows: the examples that were read.
        """
        from ..loss import disagreement

        (one, other), (targets, weights) = logits.chunk(2), self._targets(examples, rows)
        return disagreement(one, other, None if weights is None else weights[targets])

    def _targets(self, examples: LabelledExamples, rows: IntArray) -> "tuple[Tensor, Tensor | None]":
        """Return the label numbers of texts (B,), and with train.balance a weight for each label (C,)."""
        device, weights = self.config.train.device, None
        if self.config.train.balance:
            weights = on_device(examples.weights(len(self.labels)), device)
        return on_device(examples.numbers[rows], device), weights

    def log_probabilities(self, model: "nn.Module", texts: Ragged, together: int) -> FloatArray:
        """Return the log-probability of every label for each text, reading `together` tokens at a time. (N, C)

        Args:
            model: a torch module.
            texts: encoded sources, as `reader.joined` returns them.
            together: maximum number of tokens in a batch, with padding.
        """
        import torch

        from ...model.transformer import evaluation

        found = np.empty((len(texts), len(self.labels)))
        sizes = self.reader.positions(texts.lengths)
        batches = Batches(sizes, np.zeros_like(sizes), together)
        with evaluation(model), torch.inference_mode():
            for rows in batches.epoch(0):
                logits = model(self.reader.tensor(texts, rows))
                found[rows] = self.log_p(logits.double()).cpu().numpy()
        return found

    def log_p(self, logits: "Tensor") -> "Tensor":
        """Return the log-probability of every label. (B, C) -> (B, C)"""
        return logits.log_softmax(-1)

    def answers(self, model: "nn.Module", texts: Sequence[str], decode: DecodeConfig) -> list[str]:
        """Return the label of each text as it's printed.

        Args:
            model: a torch module.
            texts: raw texts, or the names of files.
            decode: `batch_tokens` is the number of tokens read at a time.
        """
        encoded, _ = self.reader.encode(texts)
        scores = self.log_probabilities(model, self.reader.joined(encoded), decode.batch_tokens)
        return [self.record(*it).label for it in zip(texts, scores)]

    def record(self, text: str, scores: FloatArray, unknown: tuple[str, ...] = (), cut: int = 0) -> ClassRecord:
        """Return the model's answer about a text.

        Args:
            scores: a row of `log_probabilities` (C,).
        """
        p = ranked(self.labels, np.exp(scores).tolist())
        best = next(iter(p))
        return Labelled(text, best, p[best], p, unknown, cut=cut)

    def certainty(self, scores: FloatArray) -> FloatArray | None:
        """Return the log-probability of each answer, or None if answers have none. (N, C) -> (N,)"""
        return scores.max(1)

    @property
    def scale(self) -> tuple[float, float] | None:
        """The mean and the deviation of the training data's numbers. None for labels."""
        return None

    def explain(self, model: Any, text: str, decode: DecodeConfig) -> "Explanation":
        """Label one text and record every step. A long text or recording is truncated.

        Args:
            model: a torch module.
            text: a raw text, or the name of an image or recording.
            decode: `batch_tokens` is the number of tokens read at a time.

        Raises:
            DataError: the text is blank, or the file can't be read.
        """
        from ...inspection.explaining import explain
        from ...inspection.record.forward_pass import Pass
        from ...inspection.record.uncompiled import uncompiled
        from ...inspection.views.contrast import Labels

        check_filled(text)
        sources = self.reader.joined(self.reader.encode([text])[0])
        with uncompiled(model):  # so that the recorded pass gives the same label
            scores = self.log_probabilities(model, sources, decode.batch_tokens)[0]
        found, best = self.record("", scores), int(scores.argmax())
        choice = Labels(
            self.labels,
            self.labels[best],
            found.said,
            of_targets=self.config.data.label_kind == "targets",
            scale=self.scale,
            answer=lambda scores: self.record("", scores).label,
        )
        forward = Pass(
            model=model,
            inputs=(self.reader.tensor(sources, np.arange(1)),),
            pieces=self.tokenizers.pieces,
            targets=(best,),
            said=(choice.best,),
            hidden=self.special.unk,
            log_p=self.log_p,
            measure="log-probability" if self.scale is None else "number",
        )
        return explain(forward, self.tokenizers, self.config, text, found.label, found.values, choice=choice)

    def evaluate(
        self, model: "ModelHandle | nn.Module", held_out: HeldOutLabelled, decode: DecodeConfig
    ) -> EvaluationResult:
        """Label held-out sources, and score the labels.

        Args:
            model: a torch module or a handle of a loaded model.
            held_out: sources with their labels.
            decode: `batch_tokens` is the number of tokens read at a time.
        """
        return self.judged(self.log_probabilities(as_module(model), held_out.encoded, decode.batch_tokens), held_out)

    def judged(self, log_p: FloatArray, held_out: HeldOutLabelled) -> EvaluationResult:
        """Score log-probabilities. (N, C)"""
        truth = held_out.truth
        never = np.full((len(log_p), len(held_out.labels) - len(self.labels)), -np.inf)
        log_p = np.concatenate([log_p, never], axis=1)
        of_right, known = log_p[np.arange(len(truth)), truth], truth < len(self.labels)
        scores = class_scores(log_p, truth, held_out.labels)
        loss = float(-of_right[known].mean()) if known.any() else None
        what = "texts" if "text" in self.modalities else self.units.examples
        return EvaluationResult(
            LabelScores(scores, loss, int((~known).sum()), what),
            held_out.sources,
            [held_out.labels[number] for number in log_p.argmax(1)],
            held_out.references,
            lambda: {"right_probability": np.exp(of_right), "accuracy": scores.accuracy.values.astype(np.float64)},
            confusion_table(scores),
            lambda folder: draw_confusion(scores, folder),
            certainty=self.certainty(log_p),
        )

    def numbers(self, scores: LabelScores[ClassScores]) -> dict[str, float]:
        values = {"accuracy": scores.scores.accuracy.mean, "macro_f1": scores.scores.macro_f1}
        return values if scores.loss is None else {"loss": scores.loss, **values}

    def compare(self, systems: Sequence[tuple[str, EvaluationResult]]) -> Comparison:
        """Compare the first of the scores `compared_by` of several models with that of the first one."""
        name = self.compared_by[0]
        return Comparison({name: compare_means([(system, it.singly()[name]) for system, it in systems])}, {})


# --- images and audio: the encoder of texts with another front end (ViT, Dosovitskiy et al. 2021) --------------------


class MediaClassification(Classification):
    """Classification of images or audio."""

    media: ClassVar[Images | Recordings]
    unused = (
        *("data.tokenizer", "data.vocab_size", "data.joint", "data.subword_dropout", "data.texts"),
        *("data.label_kind", "data.normalise", "data.reverse", "model.n_token_types", "model.copy"),
        *search_settings_but("batch_tokens"),
    )

    @classmethod
    def derived(cls, config: Config) -> Mapping[str, Any]:
        return cls.media.derived(config)

    @classmethod
    def from_data(cls, data: Any, config: Config) -> Mapping[str, Any]:
        return {**label_settings(data, config), **cls.media.from_data(data, config)}

    @classmethod
    def texts(cls, data: Any) -> Sequence[str]:
        """Return no texts: there's nothing to learn a tokenizer from."""
        return ()

    @property
    def longest(self) -> tuple[int, str]:
        return self.media.longest(self.config)

    @cached_property
    def reader(self) -> MediaReader:
        return MediaReader(self.media.loader(self.config), self.config)

    @property
    def stored_as(self) -> tuple[str, str]:
        return self.reader.loader.dtype, "<i4"

    @property
    def encoder(self) -> MediaEncoder:
        numbers = {label: number for number, label in enumerate(self.labels)}

        def targets(labels: Sequence[str]) -> list[list[int] | None]:
            return [[numbers[label]] if label in numbers else None for label in labels]

        length, setting = self.longest
        return MediaEncoder(self.reader.loader, targets, UNSEEN, f"longer than {length} positions ({setting})")


class ImageClassification(MediaClassification):
    """Label images."""

    media = Images()
    form = MediaForm(IMAGES, "image")
    units = Units("images", "patches", "label", "images", "pixels")
    title = "An image classifier"
    training_data = "labelled images"
    usage = "image.png"
    modalities = ("image",)
    required: ClassVar[dict[str, Any]] = {**TASKS["classify"].needs, "data.modality": "image"}
    defaults: ClassVar[dict[str, Any]] = {**_OF_MEDIA, **media.defaults}
    unused = (*MediaClassification.unused, "data.max_len", "model.max_len")


class AudioClassification(MediaClassification):
    """Label recordings. Longer ones are cut."""

    media = Recordings()
    form = MediaForm(RECORDINGS, "audio")
    units = Units("recordings", "positions", "label", "recordings", "samples")
    title = "An audio classifier"
    training_data = "labelled recordings"
    usage = "recording.wav"
    modalities = ("audio",)
    required: ClassVar[dict[str, Any]] = {**TASKS["classify"].needs, "data.modality": "audio"}
    defaults: ClassVar[dict[str, Any]] = {**_OF_MEDIA, **media.defaults, "data.max_len": 250}
