"""Greedy and beam search (section 6.1) over three calls: `prefill`, `step`, `select`.

Search is arithmetic on small arrays: it knows nothing of tensors, weights or caches, so every engine that answers the
three calls is searched by the same lines. Axes: B live sentences, W beams of each, k candidates of a beam, C candidates
of a sentence, T tokens so far.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelError

IntArray: TypeAlias = NDArray[np.int64]
FloatArray: TypeAlias = NDArray[np.floating[Any]]
BoolArray: TypeAlias = NDArray[np.bool_]


class Decoding(Protocol):
    """A batch under way in an engine: B sources in order, each with the same number W of beams (1 after `prefill`)."""

    def step(self, tokens: IntArray, k: int) -> tuple[FloatArray, IntArray]:
        """Append a token to every beam; log-probabilities and ids of its k likeliest successors, in any order.

        (B, W) -> (B, W, k), (B, W, k); fewer than k where the vocabulary is smaller
        """

    def select(self, sources: IntArray, beams: IntArray) -> None:
        """Keep these sources, in ascending order; beam w of the i-th of them becomes what its beam `beams[i, w]` was.

        (B',), (B', W')
        """


class Engine(Protocol):
    """A model as search sees it."""

    def prefill(self, sources: Sequence[Sequence[int]], steps: int) -> AbstractContextManager[Decoding]:
        """Read B sources, whatever their lengths, to be decoded for at most `steps` steps inside the `with` block."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What a search may generate and how it ranks: `end` finishes a hypothesis, tokens of `never` are not generated."""

    end: int
    never: tuple[int, ...] = ()
    beam: int = 4
    alpha: float = 0.6

    def penalty(self, length: IntArray | int) -> FloatArray:
        """((5 + |Y|) / 6)^alpha, what a log-probability is divided by; |Y| counts the end token where there is one."""
        return ((5 + np.asarray(length, np.float64)) / 6) ** self.alpha


@dataclass(frozen=True)
class Hypothesis:
    """One answer. Log-probabilities are natural ones and count the end token, which `ids` leaves out."""

    ids: tuple[int, ...]
    score: float  # log_probability over the length penalty: what answers are ranked by
    log_probability: float
    token_log_probabilities: tuple[float, ...]
    finished: bool  # the end token was generated; otherwise the limit came first


@dataclass(frozen=True)
class Step:
    """What a step of the search did: each live sentence's best candidates, best first, and what became of them."""

    number: int  # from 1
    sentences: IntArray  # (B,) places in the batch
    parents: IntArray  # (B, C) the beam that a candidate continues
    tokens: IntArray  # (B, C)
    log_probabilities: FloatArray  # (B, C) of the token
    totals: FloatArray  # (B, C) of the whole hypothesis; -inf: not allowed
    ended: BoolArray  # (B, C) became an answer
    kept: IntArray  # (B, W) columns that live on as beams 0 to W - 1; what has neither ended nor is kept is dropped


def beam_search(
    decoding: Decoding, start: IntArray, limits: IntArray, rules: Rules, observe: Callable[[Step], None] | None = None
) -> list[list[Hypothesis]]:
    """The answers to every sentence, best first: at least one, at most `rules.beam`. (B,), (B,) -> B lists

    `start` holds the token that each sentence's output follows, `limits` the most tokens of it, the end token included.
    A hypothesis ends when its end token is among the `beam` best candidates of its sentence, so that beam 1 is greedy.
    A sentence is done when nothing alive can still beat its best answer, when it has `beam` answers and nothing alive
    leads them (four unlikely ends must not cut off a likely sentence), or at its limit; what is alive then counts,
    unfinished, only where nothing has ended. Ties go to the earlier beam, then to the lower id. NaN from the engine is
    a ModelError.
    """
    beams, answers = _Beams.of(len(start)), _Answers(len(start), rules)
    tokens, k = start[:, None], rules.beam + 1 + len(rules.never)  # so many leave `beam` that are allowed and go on
    while len(beams.sentences):
        step = _rank(beams, decoding.step(tokens, k), rules)
        if observe is not None:
            observe(step)
        answers.add_ended(step, beams)
        parents, beams = beams.grown(step, rules.end)
        done = answers.close(beams, limits[beams.sentences])
        live = np.flatnonzero(~done)
        parents, beams, width = parents[live], beams.only(live), tokens.shape[1]
        if len(live) and (done.any() or not np.array_equal(parents, np.tile(np.arange(width), (len(live), 1)))):
            decoding.select(live, parents)
        tokens = beams.tokens[:, :, -1]
    return answers.best_first()


@dataclass(frozen=True)
class _Beams:
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

    def only(self, rows: IntArray) -> Self:
        """The beams of these sentences, given by row. (B',)"""
        if len(rows) == len(self.sentences):
            return self
        return type(self)(self.sentences[rows], self.totals[rows], self.tokens[rows], self.log_probabilities[rows])


def _rank(beams: _Beams, successors: tuple[FloatArray, IntArray], rules: Rules) -> Step:
    """Order the candidates of each sentence, and decide which end and which live on."""
    log_probabilities, ids = successors
    number = beams.tokens.shape[2] + 1
    if np.isnan(log_probabilities).any():
        place = beams.sentences[np.isnan(log_probabilities).any((1, 2)).argmax()]
        raise ModelError(
            f"the probabilities of token {number} of sentence {place} of the batch are not numbers (NaN); "
            "expected a model of finite weights: take an earlier checkpoint, or train with a lower learning rate"
        )
    sentences, width, k = ids.shape
    allowed = (ids[..., None] != np.asarray(rules.never, np.int64)).all(-1)
    totals = np.where(allowed, beams.totals[:, :, None] + log_probabilities, -np.inf).reshape(sentences, -1)
    tokens, beam = ids.reshape(sentences, -1), np.broadcast_to(np.arange(width * k) // k, totals.shape)
    order = np.lexsort((tokens, beam, -totals))[:, : 2 * rules.beam]  # at most `beam` of them end
    row = np.arange(sentences)[:, None]
    tokens, totals = tokens[row, order], totals[row, order]
    ends = tokens == rules.end
    return Step(
        number=number,
        sentences=beams.sentences,
        parents=beam[row, order],
        tokens=tokens,
        log_probabilities=log_probabilities.reshape(sentences, -1)[row, order],
        totals=totals,
        ended=ends & (totals > -np.inf) & (np.arange(ends.shape[1]) < rules.beam),
        kept=ends.argsort(axis=1, kind="stable")[:, : rules.beam],
    )


class _Answers:
    """What has been found for every sentence of the batch."""

    def __init__(self, sentences: int, rules: Rules) -> None:
        self.rules = rules
        self.found: list[list[Hypothesis]] = [[] for _ in range(sentences)]
        self.count, self.best = np.zeros(sentences, np.int64), np.full(sentences, -np.inf)

    def add_ended(self, step: Step, beams: _Beams) -> None:
        """Take the candidates that ended; `beams` are what they continue."""
        for row, column in np.argwhere(step.ended):
            parent = step.parents[row, column]
            parts = [*beams.log_probabilities[row, parent].tolist(), float(step.log_probabilities[row, column])]
            self._add(beams.sentences[row], beams.tokens[row, parent], parts, step.totals[row, column], finished=True)

    def close(self, beams: _Beams, limits: IntArray) -> BoolArray:
        """Which sentences are done; those of them without an answer take what is alive. (B,) -> (B,)"""
        count, best, length = self.count[beams.sentences], self.best[beams.sentences], beams.tokens.shape[2]
        leader = beams.totals.max(1)
        full = (count >= self.rules.beam) & (leader / self.rules.penalty(length) <= best)
        # A log-probability only falls and the penalty only grows: nothing alive can ever score above the bound.
        bound = leader / self.rules.penalty(limits)
        done = full | (bound <= best) | (length >= limits)
        alive = (beams.totals > -np.inf) & (done & (count == 0))[:, None]
        for row, beam in np.argwhere(alive):
            parts = beams.log_probabilities[row, beam].tolist()
            self._add(beams.sentences[row], beams.tokens[row, beam], parts, beams.totals[row, beam], finished=False)
        return done

    def best_first(self) -> list[list[Hypothesis]]:
        """All answers in order; where every token was impossible, the answer is empty and its score -inf."""
        nothing = Hypothesis((), -np.inf, -np.inf, (), finished=False)
        for found in self.found:
            found.sort(key=lambda answer: -answer.score)  # stable: of equals the earlier comes first
        return [found[: self.rules.beam] or [nothing] for found in self.found]

    def _add(self, sentence: int, ids: IntArray, parts: list[float], total: float, *, finished: bool) -> None:
        score = float(total / self.rules.penalty(len(parts)))
        self.found[sentence].append(Hypothesis(tuple(ids.tolist()), score, float(total), tuple(parts), finished))
        self.count[sentence] += 1
        self.best[sentence] = max(self.best[sentence], score)
