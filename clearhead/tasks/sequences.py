"""What all tasks share that make one text of another: pairs for an encoder-decoder."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..config import Config, DecodeConfig, chosen
from ..data.encoding import PairEncoder
from ..decode.model_handle import ModelHandle, as_handle
from ..decode.registry import open_engine
from ..decode.session import Session
from ..errors import DataError
from ..model.masks import padding_mask
from ..model.transformer import EncoderDecoder, evaluation
from ..readers.lines import one_line, shown
from ..readers.pairs import Pairs, references
from ..readers.skipped import Skipped
from ..scoring.significance import Comparison
from ..scoring.translation_scores import TokenCounts
from ..tokenization.ragged import IntArray, Ragged
from ..tokenization.subword_dropout import SubwordDropout
from ..tokenization.tokenizer import PAD, Tokenizers
from .base import Judged, Units
from .examples import Examples, HeldOut
from .loss import smoothed_cross_entropy

_SCORED = 1024  # tokens


@dataclass(frozen=True)
class Batch:
    """What one step learns from: sources (B, S) and their mask (B, 1, 1, S), None where none is padded; target inputs
    and their successors (B, T); and the number of real successors."""

    source: Tensor
    source_mask: Tensor | None
    inputs: Tensor
    outputs: Tensor
    n_tokens: int


class Sequences(ABC):
    """What training and scoring need to know of such a task, but for its scores.

    Pairs that are too long are left out of training; where `cuts` names the targets, sources are cut to their beginning
    instead.
    """

    units: ClassVar[Units]
    cuts: ClassVar[str] = ""

    def __init__(self, tokenizers: Tokenizers, config: Config) -> None:
        self.tokenizers, self.config = tokenizers, config
        self.device = torch.device(config.train.device)

    @property
    def readable(self) -> tuple[int, str]:
        """The most tokens a side that the model can read beside the end, and the setting that says so.

        Tables of positions end there; the other schemes could go on, but memory could not.
        """
        return self.config.model.max_len - 1, "model.max_len"

    @property
    def max_source_len(self) -> int:
        """The most tokens of a source that are read, so that any line can be answered; EOS takes one place more."""
        return self.readable[0]

    @property
    def longest(self) -> tuple[int, str]:
        """The most tokens a side of what is trained on, and the setting that says so."""
        return min((self.config.data.max_len, "data.max_len"), (self.config.model.max_len - 1, "model.max_len"))

    @property
    def encoder(self) -> PairEncoder:
        """What cuts pairs into the tokens that are trained on."""
        return PairEncoder(self.tokenizers, *self.longest, cuts=self.cuts)

    @property
    def reader(self) -> PairEncoder:
        """What cuts pairs into as many tokens as the model can read."""
        return PairEncoder(self.tokenizers, *self.readable, cuts=self.cuts)

    def encode(self, pairs: Pairs) -> tuple[Examples, list[Skipped]]:
        """Tokens of every pair, and the pairs that are longer on a side than those that are trained on."""
        found = self.encoder(pairs)
        return Examples(found.sources, found.targets), found.skipped

    def examples(self, sides: tuple[Ragged, Ragged]) -> Examples:
        """The examples, which may stay on the disk."""
        return Examples(*sides)

    def fresh(self, examples: Examples) -> Callable[[int], Examples]:
        """What cuts these examples anew for an epoch, with `data.subword_dropout`, as a function of (seed, epoch)."""
        p, seed, longest = self.config.data.subword_dropout, self.config.train.seed, self.longest[0]
        source, target = (SubwordDropout(it, p) for it in (self.tokenizers.source, self.tokenizers.target))

        def cut(epoch: int) -> Examples:
            sources = source(examples.sources, longest, seed=f"source {seed} {epoch}")
            return Examples(sources, target(examples.targets, longest, seed=f"target {seed} {epoch}"))

        return cut

    def hold_out(self, pairs: Pairs) -> HeldOut:
        """Prepare pairs for scoring. The text of every one is scored; the loss passes over those that are too long."""
        found = self.encoder(pairs)
        _, cut = self.sources(list({it.text for it in (*found.skipped, *found.cut)}))  # no others can be
        examples = Examples(found.sources, found.targets)
        return HeldOut(examples, found.skipped, sum(map(bool, cut)), *references(pairs))

    def batch(self, examples: Examples, rows: IntArray) -> Batch:
        """The tensors of these examples."""
        n_tokens = int(examples.targets.lengths[rows].sum()) - len(rows)
        source = torch.from_numpy(examples.sources.padded(rows, PAD)).to(self.device)
        target = torch.from_numpy(examples.targets.padded(rows, PAD)).to(self.device)
        ragged = int(examples.sources.lengths[rows].min()) < source.size(1)
        return Batch(source, padding_mask(source, PAD) if ragged else None, target[:, :-1], target[:, 1:], n_tokens)

    def loss(self, model: nn.Module, examples: Examples, rows: IntArray, *, smoothing: float) -> Tensor:
        """Teacher forcing: cross-entropy summed over the real target tokens of these examples."""
        batch = self.batch(examples, rows)
        logits = model(batch.source, batch.inputs, source_mask=batch.source_mask).flatten(0, 1)
        return smoothed_cross_entropy(logits, batch.outputs.flatten(), smoothing=smoothing, pad=PAD)

    def count(self, model: EncoderDecoder, examples: Examples) -> TokenCounts:
        """Negative log-likelihood and right tokens over all examples, without dropout and label smoothing."""
        counts = TokenCounts()
        with evaluation(model), torch.inference_mode():
            for rows in examples.batches(self._scored_together).epoch(0):
                batch = self.batch(examples, rows)
                logits = model(batch.source, batch.inputs, source_mask=batch.source_mask).flatten(0, 1)
                outputs = batch.outputs.flatten()
                right = int(((logits.argmax(-1) == outputs) & (outputs != PAD)).sum())
                counts += TokenCounts(batch.n_tokens, right, float(smoothed_cross_entropy(logits, outputs, pad=PAD)))
        return counts

    def log_probabilities(self, model: EncoderDecoder, examples: Examples) -> list[list[float]]:
        """Of each example the log-probability of every target token, the end included, given those before it."""
        found: list[list[float]] = [[] for _ in range(len(examples))]
        with evaluation(model), torch.inference_mode():
            for rows in examples.batches(self._scored_together).epoch(0):
                batch = self.batch(examples, rows)
                logits = model(batch.source, batch.inputs, source_mask=batch.source_mask)
                log_p = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
                taken = log_p.gather(-1, batch.outputs[..., None])[..., 0].tolist()
                for row, values in zip(rows.tolist(), taken):
                    found[row] = values[: int(examples.targets.lengths[row]) - 1]
        return found

    @property
    def _scored_together(self) -> int:
        """Tokens a side in a batch without gradients. Of more, the logits would be larger than all that training makes,
        since they are in float32, and a process keeps what it once needed."""
        return min(chosen(self.config.data.batch_tokens), _SCORED)

    def session(self, model: ModelHandle | nn.Module, decode: DecodeConfig) -> Session:
        """Return the model ready to decode, in the engine that `decode.engine` names.

        Raises:
            ConfigError: this engine can't run the model, or doesn't support one of the settings.
            DataError: a token to suppress isn't in the vocabulary.
        """
        suppress = [self.tokenizers.target.token(piece) for piece in decode.suppress]
        engine = open_engine(as_handle(model, self.config.model), decode.engine)
        longest = self.config.model.max_len
        return Session(engine, decode, max_len=longest, suppress=suppress, detokenize=self.text)

    def text(self, ids: Sequence[int]) -> str:
        """The text that the tokens of an answer stand for."""
        return one_line(self.tokenizers.target.decode(ids))

    def sources(self, texts: Sequence[str]) -> tuple[list[list[int]], list[int]]:
        """Tokens of each text, `max_source_len` of them at most, and how many were cut off at its end."""
        encoded, longest = self.tokenizers.source.encode_batch(texts), self.max_source_len
        kept = [ids[:longest] for ids in encoded]
        return kept, [len(ids) - len(first) for ids, first in zip(encoded, kept)]

    def prefix(self, text: str) -> list[int]:
        """The tokens with which an answer is to begin; words that the vocabulary lacks are a DataError."""
        if unknown := self.tokenizers.target.unknown_words(text):
            words = ", ".join(map(shown, unknown))
            raise DataError(
                f"the prefix has words that the model cannot write: {words}; expected words of its training"
            )
        return self.tokenizers.target.encode(text) if text.strip() else []

    def answers(self, model: EncoderDecoder, texts: Sequence[str], decode: DecodeConfig) -> list[str]:
        """The best answer to each text, in their order; to a text that is too long, that to its beginning."""
        answers = self.session(model, decode).answers(self.sources(texts)[0])
        return [one_line(text) for text in self.tokenizers.target.decode_batch([found[0].ids for found in answers])]

    def evaluate(self, model: EncoderDecoder, held_out: HeldOut, decode: DecodeConfig) -> Judged:
        """Scores with real decoding, and the answer to each distinct source; no loss where all are too long."""
        counts = self.count(model, held_out.examples) if len(held_out.examples) else None
        return self.judge(held_out, self.answers(model, held_out.sources, decode), counts)

    @abstractmethod
    def judge(self, held_out: HeldOut, answers: Sequence[str], counts: TokenCounts | None) -> Judged:
        """The scores of answers, and of the tokens where they were counted."""

    @abstractmethod
    def numbers(self, scores: Any) -> dict[str, float]:
        """What the log keeps and the best weights may be chosen by."""

    @abstractmethod
    def compare(self, systems: Sequence[tuple[str, Judged]]) -> Comparison:
        """Whether models are better than the first of them, or were lucky."""

    def expect_search(self, model: EncoderDecoder) -> None:
        """Raise an error where the settings of the search are none for this model and vocabulary."""
        self.session(model, self.config.decode)


def of_tokens(perplexity: float | None, accuracy: float | None) -> dict[str, float]:
    """Loss and accuracy for the log, where tokens were counted."""
    if perplexity is None or accuracy is None:
        return {}
    return {"loss": math.log(perplexity), "token_accuracy": accuracy}
