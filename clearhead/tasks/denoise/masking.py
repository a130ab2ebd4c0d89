"""Texts of which a part is hidden, so that a model learns from text alone to find it again.

For an encoder each token of a span is replaced by one <unk> (SpanBERT, Joshi et al. 2020; spans of one token: BERT,
Devlin et al. 2019); for an encoder and a decoder all of it by one (BART, Lewis et al. 2020; T5, Raffel et al. 2020).
Byte-level subwords never give <unk> otherwise.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...tokenization.ragged import IntArray, Ragged
from ...tokenization.tokenizer import SPECIALS, UNK

TOKENS_TO_FIND = 0.15  # share of the tokens that are to be found
_AS_HIDDEN, _AS_ANOTHER = 0.8, 0.1  # of these: replaced by <unk>, or by other tokens; the rest stays as it is
_SPANS = 0.3  # share of the tokens that is hidden where a decoder writes the whole text again


def count_to_find(tokens: list[int]) -> int:
    """How many tokens of a text are to be found: 15% of all but special ones, one at least where there is one."""
    real = sum(token >= len(SPECIALS) for token in tokens)
    return max(round(TOKENS_TO_FIND * real), min(real, 1))


def hide_tokens(
    tokens: Tensor, counts: Tensor, vocab_size: int, span: float, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """Texts with some tokens changed, and which tokens are to be found: True for exactly `counts` a row.

    (B, S), (B,) -> (B, S), (B, S). They lie in spans of `span` tokens in the mean, each of which is hidden, replaced or
    left as a whole; those of one token lie anywhere. Special tokens are neither. The choice is the `generator`'s, or
    torch's own.
    """
    real = tokens >= len(SPECIALS)
    if span == 1:
        chances = torch.rand(tokens.shape, generator=generator).masked_fill(~real, 2.0)
        found = chances.argsort(1).argsort(1) < counts[:, None]
        how = torch.rand(tokens.shape, generator=generator)
    else:
        found, how = _in_spans(real, counts, span, generator)
    others = torch.randint(len(SPECIALS), vocab_size, tokens.shape, generator=generator)
    changed = torch.where(how < _AS_HIDDEN + _AS_ANOTHER, others, tokens).masked_fill(how < _AS_HIDDEN, UNK)
    return torch.where(found, changed, tokens), found


def _in_spans(real: Tensor, counts: Tensor, span: float, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    """Spans among the `real` tokens: True within, and a chance for each span, which all of its tokens have."""
    rng = np.random.default_rng(int(torch.randint(2**62, (), generator=generator)))
    begins, lengths = _spans(real.sum(1).numpy(), counts.numpy(), span, rng)
    found, how = torch.zeros_like(real), torch.zeros(real.shape)
    found[real] = torch.from_numpy(_within(begins, lengths, int(real.sum())))
    how[found] = torch.from_numpy(np.repeat(rng.random(len(lengths), np.float32), lengths))
    return found, how


def hide_spans(texts: Ragged, span: float, rng: np.random.Generator) -> Ragged:
    """The texts, without special tokens, with a <unk> in place of every hidden span.

    Of n tokens round(0.3 n) are hidden, in spans of `span` in the mean.
    """
    n = texts.lengths
    begins, lengths = _spans(n, np.rint(_SPANS * n).astype(np.int64), span, rng)
    stays = ~_within(begins, lengths, len(texts.tokens))
    stays[begins] = True  # as <unk>
    tokens = np.array(texts.tokens)
    tokens[begins] = UNK
    rows = np.repeat(np.arange(len(n)), n)
    return Ragged.of(tokens[stays], np.bincount(rows[stays], minlength=len(n)).astype(np.int64))


def _spans(n: IntArray, hidden: IntArray, span: float, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Where spans begin in texts of `n` tokens that lie one behind the other, and how long each is.

    So many tokens of each text are `hidden`, in spans of `span` in the mean. No two of them touch, so that where each
    begins and ends is known; any way to choose them is as likely as any other.
    """
    most = n - hidden + 1  # the gaps before, between and behind the tokens that stay: no two spans go into the same
    spans = np.where(hidden > 0, np.clip(np.rint(hidden / span), 1, most), 0).astype(np.int64)
    lengths = _parts(hidden, spans, rng)
    of_text = np.repeat(np.arange(len(n)), spans)
    gaps = np.flatnonzero(_choose(most, spans, rng)) - _starts(most)[of_text]
    hidden_before = np.cumsum(lengths) - lengths - _starts(hidden)[of_text]  # in the same text
    return _starts(n)[of_text] + gaps + hidden_before, lengths


def _within(begins: IntArray, lengths: IntArray, total: int) -> NDArray[np.bool_]:
    """True in spans that do not touch."""
    change = np.zeros(total + 1, np.int64)
    np.add.at(change, begins, 1)
    np.add.at(change, begins + lengths, -1)
    return np.cumsum(change)[:-1] == 1


def _parts(totals: IntArray, counts: IntArray, rng: np.random.Generator) -> IntArray:
    """Each total as a sum of so many numbers of 1 and more, one behind the other."""
    first = np.zeros(int(totals.sum()), bool)
    first[_starts(totals)[totals > 0]] = True
    begins = first.copy()
    begins[~first] = _choose(np.maximum(totals - 1, 0), np.maximum(counts - 1, 0), rng)
    return np.diff(np.append(np.flatnonzero(begins), len(begins)))


def _choose(lengths: IntArray, counts: IntArray, rng: np.random.Generator) -> NDArray[np.bool_]:
    """True at so many places of each row, chosen at random; the rows one behind the other."""
    rows = np.repeat(np.arange(len(lengths)), lengths)
    order = np.lexsort((rng.random(len(rows)), rows))
    chosen = np.zeros(len(rows), bool)
    chosen[order[np.arange(len(rows)) - _starts(lengths)[rows] < counts[rows]]] = True
    return chosen


def _starts(lengths: IntArray) -> IntArray:
    """Where each row begins."""
    return np.cumsum(lengths) - lengths
