"""Classification: an encoder with a score for each label (BERT, Devlin et al. 2019)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from ...config import DROPOUT, NEWEST, TASKS, Config, DecodeConfig
from ...data.batches import Batches
from ...data.forms import PairForm
from ...decode.model_handle import ModelHandle, as_module
from ...readers.column_roles import LABELLED
from ...readers.pairs import Pairs
from ...scoring.bootstrap import Comparison, FloatArray, compare_means
from ...scoring.class_scores import class_scores, confusion_table, draw_confusion
from ...tokenization.ragged import IntArray, Ragged
from ...tokenization.source_and_target import Tokenizers
from ..base import EvaluationResult, Task, Units, check_filled, rotary_positions, search_settings_but
from ..transfer import on_device, tokens_on_device
from .examples import HeldOutTexts, LabelledEncoder, LabelledTexts
from .reading import label_settings
from .scores import LabelScores

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ...inspection.views.explanation import Explanation
    from ...model.transformer import EncoderModel


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
    scores = ("loss", "accuracy", "macro_f1")
    compared_by = ("accuracy", "right_probability")
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
        """Return the settings for the labels."""
        return label_settings(data, config)

    @classmethod
    def texts(cls, data: Any) -> Sequence[str]:
        """Return the texts without the labels."""
        found: Sequence[str] = data.sources
        return found

    @property
    def longest(self) -> tuple[int, str]:
        """Maximum number of tokens in a text, without BOS and EOS, and the setting that it comes from."""
        readable = self.config.model.max_len - 1 - self._begins
        return min((self.config.data.max_len, "data.max_len"), (readable, "model.max_len"))

    @property
    def _begins(self) -> bool:
        """True if a text begins with BOS."""
        return self.config.model.begins

    @property
    def encoder(self) -> LabelledEncoder:
        """Encodes texts and labels."""
        return LabelledEncoder(self.tokenizers.source, self.labels, *self.longest, begins=self._begins)

    def examples(self, sides: tuple[Ragged, Ragged]) -> LabelledTexts:
        """Return the examples of a store."""
        return LabelledTexts(*sides)

    def hold_out(self, data: Pairs) -> HeldOutTexts:
        """Prepare texts for scoring."""
        return HeldOutTexts.of(data, self.encoder)

    def inputs(self, sources: Ragged, rows: IntArray) -> "Tensor":
        """Return what the front end reads of some sources."""
        tokens, pad = sources.padded(rows, self.special.pad), self.special.pad
        return tokens_on_device(tokens, self.config.train.device, self.config.model.src_vocab_size, pad)

    def unknown_words(self, source: Any) -> tuple[str, ...]:
        """Return the words of a source that the vocabulary lacks."""
        return tuple(self.tokenizers.source.unknown_words(source))

    def ragged(self, encoded: Sequence[Any]) -> Ragged:
        """Return encoded sources in one array."""
        return Ragged(encoded)

    def sizes(self, sources: Ragged) -> IntArray:
        """Return the positions of each source in the encoder."""
        return sources.lengths

    def loss(self, model: "nn.Module", examples: LabelledTexts, rows: IntArray, *, smoothing: float) -> "Tensor":
        """Return the cross-entropy, summed over the texts in these rows. With train.balance, it's weighted by label.

        With train.r_drop = a and any dropout, each text is read twice, and the loss is half the sum of both
        cross-entropies plus a/4 of their disagreement. That is half the loss of the R-Drop paper, so that its size
        doesn't depend on train.r_drop.
        """
        import torch

        from ..loss import class_cross_entropy, disagreement

        device, texts = self.config.train.device, self.inputs(examples.sources, rows)
        if model.training:
            texts = cast("EncoderModel", model).encoder.embedding.augment(texts)
        targets, weights = on_device(examples.numbers[rows], device), None
        if self.config.train.balance:
            weights = on_device(examples.weights(len(self.labels)), device)
        drops = any(self.config.value(name) for name in DROPOUT)
        if not (self.config.train.r_drop and drops):
            return class_cross_entropy(model(texts), targets, smoothing=smoothing, weights=weights)
        both = model(torch.cat((texts, texts)))
        right = class_cross_entropy(both, targets.repeat(2), smoothing=smoothing, weights=weights)
        one, other = both.chunk(2)
        apart = disagreement(one, other, None if weights is None else weights[targets])
        return right / 2 + self.config.train.r_drop / 4 * apart

    def log_probabilities(self, model: "nn.Module", texts: Ragged, together: int) -> FloatArray:
        """Return the log-probability of every label for each text, reading `together` tokens at a time. (N, C)"""
        import torch

        from ...model.transformer import evaluation

        found = np.empty((len(texts), len(self.labels)))
        sizes = self.sizes(texts)
        batches = Batches(sizes, np.zeros_like(sizes), together)
        with evaluation(model), torch.inference_mode():
            for rows in batches.epoch(0):
                logits = model(self.inputs(texts, rows))
                found[rows] = logits.double().log_softmax(-1).cpu().numpy()
        return found

    def answers(self, model: "nn.Module", texts: Sequence[str], decode: DecodeConfig) -> list[str]:
        """Return the most likely label of each text."""
        tokens, _ = self.encoder.tokens(texts)
        log_p = self.log_probabilities(model, self.ragged(tokens), decode.batch_tokens)
        return [self.labels[number] for number in log_p.argmax(1)]

    def explain(self, model: Any, text: str, decode: DecodeConfig) -> "Explanation":
        """Label one text and record every step. A long text or recording is truncated.

        Raises:
            DataError: the text is blank, or the file can't be read.
        """
        import torch

        from ...inspection.explaining import explain
        from ...inspection.record.forward_pass import Pass
        from ...inspection.record.uncompiled import uncompiled
        from ...inspection.views.contrast import Labels

        check_filled(text)
        [encoded], _ = self.encoder.tokens([text])
        sources = self.ragged([encoded])
        with uncompiled(model):  # so that the recorded pass gives the same label
            p = self.log_probabilities(model, sources, decode.batch_tokens)[0]
        best, inputs = int(p.argmax()), self.inputs(sources, np.arange(1))
        label, hidden = self.labels[best], self.special.unk

        def again() -> tuple[str, float]:
            found = model(inputs)[0].softmax(-1)
            return self.labels[int(found.argmax())], float(found.max())

        forward = Pass(model=model, inputs=(inputs,), pieces=self.tokenizers.pieces, targets=(best,), said=(label,),
                       hidden=hidden, answer=again)  # fmt: skip
        values = {"probability": float(torch.tensor(p[best]).exp())}
        return explain(forward, self.tokenizers, self.config, text, label, values, choice=Labels(self.labels, label))

    def evaluate(
        self, model: "ModelHandle | nn.Module", held_out: HeldOutTexts, decode: DecodeConfig
    ) -> EvaluationResult:
        """Label every text and score the labels."""
        truth = held_out.truth
        log_p = self.log_probabilities(as_module(model), held_out.tokens, decode.batch_tokens)
        never = np.full((len(log_p), len(held_out.labels) - len(self.labels)), -np.inf)
        log_p = np.concatenate([log_p, never], axis=1)
        of_right, known = log_p[np.arange(len(truth)), truth], truth < len(self.labels)
        scores = class_scores(log_p, truth, held_out.labels)
        loss = float(-of_right[known].mean()) if known.any() else None
        return EvaluationResult(
            LabelScores(scores, loss, int((~known).sum())),
            held_out.sources,
            [held_out.labels[number] for number in log_p.argmax(1)],
            held_out.references,
            lambda: {"right_probability": np.exp(of_right), "accuracy": scores.accuracy.values.astype(np.float64)},
            confusion_table(scores),
        )

    def numbers(self, scores: LabelScores) -> dict[str, float]:
        """Return the scores for the training log."""
        values = {"accuracy": scores.scores.accuracy.mean, "macro_f1": scores.scores.macro_f1}
        return values if scores.loss is None else {"loss": scores.loss, **values}

    def compare(self, systems: Sequence[tuple[str, EvaluationResult]]) -> Comparison:
        """Compare the accuracy of several models with that of the first one."""
        name = "accuracy"
        return Comparison({name: compare_means([(system, it.singly()[name]) for system, it in systems])}, {})

    def draw(self, scores: LabelScores, folder: Path) -> None:
        """Draw the confusion matrix."""
        draw_confusion(scores.scores, folder)
