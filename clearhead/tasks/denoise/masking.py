"""Masking: hide parts of a text, so that a model can learn from text alone by recovering them.

An encoder alone sees one mask token for each masked token (SpanBERT, Joshi et al. 2020; with spans of one token: BERT,
Devlin et al. 2019). An encoder-decoder sees one mask token for each masked span (BART, Lewis et al. 2020; T5, Raffel
et al. 2020). In our own vocabularies, it's <unk>, which byte-level subwords never produce otherwise.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...config import SpecialTokens
from ...data.batches import Batches
from ...data.encoding import Encoded
from ...readers.skipped import Skipped
from ...tokenization.ragged import IntArray, Ragged
from ...tokenization.tokenizer import Tokenizer
from ..examples import ExampleEncoder, Examples, HeldOut

TOKENS_TO_FIND = 0.15  # share of the tokens to predict
_AS_HIDDEN, _AS_ANOTHER = 0.8, 0.1  # of these: replaced by the mask, or by a random token; the rest stay unchanged
_SPANS = 0.3  # share of the tokens to mask for a decoder that writes the whole text


def count_to_find(tokens: list[int], special: SpecialTokens) -> int:
    """Return the number of tokens to predict: 15% of all but special tokens, and at least one if there is any."""
    real = sum(token not in special.ids for token in tokens)
    return max(round(TOKENS_TO_FIND * real), min(real, 1))


class MaskVocabulary:
    """Masks tokens of texts, with the special tokens and the size of their vocabulary. Needs a mask token."""

    def __init__(self, special: SpecialTokens, size: int) -> None:
        self.special, self.mask = torch.tensor(sorted(special.ids)), cast(int, special.mask)
        self.ordinary = torch.tensor(special.ordinary(size))

    def hide_tokens(
        self, tokens: Tensor, counts: Tensor, span: float, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Mask tokens of texts.

        Args:
            tokens: the texts (B, S). Special tokens are never masked.
            counts: the number of tokens to predict in each text (B,).
            span: the average number of tokens in a span. A span is masked, replaced or left unchanged as a whole.
            generator: the random generator; torch's default without one.

        Returns:
            The masked texts (B, S), and a mask of the tokens to predict (B, S).
        """
        real = ~torch.isin(tokens, self.special)
        if span == 1:
            chances = torch.rand(tokens.shape, generator=generator).masked_fill(~real, 2.0)
            found = chances.argsort(1).argsort(1) < counts[:, None]
            how = torch.rand(tokens.shape, generator=generator)
        else:
            found, how = _in_spans(real, counts, span, generator)
        others = self.ordinary[torch.randint(len(self.ordinary), tokens.shape, generator=generator)]
        changed = torch.where(how < _AS_HIDDEN + _AS_ANOTHER, others, tokens).masked_fill(how < _AS_HIDDEN, self.mask)
        return torch.where(found, changed, tokens), found


