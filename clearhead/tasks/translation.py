"""Translation: source and target sentences for an encoder-decoder."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn

from ..config import Config, DecodeConfig, chosen
from ..decode.engines.torch_engine import TorchEngine
from ..decode.session import Session
from ..errors import DataError
from ..model.masks import padding_mask
from ..model.transformer import EncoderDecoder, evaluation
from ..text.batches import Batches, IntArray, Ragged
from ..text.dropout import SubwordDropout
from ..text.encoding import PairEncoder
from ..text.lines import shown
from ..text.sources import Pairs, Skipped, references
from ..text.tokenizer import PAD, Tokenizers
from .loss import smoothed_cross_entropy
from .scores import Scores, TokenCounts, score

_SCORED = 1024  # tokens


@dataclass(frozen=True)
class Examples:
    """Sentence pairs as tokens: sources end with EOS, targets begin with BOS and end with EOS."""

    sources: Ragged
    targets: Ragged

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def target_tokens(self) -> int:
        """What is predicted in one epoch: every target token but BOS."""
        return int(self.targets.lengths.sum()) - len(self)

    def batches(self, max_tokens: int, seed: int = 0, max_rows: int | None = None) -> Batches:
        """Batches by length."""
        return Batches(self.sources.lengths, self.targets.lengths - 1, max_tokens, seed, max_rows)


@dataclass(frozen=True)
class FreshBatches(Batches):
    """Batches of examples that are cut anew for each epoch, by `cut(epoch)`.

    A step may take batches of several epochs, so that the last ones are all held: those of epoch e have the rows
    n * (e % slots) and on. `at` gives the examples of some rows, and their places among these.
    """

    cut: Callable[[int], Examples] = field(kw_only=True)
    slots: list[Examples] = field(kw_only=True)

    @classmethod
    def of(cls, examples: Examples, cut: Callable[[int], Examples], plan: Batches, slots: int) -> Self:
        """As `plan`, with room for so many epochs; until they are cut, it holds the `examples` as they are."""
        lengths = np.tile(plan.source_lengths, slots), np.tile(plan.target_lengths, slots)
        return cls(*lengths, plan.max_tokens, plan.seed, plan.max_rows, cut=cut, slots=[examples] * slots)

    def epoch(self, epoch: int) -> list[IntArray]:
        """Cut the examples, and plan the batches of what came out."""
        examples, slot = self.cut(epoch), epoch % len(self.slots)
        self.slots[slot], start = examples, slot * len(examples)
        self.source_lengths[start : start + len(examples)] = examples.sources.lengths
        self.target_lengths[start : start + len(examples)] = examples.targets.lengths - 1
        plan = examples.batches(self.max_tokens, self.seed, self.max_rows)
        return [rows + start for rows in plan.epoch(epoch)]

    def at(self, rows: IntArray) -> tuple[Examples, IntArray]:
        """The examples of a batch, and its rows among them."""
        slot, _ = divmod(int(rows[0]), len(self.slots[0]))
        return self.slots[slot], rows - slot * len(self.slots[0])


@dataclass(frozen=True)
class Batch:
    """What one step learns from: sources (B, S) and their mask (B, 1, 1, S), None where none is padded; target inputs
    and their successors (B, T); and the number of real successors."""

    source: Tensor
    source_mask: Tensor | None
    inputs: Tensor
    outputs: Tensor
    n_tokens: int


@dataclass(frozen=True)
class HeldOut:
    """Pairs to score on: as tokens for the loss, and each distinct source once with all its references for the rest.

    `too_long` are the pairs that the loss leaves out; of `cut` sources the model can read only the beginning.
    """

    examples: Examples
    too_long: list[Skipped]
    cut: int
    sources: list[str]
    references: list[list[str]]


class Translation:
    """What training and scoring need to know of the task."""

    def __init__(self, tokenizers: Tokenizers, config: Config) -> None:
        self.tokenizers, self.config = tokenizers, config
        self.device = torch.device(config.train.device)

    @property
    def max_source_len(self) -> int:
        """The most tokens that a source may have, so that any line can be answered; EOS takes the last place.

        Tables of positions end there; the other schemes could go on, but memory could not.
        """
        return self.config.model.max_len - 1

    @property
    def longest(self) -> tuple[int, str]:
        """The most tokens a side of what is trained on, and the setting that says so."""
        return min((self.config.data.max_len, "data.max_len"), self.readable)

    @property
    def readable(self) -> tuple[int, str]:
        """The most tokens a side that the model can read beside the end, and the setting that says so."""
        return self.max_source_len, "model.max_len"

    @property
    def encoder(self) -> PairEncoder:
        """What cuts pairs into the tokens of this task."""
        return PairEncoder(self.tokenizers, *self.longest)

    def encode(self, pairs: Pairs) -> tuple[Examples, list[Skipped]]:
        """Tokens of every pair, and the pairs that are longer on a side than those that are trained on."""
        found = self.encoder(pairs)
        return Examples(found.sources, found.targets), found.skipped

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
        examples, too_long = self.encode(pairs)
        _, cut = self.sources(list({it.text for it in too_long}))  # no others can be
        return HeldOut(examples, too_long, sum(map(bool, cut)), *references(pairs))

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

    def session(self, model: EncoderDecoder, decode: DecodeConfig) -> Session:
        """The model ready to decode. A token to suppress that is not in the vocabulary is a DataError."""
        suppress = [self.tokenizers.target.token(piece) for piece in decode.suppress]
        longest = self.config.model.max_len
        return Session(TorchEngine(model, pad=PAD), decode, max_len=longest, suppress=suppress, text=self.text)

    def text(self, ids: Sequence[int]) -> str:
        """The translation that the tokens of an answer stand for."""
        return one_line(self.tokenizers.target.decode(ids))

    def sources(self, texts: Sequence[str]) -> tuple[list[list[int]], list[int]]:
        """Tokens of each text, `max_source_len` of them at most, and how many were cut off at its end."""
        encoded, longest = self.tokenizers.source.encode_batch(texts), self.max_source_len
        kept = [ids[:longest] for ids in encoded]
        return kept, [len(ids) - len(first) for ids, first in zip(encoded, kept)]

    def prefix(self, text: str) -> list[int]:
        """The tokens with which a translation is to begin; words that the vocabulary lacks are a DataError."""
        if unknown := self.tokenizers.target.unknown_words(text):
            words = ", ".join(map(shown, unknown))
            raise DataError(
                f"the prefix has words that the model cannot write: {words}; expected words of its training"
            )
        return self.tokenizers.target.encode(text) if text.strip() else []

    def translate(self, model: EncoderDecoder, texts: Sequence[str], decode: DecodeConfig) -> list[str]:
        """The best translation of each text, in their order; of a text that is too long, that of its beginning."""
        answers = self.session(model, decode).answers(self.sources(texts)[0])
        return [one_line(text) for text in self.tokenizers.target.decode_batch([found[0].ids for found in answers])]

    def evaluate(self, model: EncoderDecoder, held_out: HeldOut, decode: DecodeConfig) -> tuple[Scores, list[str]]:
        """Scores with real decoding, and the translation of each distinct source; no loss where all are too long."""
        translations = self.translate(model, held_out.sources, decode)
        counts = self.count(model, held_out.examples) if len(held_out.examples) else None
        return score(translations, held_out.references, counts), translations


def what_was_cut(n_sources: int) -> str:
    """In words, for people, of those whose end the model cannot read."""
    return f"{n_sources:,} source{'s' * (n_sources != 1)} too long for the model: only the beginning is translated"


def one_line(text: str) -> str:
    """The same with every line break, of Unicode's too, as a space: a translation is one line."""
    return " ".join(text.splitlines()) if text.splitlines() != [text] else text
