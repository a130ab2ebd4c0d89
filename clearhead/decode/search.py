"""Greedy and beam search (section 6.1) over a step engine's three calls: `prefill`, `step`, `select`.

The search only handles small NumPy arrays, not tensors, weights or caches, so it works with every step engine. Axes:
B live sentences, W beams per sentence, k candidates per beam, C candidates per sentence, T tokens so far.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from ..errors import ModelError
from .beams import Answers, Beams, Candidates, Hypothesis, Observe, Request, RequestArrays, SearchStep
from .engine import Decoding, JoinableDecoding
from .rules import BoolArray, FloatArray, IntArray, Rules

Choose: TypeAlias = Callable[[Beams, Candidates, Rules], SearchStep]


def beam_search(
    decoding: Decoding, start: IntArray, requests: Sequence[Request], rules: Rules, observe: Observe | None = None
) -> Answers:
    """Search for the best answers to each sentence.

    A hypothesis ends when its end token is among the `beam` top candidates of its sentence, so beam 1 is greedy search.
    A sentence is done when one of these holds:

    - no live hypothesis can still become one of its `n_best` answers
    - it has `beam` answers, and no live hypothesis currently outscores the worst of the `n_best`. Unlikely early ends
      alone therefore don't cut off a likely sentence.
    - it reaches its length limit
    - no hypothesis can be continued

    If it has too few answers by then, its live hypotheses are added as unfinished ones. Ties go to the earlier beam,
    then to the lower id.

    Args:
        decoding: the prefilled batch.
        start: the token before each sentence's output (B,).
        requests: one per sentence.
        rules: constraints and ranking.
        observe: called with every step.

    Returns:
        1 to `rules.beam` answers per sentence, best first.

    Raises:
        ModelError: the engine returned NaN.
    """
    return Search(decoding, start, requests, rules).run(observe)


class Search:
    """A search in progress. Between steps, sentences can leave it and others can join it.

    Args:
        decoding: the prefilled batch.
        start: the token before each sentence's output (B,).
        requests: one per sentence.
        rules: constraints and ranking.
        choose: picks the candidates that end or continue, such as a `Sampler` (default: the best ones).
        sentences: a number for each sentence, ascending (default: 0 to B - 1).
    """

    def __init__(
        self,
        decoding: Decoding,
        start: IntArray,
        requests: Sequence[Request],
        rules: Rules,
        choose: Choose | None = None,
        sentences: Sequence[int] | None = None,
    ) -> None:
        self.decoding, self.rules, self.choose = decoding, rules, choose or _choose_best
        self.beams = Beams.start(range(len(start)) if sentences is None else sentences)
        self.limits, self.answers, self.tokens = RequestArrays.of(requests), _Answers(len(start), rules), start[:, None]
        self._finished: dict[int, list[Hypothesis]] = {}

    @property
    def live(self) -> list[int]:
        """The numbers of the sentences that aren't done."""
        return self.beams.sentences.tolist()

    def run(self, observe: Observe | None = None) -> Answers:
        """Run to the end, pass each step to `observe`, and return the answers in the order of the sentences."""
        found: dict[int, list[Hypothesis]] = {}
        while self.live:
            step = self.step()
            if observe is not None:
                observe(step)
            found |= self.finished()
        return [found[place] for place in sorted(found)]

    def finished(self) -> dict[int, list[Hypothesis]]:
        """Return the answers of the sentences that are done, by number, best first. Returns each of them once."""
        found, self._finished = self._finished, {}
        return found

    def step(self) -> SearchStep:
        """Append one token to every hypothesis, and return what happened."""
        step = self.choose(self.beams, self._candidates(), self.rules)
        self.answers.add_ended(step, self.beams)
        self.answers.add_unfinished(self.beams, step.stranded)
        parents, self.beams = self.beams.extend(step, self.rules)
        if self.limits.can_stop:
            self.beams = self.answers.add_stopped(self.beams, self.limits)
        width, self.tokens = self.tokens.shape[1], self.beams.tokens[:, :, -1]
        done = self.answers.close(self.beams, self.limits)
        for row in np.flatnonzero(done).tolist():
            self._finished[int(self.beams.sentences[row])] = self.answers.best_first(row)
        self._keep(np.flatnonzero(~done), parents, width)
        return step

    def drop(self, sentences: Sequence[int]) -> None:
        """Drop these sentences. Their rows are free immediately."""
        rows = np.flatnonzero(~np.isin(self.beams.sentences, sentences))
        self._keep(rows, _unmoved(*self.tokens.shape), self.tokens.shape[1])

    def join(self, other: "Search") -> None:
        """Append the sentences of another search, which has the same rules and higher numbers, and hasn't begun."""
        assert isinstance(self.decoding, JoinableDecoding) and isinstance(other.decoding, JoinableDecoding)
        self.decoding.join(other.decoding)
        width = self.tokens.shape[1]
        self.tokens = np.concatenate((self.tokens, np.repeat(other.tokens, width, 1)))
        self.beams = self.beams.join(other.beams)
        self.limits, self.answers = self.limits.join(other.limits), self.answers.join(other.answers)

    def _keep(self, rows: IntArray, parents: IntArray, width: int) -> None:
        """Keep the sentences in these rows (B',). Their beams continue the `parents` (B, W), of `width` beams."""
        parents, fewer = parents[rows], len(rows) < len(self.tokens)
        if len(rows) and (fewer or not np.array_equal(parents, _unmoved(len(rows), width))):
            self.decoding.select(rows, parents)
        if fewer:
            self.beams, self.limits = self.beams.keep(rows), self.limits.keep(rows)
            self.answers = self.answers.keep(rows)
            self.tokens = self.tokens[rows]

    def _candidates(self) -> Candidates:
        """Run one engine step and apply the rules."""
        beams, limits, rules = self.beams, self.limits, self.rules
        forced, too_short = limits.forced(beams.lengths, rules.eos), limits.min_len > beams.lengths
        also = None if forced is None else np.where(forced >= 0, forced, rules.eos)
        log_probabilities, ids = self.decoding.step(self.tokens, rules.candidates(beams.tokens.shape[2]), also)
        if np.isnan(log_probabilities).any():
            row = np.isnan(log_probabilities).any((1, 2)).argmax()
            raise nan_error(int(beams.lengths[row]) + 1, int(beams.sentences[row]))
        values = rules.rank(log_probabilities, ids, beams.tokens, too_short)
        if forced is not None:
            last = np.arange(values.shape[2]) == values.shape[2] - 1
            only = np.where(last, log_probabilities, -np.inf)
            values = np.where(forced[:, None, None] >= 0, only, np.where(last, -np.inf, values))
        return Candidates(ids, log_probabilities, values)