def _in_spans(real: Tensor, counts: Tensor, span: float, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    """Draw spans of `real` tokens. Return True inside a span, and a random number shared by its tokens."""
    rng = np.random.default_rng(int(torch.randint(2**62, (), generator=generator)))
    begins, lengths = _spans(real.sum(1).numpy(), counts.numpy(), span, rng)
    found, how = torch.zeros_like(real), torch.zeros(real.shape)
    found[real] = torch.from_numpy(_within(begins, lengths, int(real.sum())))
    how[found] = torch.from_numpy(np.repeat(rng.random(len(lengths), np.float32), lengths))
    return found, how


def hide_spans(texts: Ragged, mask: int, span: float, rng: np.random.Generator) -> Ragged:
    """Return texts with one mask token in place of every masked span. The texts have no special tokens.

    Of n tokens, round(0.3 n) are masked, in spans of `span` tokens on average.
    """
    n = texts.lengths
    begins, lengths = _spans(n, np.rint(_SPANS * n).astype(np.int64), span, rng)
    stays = ~_within(begins, lengths, len(texts.tokens))
    stays[begins] = True  # the mask token of a span
    tokens = np.array(texts.tokens)
    tokens[begins] = mask
    rows = np.repeat(np.arange(len(n)), n)
    return Ragged.of(tokens[stays], np.bincount(rows[stays], minlength=len(n)).astype(np.int64))


def _spans(n: IntArray, hidden: IntArray, span: float, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Draw spans in concatenated texts of `n` tokens each, and return their starts and lengths.

    `hidden` tokens of each text are inside a span. Spans have `span` tokens on average and never touch. All choices
    are equally likely.
    """
    most = n - hidden + 1  # gaps around the other tokens; each takes one span at most
    spans = np.where(hidden > 0, np.clip(np.rint(hidden / span), 1, most), 0).astype(np.int64)
    lengths = _parts(hidden, spans, rng)
    of_text = np.repeat(np.arange(len(n)), spans)
    gaps = np.flatnonzero(_choose(most, spans, rng)) - _starts(most)[of_text]
    hidden_before = np.cumsum(lengths) - lengths - _starts(hidden)[of_text]  # in the same text
    return _starts(n)[of_text] + gaps + hidden_before, lengths


def _within(begins: IntArray, lengths: IntArray, total: int) -> NDArray[np.bool_]:
    """Mark the tokens inside spans, which mustn't touch."""
    change = np.zeros(total + 1, np.int64)
    np.add.at(change, begins, 1)
    np.add.at(change, begins + lengths, -1)
    return np.cumsum(change)[:-1] == 1


def _parts(totals: IntArray, counts: IntArray, rng: np.random.Generator) -> IntArray:
    """Split each total at random into `counts` numbers of at least 1, and return them concatenated."""
    first = np.zeros(int(totals.sum()), bool)
    first[_starts(totals)[totals > 0]] = True
    begins = first.copy()
    begins[~first] = _choose(np.maximum(totals - 1, 0), np.maximum(counts - 1, 0), rng)
    return np.diff(np.append(np.flatnonzero(begins), len(begins)))


def _choose(lengths: IntArray, counts: IntArray, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Choose `counts` positions at random in each of the concatenated rows."""
    rows = np.repeat(np.arange(len(lengths)), lengths)
    order = np.lexsort((rng.random(len(rows)), rows))
    chosen = np.zeros(len(rows), bool)
    chosen[order[np.arange(len(rows)) - _starts(lengths)[rows] < counts[rows]]] = True
    return chosen


def _starts(lengths: IntArray) -> IntArray:
    """Return the start of each row."""
    return np.cumsum(lengths) - lengths


@dataclass(frozen=True)
class PieceEncoder(ExampleEncoder):
    """Tokenizes texts and cuts them into pieces.

    Args:
        longest: maximum number of tokens in a piece, not counting special tokens.
        texts: function that returns all texts in a chunk of data.
        sides: function that returns the sources and targets for tokenized pieces.
    """

    tokenizer: Tokenizer
    longest: int
    texts: Callable[[Any], Sequence[str]]
    sides: Callable[[Ragged], tuple[Ragged, Ragged]]

    def __call__(self, data: Any) -> Encoded:
        """Cut every text into pieces. A text without tokens gives none."""
        size, found = self.longest, self.tokenizer.encode_batch(self.texts(data))
        pieces = [ids[i : i + size] for ids in found for i in range(0, len(ids), size)]
        pieces = [ids for ids in pieces if count_to_find(ids, self.tokenizer.special)]
        return Encoded(*self.sides(Ragged(pieces)), [*range(len(pieces))], [], list[Skipped]())

    def hold_out(self, data: Any, examples: Callable[[Ragged, Ragged], Examples]) -> HeldOut:
        """Prepare texts for scoring."""
        found = self(data)
        return HeldOut(examples(found.sources, found.targets), [], 0, list(self.texts(data)), [])


@dataclass(frozen=True)
class MaskedTexts(Examples):
    """Tokenized texts. The target of each text is its number of tokens to mask."""

    given: ClassVar[int] = 0
    counts_sources: ClassVar[bool] = True

    def batches(self, max_tokens: int, seed: int = 0, max_rows: int | None = None) -> Batches:
        """Return batches of texts of similar length. They count masked tokens as predictions."""
        counts = np.asarray(self.targets.tokens, np.int64)
        return Batches(self.sources.lengths, counts, max_tokens, seed, max_rows, self.counts_sources)


@dataclass(frozen=True)
class DenoisingScores:
    """Scores for recovering masked tokens."""

    texts: int
    hidden_accuracy: float
    hidden_perplexity: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)
