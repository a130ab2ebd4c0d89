"""Input, state and results of a search, as records of small arrays.

Axes: B live sentences, W beams per sentence, k candidates per beam, C candidates per sentence, T tokens so far.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .rules import BoolArray, FloatArray, IntArray, Rules


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
    """One answer. Its log-probabilities are natural logarithms and include that of the end token; `ids` omits it."""

    ids: tuple[int, ...]
    score: float  # ranks answers: log_probability, after any repetition penalty, divided by the length penalty
    log_probability: float
    token_log_probabilities: tuple[float, ...]
    finished: bool  # ended by an end token or a stopping criterion; False if cut off, or if no token could follow
    end: int | None = None  # the end token; None if there is none or the engine doesn't name it

    @property
    def certainty(self) -> float:
        """The mean log-probability of the tokens, end token included."""
        return self.log_probability / (len(self.token_log_probabilities) or len(self.ids) + 1)

    @property
    def sort_key(self) -> tuple[bool, float]:
        """Sort key: finished answers first, then the higher score."""
        return not self.finished, -self.score

    def last(self, eos: int) -> list[int]:
        """Return the end token of a finished answer that no criterion stopped, `eos` if it isn't named; else []."""
        return [eos if self.end is None else self.end] if self.finished else []


Answers: TypeAlias = list[list[Hypothesis]]  # those of each source, best first


@dataclass(frozen=True)
class SearchStep:
    """One step of the search: the top candidates of each live sentence, best first, and what happens to them."""

    number: int  # from 1; if sentences joined later, that of the longest one
    sentences: IntArray  # (B,) numbers of the sentences: their indices in the batch, unless sentences joined later
    parents: IntArray  # (B, C) beam that a candidate continues
    tokens: IntArray  # (B, C)
    log_probabilities: FloatArray  # (B, C) of the token
    totals: FloatArray  # (B, C) ranks the whole hypothesis, before the length penalty; -inf if forbidden
    ended: BoolArray  # (B, C) became an answer
    kept: IntArray  # (B, W) columns that become beams 0 to W - 1; candidates neither ended nor kept are dropped
    stranded: BoolArray  # (B, W) beams that can't be continued; they become unfinished answers if there are too few

    def chosen(self, row: int) -> int | None:
        """Return the token that a search with one beam appended to a sentence, or None if it ended there."""
        column = self.kept[row, 0]
        if self.ended[row].any() or self.totals[row, column] == -np.inf:
            return None
        return int(self.tokens[row, column])


Observe: TypeAlias = Callable[[SearchStep], None]  # called with every step of a search


@dataclass(frozen=True)
class Candidates:
    """Candidates of each beam, (B, W, k) each. `values` ranks them; -inf is forbidden."""

    ids: IntArray
    log_probabilities: FloatArray
    values: FloatArray


@dataclass(frozen=True)
class RequestArrays:
    """The requests of the live sentences, and their limits and prefixes as arrays."""

    requests: list[Request]
    max_steps: IntArray  # (B,)
    min_len: IntArray  # (B,)
    max_len: IntArray  # (B,) -1: no maximum
    prefixes: IntArray  # (B, P) the token forced at each position; -1: any. The last column is for all later ones
    can_stop: bool  # whether any request has a stopping criterion
    can_force: bool  # whether any request has a prefix or a maximum length

    @classmethod
    def of(cls, requests: Sequence[Request]) -> Self:
        """Convert requests to arrays."""
        prefixes = np.full((len(requests), 1 + max((len(it.prefix) for it in requests), default=0)), -1, np.int64)
        for row, request in zip(prefixes, requests):
            row[: len(request.prefix)] = request.prefix
        numbers = [(it.max_steps, it.min_len, -1 if it.max_len is None else it.max_len) for it in requests]
        steps, least, most = np.array(numbers, np.int64).reshape(-1, 3).T
        can_stop = any(it.should_stop is not None for it in requests)
        can_force = prefixes.shape[1] > 1 or bool((most >= 0).any())
        return cls(list(requests), steps, least, most, prefixes, can_stop, can_force)

    def forced(self, lengths: IntArray, eos: int) -> IntArray | None:
        """Return the token forced at the next position of each sentence, or -1 where any is allowed.

        None if no sentence has one. `lengths` are the numbers of tokens so far. (B,) -> (B,)
        """
        if not self.can_force:
            return None
        column = np.minimum(lengths, self.prefixes.shape[1] - 1)
        found = np.where(self.max_len == lengths, eos, self.prefixes[np.arange(len(column)), column])
        return found if (found >= 0).any() else None

    def keep(self, rows: IntArray) -> Self:
        """Return the requests of the sentences in these rows. (B',)"""
        return type(self).of([self.requests[row] for row in rows])

    def join(self, other: Self) -> Self:
        """Return the requests of both, with those of `other` last."""
        return type(self).of(self.requests + other.requests)