def nan_error(token: int, sentence: int) -> ModelError:
    """Return the error for NaN among the probabilities of an output's n-th token."""
    what = f"the model's probabilities for token {token} of sentence {sentence} of the batch are NaN"
    fix = "use an earlier checkpoint, or train with a lower learning rate"
    return ModelError(what, expected="finite weights", fix=fix, name="probabilities", value=float("nan"))


def _choose_best(beams: Beams, candidates: Candidates, rules: Rules) -> SearchStep:
    """Rank the candidates of each sentence, and pick those that end and those that continue.

    Args:
        beams: the live hypotheses, W for each of B sentences.
        candidates: k for each beam, (B, W, k).
        rules: decide which tokens end an answer and how many candidates are considered.
    """
    sentences, width, k = candidates.ids.shape
    totals = (beams.totals[:, :, None] + candidates.values).reshape(sentences, -1)
    tokens, beam = candidates.ids.reshape(sentences, -1), np.broadcast_to(np.arange(width * k) // k, totals.shape)
    order = np.lexsort((tokens, beam, -totals))[:, : rules.considered]  # at most `beam` of them end
    row = np.arange(sentences)[:, None]
    tokens, totals = tokens[row, order], totals[row, order]
    ends, allowed = rules.ends(tokens), totals > -np.inf
    continues = (allowed & ~ends).any(1, keepdims=True)
    return SearchStep(
        number=beams.tokens.shape[2] + 1,
        sentences=beams.sentences,
        parents=beam[row, order],
        tokens=tokens,
        log_probabilities=candidates.log_probabilities.reshape(sentences, -1)[row, order],
        totals=totals,
        ended=ends & allowed & (np.arange(ends.shape[1]) < rules.beam),
        kept=ends.argsort(axis=1, kind="stable")[:, : rules.beam],
        stranded=beams.dead_ends(candidates) & ~continues,
    )


class _Answers:
    """The answers found so far for every live sentence."""

    def __init__(self, sentences: int, rules: Rules) -> None:
        self.rules = rules
        self.found: list[dict[Hashable, Hypothesis]] = [{} for _ in range(sentences)]  # keyed by text, or numbered
        self.count = np.zeros(sentences, np.int64)
        self.worst = np.full(sentences, -np.inf)  # lowest score among the n_best; -inf while some are missing

    def add_ended(self, step: SearchStep, beams: Beams) -> None:
        """Add the candidates that ended; `beams` are their parents."""
        for row, column in np.argwhere(step.ended).tolist():
            ids, parts = beams.written(row, step.parents[row, column])
            parts.append(float(step.log_probabilities[row, column]))
            end = int(step.tokens[row, column])
            self._add(row, ids, parts, step.totals[row, column], finished=True, end=end)

    def add_stopped(self, beams: Beams, limits: RequestArrays) -> Beams:
        """Add the hypotheses that meet a stopping criterion, and return the beams without them."""
        stopped = np.zeros(beams.totals.shape, np.bool_)
        for row, beam in np.argwhere(beams.totals > -np.inf).tolist():
            should_stop = limits.requests[row].should_stop
            ids, parts = beams.written(row, beam)
            if should_stop is not None and should_stop(ids):
                stopped[row, beam] = True
                self._add(row, ids, parts, beams.totals[row, beam], finished=True)
        return replace(beams, totals=np.where(stopped, -np.inf, beams.totals)) if stopped.any() else beams

    def add_unfinished(self, beams: Beams, which: BoolArray) -> None:
        """Add the marked, non-empty hypotheses (B, W) of sentences with fewer than `n_best` answers."""
        lacking = (self.count < self.rules.n_best) & (beams.lengths > 0)
        for row, beam in np.argwhere(which & lacking[:, None]).tolist():
            self._add(row, *beams.written(row, beam), beams.totals[row, beam], finished=False)

    def close(self, beams: Beams, limits: RequestArrays) -> BoolArray:
        """Mark the sentences that are done, and add their live hypotheses if they have too few answers. -> (B,)"""
        leader, most = beams.totals.max(1), limits.max_steps
        full = (self.count >= self.rules.beam) & (leader / self.rules.penalty(beams.lengths) <= self.worst)
        # Log-probabilities only fall and the penalty only grows, so no live hypothesis can ever score above the bound.
        bound = leader / self.rules.penalty(most)
        done: BoolArray = full | (bound <= self.worst) | (beams.lengths >= most)
        if done.any():
            self.add_unfinished(beams, (beams.totals > -np.inf) & done[:, None])
        return done

    def best_first(self, row: int) -> list[Hypothesis]:
        """Return a sentence's sorted answers. If every token was forbidden, the answer is empty and scores -inf."""
        ordered = sorted(self.found[row].values(), key=lambda answer: answer.sort_key)
        return ordered[: self.rules.beam] or [Hypothesis((), -np.inf, -np.inf, (), finished=False)]

    def keep(self, rows: IntArray) -> "_Answers":
        """Return the answers of the sentences in these rows. (B',)"""
        return self._having([self.found[row] for row in rows], self.count[rows], self.worst[rows])

    def join(self, other: "_Answers") -> "_Answers":
        """Return the answers of both."""
        count, worst = (np.concatenate(two) for two in ((self.count, other.count), (self.worst, other.worst)))
        return self._having(self.found + other.found, count, worst)

    def _having(self, found: list[dict[Hashable, Hypothesis]], count: IntArray, worst: FloatArray) -> "_Answers":
        answers = _Answers(0, self.rules)
        answers.found, answers.count, answers.worst = found, count, worst
        return answers

    def _add(
        self, row: int, ids: IntArray, parts: list[float], total: float, *, finished: bool, end: int | None = None
    ) -> None:
        score = float(total / self.rules.penalty(len(parts)))
        answer = Hypothesis(tuple(ids.tolist()), score, sum(parts), tuple(parts), finished, end)
        found = self.found[row]
        key = len(found) if self.rules.detokenize is None else self.rules.detokenize(answer.ids)
        if key in found and found[key].sort_key <= answer.sort_key:
            return
        found[key] = answer
        self.count[row] = len(found)
        if len(found) >= self.rules.n_best:
            scores = sorted((answer.score for answer in found.values()), reverse=True)
            self.worst[row] = scores[self.rules.n_best - 1]


def _unmoved(sentences: int, width: int) -> IntArray:
    """Return the parents of beams that all continue themselves. -> (B, W)"""
    return np.broadcast_to(np.arange(width), (sentences, width))
