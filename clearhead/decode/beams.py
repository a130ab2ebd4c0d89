"""Input, state and results of a search, as records of small arrays.

Axes: B live sentences, W beams per sentence, k candidates per beam, C candidates per sentence, T tokens so far.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np

from .rules import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Request:
    """Length limits and constraints for one sentence.

    Args:
        max_steps: number of tokens, end token included, after which the output is cut off.
        min_len: minimum number of tokens before the end token.
        prefix: tokens that the output must start with.
        max_len: number of tokens after which the end token is forced.
        should_stop: takes the tokens (T,) of a hypothesis and returns True if it ends there.
    """

    max_steps: int
    min_len: int = 0
    prefix: tuple[int, ...] = ()
    max_len: int | None = None
    should_stop: Callable[[IntArray], bool] | None = None


@dataclass(frozen=True)
class Hypothesis:
    """One answer. Log-probabilities are natural logarithms. They include the end token, `ids` doesn't."""

    ids: tuple[int, ...]
    score: float  # ranks answers: log_probability, after any repetition penalty, divided by the length penalty
    log_probability: float
    token_log_probabilities: tuple[float, ...]
    finished: bool  # ended by the end token or a stopping criterion; False if cut off, or if no token could follow

    @property
    def sort_key(self) -> tuple[bool, float]:
        """Sort key: finished answers first, then the higher score."""
        return not self.finished, -self.score


@dataclass(frozen=True)
class Step:
    """One step of the search: the top candidates of each live sentence, best first, and what happens to them."""

    number: int  # from 1
    sentences: IntArray  # (B,) indices in the batch
    parents: IntArray  # (B, C) beam that a candidate continues
    tokens: IntArray  # (B, C)
    log_probabilities: FloatArray  # (B, C) of the token
    totals: FloatArray  # (B, C) ranks the whole hypothesis, before the length penalty; -inf if forbidden
    ended: BoolArray  # (B, C) became an answer
    kept: IntArray  # (B, W) columns that become beams 0 to W - 1; candidates neither ended nor kept are dropped
    stranded: BoolArray  # (B, W) beams that can't be continued; they become unfinished answers if there are too few


@dataclass(frozen=True)
class Candidates:
    """Candidates of each beam, (B, W, k) each. `values` ranks them; -inf is forbidden."""

    ids: IntArray
    log_probabilities: FloatArray
    values: FloatArray


@dataclass(frozen=True)
class Beams:
    """The live hypotheses. A total of -inf marks an empty slot."""

    sentences: IntArray  # (B,) indices in the batch
    totals: FloatArray  # (B, W)
    tokens: IntArray  # (B, W, T)
    log_probabilities: FloatArray  # (B, W, T)

    @classmethod
    def start(cls, sentences: int) -> Self:
        """Return one empty hypothesis per sentence."""
        empty = (sentences, 1, 0)
        return cls(np.arange(sentences), np.zeros(empty[:2]), np.zeros(empty, np.int64), np.zeros(empty))

    def extend(self, step: Step, eos: int) -> tuple[IntArray, Self]:
        """Return the index of each next beam's parent (B, W), and the next beams."""
        row = np.arange(len(self.sentences))[:, None]
        parents, tokens = step.parents[row, step.kept], step.tokens[row, step.kept]
        log_probabilities = step.log_probabilities[row, step.kept]
        return parents, type(self)(
            self.sentences,
            np.where(tokens == eos, -np.inf, step.totals[row, step.kept]),  # an ended beam leaves its slot empty
            np.concatenate((self.tokens[row, parents], tokens[:, :, None]), 2),
            np.concatenate((self.log_probabilities[row, parents], log_probabilities[:, :, None]), 2),
        )

    def dead_ends(self, candidates: Candidates) -> BoolArray:
        """Mark the live beams that can't be continued. (B, W)"""
        return (self.totals > -np.inf) & (candidates.values == -np.inf).all(2)

    def keep(self, rows: IntArray) -> Self:
        """Return the beams of the sentences in these rows. (B',)"""
        if len(rows) == len(self.sentences):
            return self
        return type(self)(self.sentences[rows], self.totals[rows], self.tokens[rows], self.log_probabilities[rows])
