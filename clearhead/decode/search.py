"""Greedy and beam search (section 6.1) over three calls: `prefill`, `step`, `select`.

Search is arithmetic on small arrays: it knows nothing of tensors, weights or caches, so every engine that answers the
three calls is searched by the same lines. Axes: B live sentences, W beams of each, k candidates of a beam, C candidates
of a sentence, T tokens so far.
"""

from collections.abc import Callable, Generator, Hashable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from ..errors import ModelError
from .beams import Beams, Candidates, Hypothesis, Request, Step
from .engine import Decoding
from .rules import BoolArray, IntArray, Rules

Search: TypeAlias = Generator[Step, None, list[list[Hypothesis]]]
Choose: TypeAlias = Callable[[Beams, Candidates, Rules], Step]


def beam_search(
    decoding: Decoding,
    start: IntArray,
    requests: Sequence[Request],
    rules: Rules,
    observe: Callable[[Step], None] | None = None,
) -> list[list[Hypothesis]]:
    """The answers to every sentence, best first: at least one, at most `rules.beam`. (B,), B requests -> B lists

    `start` holds the token that each sentence's output follows. A hypothesis ends when its end token is among the
    `beam` best candidates of its sentence, so that beam 1 is greedy. A sentence is done when nothing alive can still
    get among its `n_best` answers, when it has `beam` answers and nothing alive leads the worst of the `n_best` (four
    unlikely ends must not cut off a likely sentence), at its limit, or where nothing may follow; what was alive last
    then counts, unfinished, as far as answers are missing.
    Ties go to the earlier beam, then to the lower id. NaN from the engine is a ModelError.
    """
    return run(steps(decoding, start, requests, rules, best), observe)


def run(search: Search, observe: Callable[[Step], None] | None = None) -> list[list[Hypothesis]]:
    """Take all `steps` of a search, and show each to `observe`; the answers."""
    while True:
        try:
            step = next(search)
        except StopIteration as end:
            answers: list[list[Hypothesis]] = end.value
            return answers
        if observe is not None:
            observe(step)


def steps(decoding: Decoding, start: IntArray, requests: Sequence[Request], rules: Rules, choose: Choose) -> Search:
    """The steps of a search one by one, and in the end its answers; `choose` decides what becomes of the candidates."""
    beams, answers = Beams.of(len(start)), _Answers(len(start), rules)
    limits = np.array([request.limit for request in requests], np.int64)
    shortest = np.array([request.shortest for request in requests], np.int64)
    longest = np.array([-1 if request.longest is None else request.longest for request in requests], np.int64)
    tokens, forced = start[:, None], _forced(requests)
    while len(beams.sentences):
        here, length = beams.sentences, beams.tokens.shape[2]
        only = np.where(longest[here] == length, rules.end, forced[here, min(length, forced.shape[1] - 1)])
        candidates = _candidates(decoding, beams, tokens, only, shortest[here] > length, rules)
        step = choose(beams, candidates, rules)
        yield step
        answers.add_ended(step, beams)
        answers.add_unfinished(beams, step.stranded)
        parents, beams = beams.grown(step, rules.end)
        beams = answers.add_enough(beams, requests)
        done = answers.close(beams, limits[here])
        live = np.flatnonzero(~done)
        parents, beams, width = parents[live], beams.only(live), tokens.shape[1]
        if len(live) and (done.any() or not np.array_equal(parents, np.tile(np.arange(width), (len(live), 1)))):
            decoding.select(live, parents)
        tokens = beams.tokens[:, :, -1]
    return answers.best_first()


def _forced(requests: Sequence[Request]) -> IntArray:
    """The only token that may follow so many, -1 where any may, as in the last column, which is for all that are more.
    B requests -> (B, T)"""
    forced = np.full((len(requests), 1 + max((len(it.forced) for it in requests), default=0)), -1, np.int64)
    for row, request in zip(forced, requests):
        row[: len(request.forced)] = request.forced
    return forced


def _candidates(
    decoding: Decoding,
    beams: Beams,
    tokens: IntArray,
    forced: IntArray,
    too_short: BoolArray,
    rules: Rules,
) -> Candidates:
    """Let the engine take a step, and apply the rules; where a sentence's next token is `forced`, only it may be."""
    is_forced = forced >= 0
    also = np.where(is_forced, forced, rules.end) if is_forced.any() else None
    log_probabilities, ids = decoding.step(tokens, rules.candidates(beams.tokens.shape[2]), also)
    if np.isnan(log_probabilities).any():
        place = beams.sentences[np.isnan(log_probabilities).any((1, 2)).argmax()]
        raise ModelError(
            f"the probabilities of token {beams.tokens.shape[2] + 1} of sentence {place} of the batch are not numbers "
            "(NaN); expected a model of finite weights: take an earlier checkpoint, or train with a lower learning rate"
        )
    values = rules.rank(log_probabilities, ids, beams.tokens, too_short)
    if also is not None:
        last = np.arange(values.shape[2]) == values.shape[2] - 1
        only = np.where(last, log_probabilities, -np.inf)
        values = np.where(is_forced[:, None, None], only, np.where(last, -np.inf, values))
    return Candidates(ids, log_probabilities, values)


