"""Teacher forcing: an encoder-decoder predicts each token of a target from the source and the tokens before it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from ..config import Config
from ..scoring.translation_scores import TokenCounts
from ..tokenization.ragged import IntArray
from .examples import Examples
from .source_reader import SourceReader, tokens_on_device

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ..model.transformer import EncoderDecoder

_SCORED = 1024  # maximum tokens per side in a batch without gradients


@dataclass(frozen=True)
class PairBatch:
    """The tensors of one micro-batch.

    Args:
        source: source tokens (B, S), or what another front end reads.
        ragged: whether the sources have different lengths, so that there's padding to mask.
        inputs: target tokens that the decoder reads (B, T).
        outputs: the next token after each input (B, T).
        n_tokens: the number of real tokens in `outputs`.
    """

    source: "Tensor"
    ragged: bool
    inputs: "Tensor"
    outputs: "Tensor"
    n_tokens: int


@dataclass(frozen=True)
class TeacherForcing:
    """Computes the losses and log-probabilities of pairs, whose sources `reader` reads."""

    reader: SourceReader
    config: Config

    @property
    def _pad(self) -> int:
        return self.config.model.pad_id

    def batch(self, examples: Examples, rows: IntArray) -> PairBatch:
        """Return the tensors of the examples in these rows."""
        n_tokens, size = int(examples.targets.lengths[rows].sum()) - len(rows), self.config.model.tgt_vocab_size
        source = self.reader.tensor(examples.sources, rows)
        padded = examples.targets.padded(rows, self._pad)
        target = tokens_on_device(padded, self.config.train.device, size, self._pad)
        ragged = int(examples.sources.lengths[rows].min()) < source.size(1)
        return PairBatch(source, ragged, target[:, :-1], target[:, 1:], n_tokens)

    def logits(self, model: "nn.Module", batch: PairBatch, *, states: bool = False) -> "Tensor":
        """Return the logits of a batch (B, T, V), or the `states` that the projection reads (B, T, D).

        In training, the front end may change its sources at random.
        """
        front, source = cast("EncoderDecoder", model).encoder.embedding, batch.source
        if model.training:
            source = front.augment(source)
        changed = source is not batch.source
        mask = front.mask(source) if batch.ragged or changed else None
        return model(source, batch.inputs, source_mask=mask, states=states)

    def loss(self, model: "nn.Module", examples: Examples, rows: IntArray, *, smoothing: float) -> "Tensor":
        """Return the cross-entropy, summed over the real target tokens of the examples in these rows."""
        from .loss import projected_cross_entropy, smoothed_cross_entropy

        batch, decoder = self.batch(examples, rows), cast("EncoderDecoder", model).decoder
        outputs, copies = batch.outputs.flatten(), decoder.pointer is not None
        found = self.logits(model, batch, states=not copies).flatten(0, 1)
        if copies:
            return smoothed_cross_entropy(found, outputs, smoothing=smoothing, pad=self._pad)
        return projected_cross_entropy(found, decoder.projection, outputs, smoothing=smoothing, pad=self._pad)

    def count(self, model: "EncoderDecoder", examples: Examples) -> TokenCounts:
        """Count tokens, correct tokens and the negative log-likelihood, without dropout and label smoothing."""
        from .loss import smoothed_cross_entropy

        counts = TokenCounts()
        for _, batch, logits in self._predicted(model, examples):
            outputs, flat = batch.outputs.flatten(), logits.flatten(0, 1)
            right = int(((flat.argmax(-1) == outputs) & (outputs != self._pad)).sum())
            counts += TokenCounts(batch.n_tokens, right, float(smoothed_cross_entropy(flat, outputs, pad=self._pad)))
        return counts

    def log_probabilities(self, model: "EncoderDecoder", examples: Examples) -> list[list[float]]:
        """Return the log-probability of every target token, EOS included, for each example."""
        import torch

        from .loss import log_probability_of

        found: list[list[float]] = [[] for _ in range(len(examples))]
        for rows, batch, logits in self._predicted(model, examples):
            log_p = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
            taken = log_probability_of(batch.outputs[..., None], log_p)[..., 0].tolist()
            for row, values in zip(rows.tolist(), taken):
                found[row] = values[: int(examples.targets.lengths[row]) - 1]
        return found

    def _predicted(self, model: "EncoderDecoder", examples: Examples) -> Iterator[tuple[IntArray, PairBatch, "Tensor"]]:
        """Yield the rows of each batch, its tensors and its logits, in evaluation mode.

        The logits are float32 here, so a larger batch would need more memory than training does, and the process
        would keep it.
        """
        import torch

        from ..model.transformer import evaluation

        together = min(self.config.data.batch_tokens or _SCORED, _SCORED)
        with evaluation(model), torch.inference_mode():
            for rows in examples.batches(together).epoch(0):
                batch = self.batch(examples, rows)
                yield rows, batch, self.logits(model, batch)
