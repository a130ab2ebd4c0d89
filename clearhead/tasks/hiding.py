"""Texts of which a part is hidden, so that a model learns from text alone to find it again.

Single tokens (BERT, Devlin et al. 2019) for an encoder; spans (BART, Lewis et al. 2020; T5, Raffel et al. 2020) for an
encoder and a decoder. What is hidden is replaced by <unk>, which byte-level subwords never give otherwise.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..text.batches import IntArray, Ragged
from ..text.tokenizer import SPECIALS, UNK

TOKENS_TO_FIND = 0.15  # share of the tokens that are to be found
_AS_HIDDEN, _AS_ANOTHER = 0.8, 0.1  # of these: replaced by <unk>, or by any token; the rest stays as it is
_SPANS, _SPAN = 0.3, 3  # share of the tokens that is hidden in spans, and their mean length


def count_to_find(tokens: list[int]) -> int:
    """How many tokens of a text are to be found: 15% of all but special ones, one at least where there is one."""
    real = sum(token >= len(SPECIALS) for token in tokens)
    return max(round(TOKENS_TO_FIND * real), min(real, 1))


def hide_tokens(
    tokens: Tensor, counts: Tensor, vocab_size: int, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """Texts with some tokens changed, and which tokens are to be found: True for exactly `counts` a row.

    (B, S), (B,) -> (B, S), (B, S). Special tokens are neither. The choice is the `generator`'s, or torch's own.
    """
    chances = torch.rand(tokens.shape, generator=generator).masked_fill(tokens < len(SPECIALS), 2.0)
    found = chances.argsort(1).argsort(1) < counts[:, None]
    how = torch.rand(tokens.shape, generator=generator)
    others = torch.randint(len(SPECIALS), vocab_size, tokens.shape, generator=generator)
    changed = torch.where(how < _AS_HIDDEN + _AS_ANOTHER, others, tokens).masked_fill(how < _AS_HIDDEN, UNK)
    return torch.where(found, changed, tokens), found


def hide_spans(texts: Ragged, rng: np.random.Generator) -> Ragged:
    """The texts, without special tokens, with a <unk> in place of every hidden span.

    Of n tokens round(0.3 n) are hidden, in spans of three in the mean. No two of them touch, so that where each begins
    and ends is known; any way to choose them is as likely as any other.
    """
    n = texts.lengths
    hidden = np.rint(_SPANS * n).astype(np.int64)
    spans = np.where(hidden > 0, np.maximum(np.rint(hidden / _SPAN), 1), 0).astype(np.int64)
    lengths = _parts(hidden, spans, rng)
    of_text = np.repeat(np.arange(len(n)), spans)
    # A span goes into one of the gaps before, between and behind the tokens that stay: no two into the same.
    gaps = np.flatnonzero(_choose(n - hidden + 1, spans, rng)) - _starts(n - hidden + 1)[of_text]
    hidden_before = np.cumsum(lengths) - lengths - _starts(hidden)[of_text]  # in the same text
    begins = texts.starts[of_text] + gaps + hidden_before
    change = np.zeros(len(texts.tokens) + 1, np.int64)
    np.add.at(change, begins, 1)
    np.add.at(change, begins + lengths, -1)
    stays = np.cumsum(change)[:-1] == 0
    stays[begins] = True  # as <unk>
    tokens = np.array(texts.tokens)
    tokens[begins] = UNK
    rows = np.repeat(np.arange(len(n)), n)
    return Ragged.of(tokens[stays], np.bincount(rows[stays], minlength=len(n)).astype(np.int64))


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
