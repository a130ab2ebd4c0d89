"""What a search is asked, what it holds and what it gives: records of small arrays.

Axes: B live sentences, W beams of each, k candidates of a beam, C candidates of a sentence, T tokens so far.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np

from .rules import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Request:
    """What is asked of one sentence: at most `limit` tokens, the end token included, where it is cut off; at least
    `shortest` before the end, and at most `longest`, behind which only the end may follow. `forced` are its first
    tokens, whatever the model thinks of them. Where `enough` says so of the tokens (T,) of a hypothesis, it ends, too.
    """

    limit: int
    shortest: int = 0
    forced: tuple[int, ...] = ()
    longest: int | None = None
    enough: Callable[[IntArray], bool] | None = None


@dataclass(frozen=True)
class Hypothesis:
    """One answer. Log-probabilities are natural ones and count the end token, which `ids` leaves out."""

    ids: tuple[int, ...]
    score: float  # log_probability, less what repetitions cost, over the length penalty: what answers are ranked by
    log_probability: float
    token_log_probabilities: tuple[float, ...]
    finished: bool  # the end token came, or it was enough; otherwise the limit, or nothing was allowed to follow

    @property
    def order(self) -> tuple[bool, float]:
        """What answers are sorted by: the score, but those that were cut off only fill up, behind those that ended."""
        return not self.finished, -self.score


@dataclass(frozen=True)
class Step:
    """What a step of the search did: each live sentence's best candidates, best first, and what became of them."""

    number: int  # from 1
    sentences: IntArray  # (B,) places in the batch
    parents: IntArray  # (B, C) the beam that a candidate continues
    tokens: IntArray  # (B, C)
    log_probabilities: FloatArray  # (B, C) of the token
    totals: FloatArray  # (B, C) what ranks the whole hypothesis, before the length penalty; -inf: not allowed
    ended: BoolArray  # (B, C) became an answer
    kept: IntArray  # (B, W) columns that live on as beams 0 to W - 1; what has neither ended nor is kept is dropped
    stranded: BoolArray  # (B, W) beams that nothing may follow, which count, unfinished, where answers are missing


@dataclass(frozen=True)
class Candidates:
    """What may follow each beam: (B, W, k) each. `values` is what they are ranked by; -inf is not allowed."""

    ids: IntArray
    log_probabilities: FloatArray
    values: FloatArray


@dataclass(frozen=True)
class Beams:
    """The live hypotheses; a total of -inf marks a place that holds none."""

    sentences: IntArray  # (B,) places in the batch
    totals: FloatArray  # (B, W)
    tokens: IntArray  # (B, W, T)
    log_probabilities: FloatArray  # (B, W, T)

    @classmethod
    def of(cls, sentences: int) -> Self:
        """One empty hypothesis a sentence."""
        empty = (sentences, 1, 0)
        return cls(np.arange(sentences), np.zeros(empty[:2]), np.zeros(empty, np.int64), np.zeros(empty))

    def grown(self, step: Step, end: int) -> tuple[IntArray, Self]:
        """The beams of the next step, and which of these beams (B, W) they continue."""
        row = np.arange(len(self.sentences))[:, None]
        parents, tokens = step.parents[row, step.kept], step.tokens[row, step.kept]
        log_probabilities = step.log_probabilities[row, step.kept]
        return parents, type(self)(
            self.sentences,
            np.where(tokens == end, -np.inf, step.totals[row, step.kept]),  # fewer than W go on: the rest is empty
            np.concatenate((self.tokens[row, parents], tokens[:, :, None]), 2),
            np.concatenate((self.log_probabilities[row, parents], log_probabilities[:, :, None]), 2),
        )

    def dead_ends(self, candidates: Candidates) -> BoolArray:
        """Which of these beams nothing may follow. (B, W)"""
        return (self.totals > -np.inf) & (candidates.values == -np.inf).all(2)

    def only(self, rows: IntArray) -> Self:
        """The beams of these sentences, given by row. (B',)"""
        if len(rows) == len(self.sentences):
            return self
        return type(self)(self.sentences[rows], self.totals[rows], self.tokens[rows], self.log_probabilities[rows])
