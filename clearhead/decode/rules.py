"""What a search may generate: the rules, and what they make of a step's candidates.

Axes: B sentences, W beams of each, k candidates of a beam, T tokens so far.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

IntArray: TypeAlias = NDArray[np.int64]
FloatArray: TypeAlias = NDArray[np.floating[Any]]
BoolArray: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What a search may generate and how it ranks.

    `end` finishes a hypothesis, tokens of `never` are not generated, and of n-grams of length `no_repeat_ngram` none
    comes twice (0: any may). The log-probability of a token that a hypothesis already has is multiplied by
    `repetition_penalty`, 1 at least. The search goes on until nothing can get among the best `n_best`; of answers with
    the same `text` only the best counts, where that is given. Where tokens are drawn, they are drawn from the `pool`
    likeliest.
    """

    end: int
    never: tuple[int, ...] = ()
    beam: int = 4
    alpha: float = 0.6
    n_best: int = 1
    text: Callable[[Sequence[int]], str] | None = None
    no_repeat_ngram: int = 0
    repetition_penalty: float = 1.0
    pool: int = 0

    def penalty(self, length: IntArray | int) -> FloatArray:
        """((5 + |Y|) / 6)^alpha, what a log-probability is divided by; |Y| counts the end token where there is one."""
        return ((5 + np.asarray(length, np.float64)) / 6) ** self.alpha

    def candidates(self, length: int) -> int:
        """How many of a beam's likeliest successors after `length` tokens surely hold those that may be needed."""
        repeated = length if self.no_repeat_ngram or self.repetition_penalty > 1 else 0
        return max(self.beam, self.pool) + 1 + len(self.never) + repeated

    def rank(self, log_probabilities: FloatArray, ids: IntArray, tokens: IntArray, too_short: BoolArray) -> FloatArray:
        """What candidates are ranked by: their log-probabilities, less the penalty; -inf is not allowed.

        (B, W, k), (B, W, k), tokens so far (B, W, T), whether a sentence may not end yet (B,) -> (B, W, k)
        """
        barred = (ids[..., None] == np.asarray(self.never, np.int64)).any(-1)
        barred |= too_short[:, None, None] & (ids == self.end)
        if self.no_repeat_ngram:
            barred |= self._repeats(ids, tokens)
        values = log_probabilities
        if self.repetition_penalty > 1:
            seen = (ids[..., None] == tokens[:, :, None, :]).any(-1)
            values = np.where(seen, values * self.repetition_penalty, values)
        return np.where(barred, -np.inf, values)

    def _repeats(self, ids: IntArray, tokens: IntArray) -> BoolArray:
        """Which candidates would complete an n-gram that their beam already has. (B, W, k), (B, W, T) -> (B, W, k)"""
        n, length = self.no_repeat_ngram, tokens.shape[2]
        if length < n:
            return np.zeros(ids.shape, np.bool_)
        grams = np.lib.stride_tricks.sliding_window_view(tokens, n, axis=2)  # (B, W, T - n + 1, n)
        last = tokens[:, :, None, length - n + 1 :]  # the n - 1 tokens that a candidate would follow
        same = (grams[..., :-1] == last).all(-1)
        return ((ids[..., None] == grams[:, :, None, :, -1]) & same[:, :, None, :]).any(-1)