def best(beams: Beams, candidates: Candidates, rules: Rules) -> Step:
    """Order the candidates of each sentence, and decide which end and which live on."""
    sentences, width, k = candidates.ids.shape
    totals = (beams.totals[:, :, None] + candidates.values).reshape(sentences, -1)
    tokens, beam = candidates.ids.reshape(sentences, -1), np.broadcast_to(np.arange(width * k) // k, totals.shape)
    order = np.lexsort((tokens, beam, -totals))[:, : 2 * rules.beam]  # at most `beam` of them end
    row = np.arange(sentences)[:, None]
    tokens, totals = tokens[row, order], totals[row, order]
    ends, allowed = tokens == rules.end, totals > -np.inf
    goes_on = (allowed & ~ends).any(1, keepdims=True)
    return Step(
        number=beams.tokens.shape[2] + 1,
        sentences=beams.sentences,
        parents=beam[row, order],
        tokens=tokens,
        log_probabilities=candidates.log_probabilities.reshape(sentences, -1)[row, order],
        totals=totals,
        ended=ends & allowed & (np.arange(ends.shape[1]) < rules.beam),
        kept=ends.argsort(axis=1, kind="stable")[:, : rules.beam],
        stranded=beams.dead_ends(candidates) & ~goes_on,
    )


class _Answers:
    """What has been found for every sentence of the batch."""

    def __init__(self, sentences: int, rules: Rules) -> None:
        self.rules = rules
        self.found: list[dict[Hashable, Hypothesis]] = [{} for _ in range(sentences)]  # by text, or by number
        self.count = np.zeros(sentences, np.int64)
        self.worst = np.full(sentences, -np.inf)  # of the n_best; -inf while some lack

    def add_ended(self, step: Step, beams: Beams) -> None:
        """Take the candidates that ended; `beams` are what they continue."""
        for row, column in np.argwhere(step.ended):
            parent = step.parents[row, column]
            parts = [*beams.log_probabilities[row, parent].tolist(), float(step.log_probabilities[row, column])]
            self._add(beams.sentences[row], beams.tokens[row, parent], parts, step.totals[row, column], finished=True)

    def add_enough(self, beams: Beams, requests: Sequence[Request]) -> Beams:
        """Take the hypotheses that are enough for their requests; the others go on."""
        asked = [(row, requests[place].enough) for row, place in enumerate(beams.sentences.tolist())]
        alive, taken = beams.totals > -np.inf, np.zeros(beams.totals.shape, np.bool_)
        for row, enough in asked:
            if enough is not None:
                taken[row] = [live and enough(ids) for live, ids in zip(alive[row], beams.tokens[row])]
        for row, beam in np.argwhere(taken):
            parts = beams.log_probabilities[row, beam].tolist()
            self._add(beams.sentences[row], beams.tokens[row, beam], parts, beams.totals[row, beam], finished=True)
        return replace(beams, totals=np.where(taken, -np.inf, beams.totals)) if taken.any() else beams

    def add_unfinished(self, beams: Beams, which: BoolArray) -> None:
        """Take these hypotheses (B, W) of the sentences that lack answers, if they have begun."""
        lacks = self.count[beams.sentences] < self.rules.n_best
        for row, beam in np.argwhere(which & lacks[:, None] & (beams.tokens.shape[2] > 0)):
            parts = beams.log_probabilities[row, beam].tolist()
            self._add(beams.sentences[row], beams.tokens[row, beam], parts, beams.totals[row, beam], finished=False)

    def close(self, beams: Beams, limits: IntArray) -> BoolArray:
        """Which sentences are done; those of them that lack answers take what is alive. (B,) -> (B,)"""
        here, length = beams.sentences, beams.tokens.shape[2]
        count, worst, leader = self.count[here], self.worst[here], beams.totals.max(1)
        full = (count >= self.rules.beam) & (leader / self.rules.penalty(length) <= worst)
        # A log-probability only falls and the penalty only grows: nothing alive can ever score above the bound.
        bound = leader / self.rules.penalty(limits)
        done = full | (bound <= worst) | (length >= limits)
        self.add_unfinished(beams, (beams.totals > -np.inf) & done[:, None])
        return done

    def best_first(self) -> list[list[Hypothesis]]:
        """All answers in order; where every token was impossible, the answer is empty and its score -inf."""
        nothing = Hypothesis((), -np.inf, -np.inf, (), finished=False)
        ordered = [sorted(found.values(), key=lambda answer: answer.order) for found in self.found]
        return [found[: self.rules.beam] or [nothing] for found in ordered]

    def _add(self, sentence: int, ids: IntArray, parts: list[float], total: float, *, finished: bool) -> None:
        score = float(total / self.rules.penalty(len(parts)))
        answer = Hypothesis(tuple(ids.tolist()), score, sum(parts), tuple(parts), finished)
        found = self.found[sentence]
        key = len(found) if self.rules.text is None else self.rules.text(answer.ids)
        if key in found and found[key].order <= answer.order:
            return
        found[key] = answer
        self.count[sentence] = len(found)
        if len(found) >= self.rules.n_best:
            scores = sorted((answer.score for answer in found.values()), reverse=True)
            self.worst[sentence] = scores[self.rules.n_best - 1]
