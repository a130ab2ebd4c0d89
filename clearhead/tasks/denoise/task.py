"""Learning from text alone, before a task is learnt: to find again what was hidden (see `hiding`).

No verb of the command line: `kinds.denoising_of` makes of each task the one that learns from its texts.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from ...config import Config, DecodeConfig
from ...data.batches import Batches
from ...data.encoding import Encoded
from ...model.transformer import evaluation
from ...readers.skipped import Skipped
from ...scoring.resampling import FloatArray
from ...scoring.significance import Comparison
from ...scoring.translation_scores import TokenCounts
from ...tokenization.ragged import IntArray, Ragged
from ...tokenization.tokenizer import BOS, EOS, PAD, Tokenizer, Tokenizers
from ..base import Judged, Units
from ..examples import Examples, HeldOut
from ..loss import smoothed_cross_entropy
from ..translate.task import Translation
from .masking import count_to_find, hide_spans, hide_tokens

TextsOf = Callable[[Any], Sequence[str]]  # all texts of some data

_SEED = 0  # of what is hidden where it is always the same: in evaluations
_SCORED = 4096  # tokens that are scored together


@dataclass(frozen=True)
class DenoisingScores:
    """How much of what was hidden is found again."""

    texts: int
    hidden_accuracy: float
    hidden_perplexity: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Pieces:
    """Cuts texts into pieces of at most `longest` tokens, without special ones; `sides` makes examples of these."""

    tokenizer: Tokenizer
    longest: int
    texts: TextsOf
    sides: Callable[[Ragged], tuple[Ragged, Ragged]]

    def __call__(self, data: Any) -> Encoded:
        """All of every text, in as many pieces as it takes; what has no token gives none."""
        size, found = self.longest, self.tokenizer.encode_batch(self.texts(data))
        pieces = [ids[i : i + size] for ids in found for i in range(0, len(ids), size)]
        pieces = [ids for ids in pieces if count_to_find(ids)]
        return Encoded(*self.sides(Ragged(pieces)), [*range(len(pieces))], [], list[Skipped]())

    def each(self, chunks: Iterable[Any], count: int, processes: int) -> Iterator[Encoded]:
        """Of each chunk; the library itself uses all cores."""
        yield from map(self, chunks)

    def hold_out(self, data: Any, examples: Callable[[Ragged, Ragged], Examples]) -> HeldOut:
        """The same, to score on."""
        found = self(data)
        return HeldOut(examples(found.sources, found.targets), [], 0, list(self.texts(data)), [])


@dataclass(frozen=True)
class WithHidden(Examples):
    """Texts as tokens, and on the other side how many tokens of each are to be found."""

    given: ClassVar[int] = 0
    counts_sources: ClassVar[bool] = True

    def batches(self, max_tokens: int, seed: int = 0, max_rows: int | None = None) -> Batches:
        """Batches by length; what is predicted is counted."""
        counts = np.asarray(self.targets.tokens, np.int64)
        return Batches(self.sources.lengths, counts, max_tokens, seed, max_rows, self.counts_sources)


class _Denoising:
    """What both ways to hide have in common."""

    units = Units("pieces of text", "tokens", "text")
    before: ClassVar[float]  # train.hidden_span of runs that were begun before there was that setting

    def __init__(self, tokenizers: Tokenizers, config: Config, *, texts: TextsOf) -> None:
        self.tokenizers, self.config, self._texts = tokenizers, config, texts
        self._span = self.before if config.train.hidden_span is None else config.train.hidden_span

    def numbers(self, scores: DenoisingScores) -> dict[str, float]:
        """What the log keeps and the best weights are chosen by."""
        return {"loss": math.log(scores.hidden_perplexity), "hidden_accuracy": scores.hidden_accuracy}

    def compare(self, systems: Sequence[tuple[str, Judged]]) -> Comparison:
        """No score: what is learnt on the way is compared by what comes of it."""
        return Comparison({}, {})

    def expect_search(self, model: nn.Module) -> None:
        """Nothing is searched for."""

    def _judged(self, held_out: HeldOut, counts: TokenCounts) -> Judged:
        scores = DenoisingScores(len(held_out.examples), counts.accuracy, counts.perplexity)
        return Judged(scores, held_out.sources, [], [], dict[str, FloatArray])


class HiddenTokens(_Denoising):
    """An encoder and on it a prediction of tokens: 15% of them are to be found, most of which are hidden."""

    before = 1.0

    @property
    def longest(self) -> tuple[int, str]:
        """The most tokens of a piece; EOS and BOS come to them."""
        return min((self.config.data.max_len, "data.max_len"), (self.config.model.max_len - 2, "model.max_len"))

    @property
    def encoder(self) -> Pieces:
        """What makes pieces of texts, EOS behind each and, where a task reads from there, BOS in front."""
        first = [BOS] * (self.config.model.pooling == "first")

        def sides(pieces: Ragged) -> tuple[Ragged, Ragged]:
            found = [pieces[i] for i in range(len(pieces))]
            return Ragged([[*first, *ids, EOS] for ids in found]), Ragged([[count_to_find(ids)] for ids in found])

        return Pieces(self.tokenizers.source, self.longest[0], self._texts, sides)

    def examples(self, sides: tuple[Ragged, Ragged]) -> WithHidden:
        """The examples, which may stay on the disk."""
        return WithHidden(*sides)

    def hold_out(self, data: Any) -> HeldOut:
        """Prepare texts for scoring."""
        return self.encoder.hold_out(data, WithHidden)

    def loss(self, model: nn.Module, examples: Examples, rows: IntArray, *, smoothing: float) -> Tensor:
        """Cross-entropy summed over the tokens that are to be found, chosen anew each time."""
        logits, right = self._predicted(model, examples, rows, None)
        return smoothed_cross_entropy(logits, right, smoothing=smoothing, pad=PAD)

    def evaluate(self, model: nn.Module, held_out: HeldOut, decode: DecodeConfig) -> Judged:
        """Find what is hidden, which is always the same."""
        counts, generator = TokenCounts(), torch.Generator().manual_seed(_SEED)
        with evaluation(model), torch.inference_mode():
            for rows in held_out.examples.batches(max(_SCORED, self.longest[0] + 2)).epoch(0):
                logits, right = self._predicted(model, held_out.examples, rows, generator)
                loss = float(smoothed_cross_entropy(logits, right, pad=PAD))
                counts += TokenCounts(len(right), int((logits.argmax(-1) == right).sum()), loss)
        return self._judged(held_out, counts)

    def _predicted(
        self, model: nn.Module, examples: Examples, rows: IntArray, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        """The logits of what is to be found, and what it is. (N, V), (N,)"""
        tokens = torch.from_numpy(examples.sources.padded(rows, PAD))
        counts = torch.from_numpy(np.asarray(examples.targets.tokens[rows], np.int64))
        shown, found = hide_tokens(tokens, counts, self.tokenizers.source.vocab_size, self._span, generator)
        device = self.config.train.device
        return model(shown.to(device), at=found.to(device)), tokens[found].to(device)


class HiddenSpans(_Denoising):
    """An encoder that reads texts with hidden spans, and a decoder that writes them whole."""

    before = 3.0

    def __init__(self, tokenizers: Tokenizers, config: Config, *, texts: TextsOf) -> None:
        super().__init__(tokenizers, config, texts=texts)
        self._pairs = Translation(tokenizers, config)  # of a text with hidden spans and the text

    @property
    def longest(self) -> tuple[int, str]:
        """The most tokens of a piece."""
        return self._pairs.longest

    @property
    def encoder(self) -> Pieces:
        """What makes pieces of texts, the spans that are hidden being always the same."""
        return Pieces(self.tokenizers.source, self.longest[0], self._texts, self._sides)

    def examples(self, sides: tuple[Ragged, Ragged]) -> Examples:
        """The examples, which may stay on the disk."""
        return Examples(*sides)

    def fresh(self, examples: Examples) -> Callable[[int], Examples]:
        """What hides other spans of these texts in every epoch, as a function of (seed, epoch)."""
        tokens, seed = np.asarray(examples.targets.tokens), self.config.train.seed
        texts = Ragged.of(tokens[(tokens != BOS) & (tokens != EOS)], examples.targets.lengths - 2)

        def hide(epoch: int) -> Examples:
            return Examples(self._hidden(texts, [seed, epoch]), examples.targets)

        return hide

    def hold_out(self, data: Any) -> HeldOut:
        """Prepare texts for scoring."""
        return self.encoder.hold_out(data, Examples)

    def loss(self, model: nn.Module, examples: Examples, rows: IntArray, *, smoothing: float) -> Tensor:
        """Cross-entropy summed over the whole texts."""
        return self._pairs.loss(model, examples, rows, smoothing=smoothing)

    def evaluate(self, model: Any, held_out: HeldOut, decode: DecodeConfig) -> Judged:
        """Every token of the texts, given those before it."""
        return self._judged(held_out, self._pairs.count(model, held_out.examples))

    def _sides(self, texts: Ragged) -> tuple[Ragged, Ragged]:
        """Of each text what is read, and the whole, as examples have them."""
        return self._hidden(texts, [_SEED]), Ragged([[BOS, *texts[i], EOS] for i in range(len(texts))])

    def _hidden(self, texts: Ragged, seed: list[int]) -> Ragged:
        """Texts with spans hidden, and EOS behind each."""
        shown = hide_spans(texts, self._span, np.random.default_rng(seed))
        return Ragged.of(np.insert(shown.tokens, shown.starts[1:], EOS), shown.lengths + 1)
