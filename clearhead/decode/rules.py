"""Constraints and ranking rules of a search, applied to the candidates of each step.

Axes: B sentences, W beams per sentence, k candidates per beam, T tokens so far.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

IntArray: TypeAlias = NDArray[np.int64]
FloatArray: TypeAlias = NDArray[np.floating[Any]]
BoolArray: TypeAlias = NDArray[np.bool_]
Sources: TypeAlias = Sequence[Sequence[int]]  # token ids of each source


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Constraints and ranking rules of a search.

    Args:
        eos: the token that finishes a hypothesis.
        more_eos: more tokens that finish one.
        suppress: tokens that are never generated.
        beam: hypotheses to keep per sentence.
        alpha: exponent of the length penalty.
        n_best: number of answers that must be final before the search stops.
        detokenize: if given, only the best of several answers with the same text is kept.
        no_repeat_ngram: length of the n-grams that may occur only once (0: no limit).
        repetition_penalty: factor, at least 1, on the log-probability of tokens that a hypothesis already contains.
        pool: number of top candidates to sample from (0: not sampling).
    """

    eos: int
    more_eos: tuple[int, ...] = ()
    suppress: tuple[int, ...] = ()
    beam: int = 4
    alpha: float = 0.6
    n_best: int = 1
    detokenize: Callable[[Sequence[int]], str] | None = None
    no_repeat_ngram: int = 0
    repetition_penalty: float = 1.0
    pool: int = 0

    def penalty(self, length: IntArray | int) -> FloatArray:
        """Return the length penalty ((5 + |Y|) / 6)^alpha, where |Y| counts the end token if there is one."""
        return ((5 + np.asarray(length, np.float64)) / 6) ** self.alpha

    @property
    def considered(self) -> int:
        """The number of candidates per sentence among which a beam finds its successors, whichever of them end."""
        return (2 + len(self.more_eos)) * self.beam

    def ends(self, ids: IntArray) -> BoolArray:
        """Mark the tokens that finish a hypothesis. (...) -> (...)"""
        return np.isin(ids, (self.eos, *self.more_eos)) if self.more_eos else ids == self.eos

    def candidates(self, length: int) -> int:
        """Return how many successors to request for a beam of `length` tokens, so that enough of them are allowed."""
        repeated = length if self.no_repeat_ngram or self.repetition_penalty > 1 else 0
        return max(self.beam, self.pool) + 1 + len(self.more_eos) + len(self.suppress) + repeated

    def rank(self, log_probabilities: FloatArray, ids: IntArray, tokens: IntArray, too_short: BoolArray) -> FloatArray:
        """Return the values to rank candidates by: penalised log-probabilities, or -inf if a rule forbids the token.

        Args:
            log_probabilities: (B, W, k)
            ids: (B, W, k)
            tokens: the hypotheses so far (B, W, T)
            too_short: True for sentences that may not end yet (B,)

        Returns:
            (B, W, k)
        """
        forbidden = (ids[..., None] == np.asarray(self.suppress, np.int64)).any(-1)
        forbidden |= too_short[:, None, None] & self.ends(ids)
        if self.no_repeat_ngram:
            forbidden |= self._repeats(ids, tokens)
        values = log_probabilities
        if self.repetition_penalty > 1:
            seen = (ids[..., None] == tokens[:, :, None, :]).any(-1)
            values = np.where(seen, values * self.repetition_penalty, values)
        return np.where(forbidden, -np.inf, values)

    def _repeats(self, ids: IntArray, tokens: IntArray) -> BoolArray:
        """Mark candidates that would repeat an n-gram of their beam. (B, W, k), (B, W, T) -> (B, W, k)"""
        n, length = self.no_repeat_ngram, tokens.shape[2]
        if length < n:
            return np.zeros(ids.shape, np.bool_)
        grams = np.lib.stride_tricks.sliding_window_view(tokens, n, axis=2)  # (B, W, T - n + 1, n)
        last = tokens[:, :, None, length - n + 1 :]  # the n - 1 tokens before a candidate
        same = (grams[..., :-1] == last).all(-1)
        return ((ids[..., None] == grams[:, :, None, :, -1]) & same[:, :, None, :]).any(-1)