@dataclass(frozen=True)
class Beams:
    """The live hypotheses. A total of -inf marks an empty slot.

    The newest token comes last. T is the number of tokens of the longest sentence. Sentences that joined later have
    fewer, so their rows begin with -1s.
    """

    sentences: IntArray  # (B,) numbers of the sentences
    totals: FloatArray  # (B, W)
    tokens: IntArray  # (B, W, T)
    log_probabilities: FloatArray  # (B, W, T)
    lengths: IntArray  # (B,) number of tokens

    @classmethod
    def start(cls, sentences: Sequence[int]) -> Self:
        """Return one empty hypothesis per sentence."""
        empty, numbers = (len(sentences), 1, 0), np.array(sentences, np.int64)
        return cls(numbers, np.zeros(empty[:2]), np.zeros(empty, np.int64), np.zeros(empty), np.zeros_like(numbers))

    def written(self, row: int, beam: int) -> tuple[IntArray, list[float]]:
        """Return the tokens of a hypothesis (T,), and their log-probabilities."""
        first = self.tokens.shape[2] - self.lengths[row]
        return self.tokens[row, beam, first:], self.log_probabilities[row, beam, first:].tolist()

    def extend(self, step: SearchStep, rules: Rules) -> tuple[IntArray, Self]:
        """Return the index of each next beam's parent (B, W), and the next beams."""
        row = np.arange(len(self.sentences))[:, None]
        parents, tokens = step.parents[row, step.kept], step.tokens[row, step.kept]
        log_probabilities = step.log_probabilities[row, step.kept]
        return parents, type(self)(
            self.sentences,
            np.where(rules.ends(tokens), -np.inf, step.totals[row, step.kept]),  # an ended beam leaves its slot empty
            np.concatenate((self.tokens[row, parents], tokens[:, :, None]), 2),
            np.concatenate((self.log_probabilities[row, parents], log_probabilities[:, :, None]), 2),
            self.lengths + 1,
        )

    def dead_ends(self, candidates: Candidates) -> BoolArray:
        """Mark the live beams that can't be continued. (B, W)"""
        return (self.totals > -np.inf) & (candidates.values == -np.inf).all(2)

    def keep(self, rows: IntArray) -> Self:
        """Return the beams of the sentences in these rows. (B',)"""
        lengths = self.lengths[rows]
        first = self.tokens.shape[2] - lengths.max(initial=0)
        tokens, log_probabilities = self.tokens[rows, :, first:], self.log_probabilities[rows, :, first:]
        return type(self)(self.sentences[rows], self.totals[rows], tokens, log_probabilities, lengths)

    def join(self, other: Self) -> Self:
        """Return the beams of both, with those of `other` last. The side with fewer beams gets empty slots."""
        width, length = np.maximum(self.tokens.shape[1:], other.tokens.shape[1:])

        def both(ours: NDArray[Any], theirs: NDArray[Any], fill: float) -> NDArray[Any]:
            """Pad both sides to equal sizes, after the last beam and before the first token, and join them."""
            two = []
            for it in (ours, theirs):
                pad = [(0, 0), (0, width - it.shape[1]), *[(length - it.shape[-1], 0)] * (it.ndim - 2)]
                two.append(np.pad(it, pad, constant_values=fill))
            return np.concatenate(two)

        return type(self)(
            np.concatenate((self.sentences, other.sentences)),
            both(self.totals, other.totals, -np.inf),
            both(self.tokens, other.tokens, -1),
            both(self.log_probabilities, other.log_probabilities, 0.0),
            np.concatenate((self.lengths, other.lengths)),
        )
