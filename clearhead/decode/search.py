"""Greedy and beam search (section 6.1) over a step engine's three calls: `prefill`, `step`, `select`.

The search only handles small NumPy arrays, not tensors, weights or caches, so it works with every step engine. Axes:
B live sentences, W beams per sentence, k candidates per beam, C candidates per sentence, T tokens so far.
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
    return run_search(search_steps(decoding, start, requests, rules, choose_best), observe)


def run_search(search: Search, observe: Callable[[Step], None] | None = None) -> list[list[Hypothesis]]:
    """Run a search to its end, pass each step to `observe`, and return the answers."""
    while True:
        try:
            step = next(search)
        except StopIteration as end:
            answers: list[list[Hypothesis]] = end.value
            return answers
        if observe is not None:
            observe(step)


def search_steps(
    decoding: Decoding, start: IntArray, requests: Sequence[Request], rules: Rules, choose: Choose
) -> Search:
    """Yield the steps of a search, then return its answers. `choose` picks the candidates that end or continue."""
    beams, answers = Beams.start(len(start)), _Answers(len(start), rules)
    limits = np.array([request.max_steps for request in requests], np.int64)
    min_lens = np.array([request.min_len for request in requests], np.int64)
    max_lens = np.array([-1 if request.max_len is None else request.max_len for request in requests], np.int64)
    tokens, prefixes = start[:, None], _prefixes(requests)
    while len(beams.sentences):
        here, length = beams.sentences, beams.tokens.shape[2]
        forced = np.where(max_lens[here] == length, rules.eos, prefixes[here, min(length, prefixes.shape[1] - 1)])
        candidates = _candidates(decoding, beams, tokens, forced, min_lens[here] > length, rules)
        step = choose(beams, candidates, rules)
        yield step
        answers.add_ended(step, beams)
        answers.add_unfinished(beams, step.stranded)
        parents, beams = beams.extend(step, rules.eos)
        beams = answers.add_stopped(beams, requests)
        done = answers.close(beams, limits[here])
        live = np.flatnonzero(~done)
        parents, beams, width = parents[live], beams.keep(live), tokens.shape[1]
        if len(live) and (done.any() or not np.array_equal(parents, np.tile(np.arange(width), (len(live), 1)))):
            decoding.select(live, parents)
        tokens = beams.tokens[:, :, -1]
    return answers.best_first()


def _prefixes(requests: Sequence[Request]) -> IntArray:
    """Return the forced token at each position, or -1 if any is allowed. The last column applies to all later ones.

    B requests -> (B, T)
    """
    prefixes = np.full((len(requests), 1 + max((len(it.prefix) for it in requests), default=0)), -1, np.int64)
    for row, request in zip(prefixes, requests):
        row[: len(request.prefix)] = request.prefix
    return prefixes


def _candidates(
    decoding: Decoding,
    beams: Beams,
    tokens: IntArray,
    forced: IntArray,
    too_short: BoolArray,
    rules: Rules,
) -> Candidates:
    """Run one engine step and apply the rules. A token in `forced` is the only candidate allowed; -1 forces none."""
    is_forced = forced >= 0
    also = np.where(is_forced, forced, rules.eos) if is_forced.any() else None
    log_probabilities, ids = decoding.step(tokens, rules.candidates(beams.tokens.shape[2]), also)
    if np.isnan(log_probabilities).any():
        place = beams.sentences[np.isnan(log_probabilities).any((1, 2)).argmax()]
        raise nan_error(beams.tokens.shape[2] + 1, int(place))
    values = rules.rank(log_probabilities, ids, beams.tokens, too_short)
    if also is not None:
        last = np.arange(values.shape[2]) == values.shape[2] - 1
        only = np.where(last, log_probabilities, -np.inf)
        values = np.where(is_forced[:, None, None], only, np.where(last, -np.inf, values))
    return Candidates(ids, log_probabilities, values)


def nan_error(token: int, sentence: int) -> ModelError:
    """Return the error for NaN among the probabilities of an output's n-th token."""
    return ModelError(
        f"the model's probabilities for token {token} of sentence {sentence} of the batch are NaN",
        expected="finite weights",
        fix="use an earlier checkpoint, or train with a lower learning rate",
        name="probabilities",
        value=float("nan"),
    )


def choose_best(beams: Beams, candidates: Candidates, rules: Rules) -> Step:
    """Rank the candidates of each sentence, and pick those that end and those that continue."""
    sentences, width, k = candidates.ids.shape
    totals = (beams.totals[:, :, None] + candidates.values).reshape(sentences, -1)
    tokens, beam = candidates.ids.reshape(sentences, -1), np.broadcast_to(np.arange(width * k) // k, totals.shape)
    order = np.lexsort((tokens, beam, -totals))[:, : 2 * rules.beam]  # at most `beam` of them end
    row = np.arange(sentences)[:, None]
    tokens, totals = tokens[row, order], totals[row, order]
    ends, allowed = tokens == rules.eos, totals > -np.inf
    continues = (allowed & ~ends).any(1, keepdims=True)
    return Step(
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
    """The answers found so far for every sentence of the batch."""

    def __init__(self, sentences: int, rules: Rules) -> None:
        self.rules = rules
        self.found: list[dict[Hashable, Hypothesis]] = [{} for _ in range(sentences)]  # keyed by text, or numbered
        self.count = np.zeros(sentences, np.int64)
        self.worst = np.full(sentences, -np.inf)  # lowest score among the n_best; -inf while some are missing

    def add_ended(self, step: Step, beams: Beams) -> None:
        """Add the candidates that ended; `beams` are their parents."""
        for row, column in np.argwhere(step.ended):
            parent = step.parents[row, column]
            parts = [*beams.log_probabilities[row, parent].tolist(), float(step.log_probabilities[row, column])]
            self._add(beams.sentences[row], beams.tokens[row, parent], parts, step.totals[row, column], finished=True)

    def add_stopped(self, beams: Beams, requests: Sequence[Request]) -> Beams:
        """Add the hypotheses that meet a stopping criterion, and return the beams without them."""
        checks = [(row, requests[place].should_stop) for row, place in enumerate(beams.sentences.tolist())]
        alive, stopped = beams.totals > -np.inf, np.zeros(beams.totals.shape, np.bool_)
        for row, should_stop in checks:
            if should_stop is not None:
                stopped[row] = [live and should_stop(ids) for live, ids in zip(alive[row], beams.tokens[row])]
        for row, beam in np.argwhere(stopped):
            parts = beams.log_probabilities[row, beam].tolist()
            self._add(beams.sentences[row], beams.tokens[row, beam], parts, beams.totals[row, beam], finished=True)
        return replace(beams, totals=np.where(stopped, -np.inf, beams.totals)) if stopped.any() else beams

    def add_unfinished(self, beams: Beams, which: BoolArray) -> None:
        """Add the marked, non-empty hypotheses (B, W) of sentences with fewer than `n_best` answers."""
        lacking = self.count[beams.sentences] < self.rules.n_best
        for row, beam in np.argwhere(which & lacking[:, None] & (beams.tokens.shape[2] > 0)):
            parts = beams.log_probabilities[row, beam].tolist()
            self._add(beams.sentences[row], beams.tokens[row, beam], parts, beams.totals[row, beam], finished=False)

    def close(self, beams: Beams, limits: IntArray) -> BoolArray:
        """Mark the sentences that are done, and add their live hypotheses if they have too few answers. (B,) -> (B,)"""
        here, length = beams.sentences, beams.tokens.shape[2]
        count, worst, leader = self.count[here], self.worst[here], beams.totals.max(1)
        full = (count >= self.rules.beam) & (leader / self.rules.penalty(length) <= worst)
        # Log-probabilities only fall and the penalty only grows, so no live hypothesis can ever score above the bound.
        bound = leader / self.rules.penalty(limits)
        done = full | (bound <= worst) | (length >= limits)
        self.add_unfinished(beams, (beams.totals > -np.inf) & done[:, None])
        return done

    def best_first(self) -> list[list[Hypothesis]]:
        """Return the sorted answers. If every token was forbidden, the answer is empty and its score is -inf."""
        nothing = Hypothesis((), -np.inf, -np.inf, (), finished=False)
        ordered = [sorted(found.values(), key=lambda answer: answer.sort_key) for found in self.found]
        return [found[: self.rules.beam] or [nothing] for found in ordered]

    def _add(self, sentence: int, ids: IntArray, parts: list[float], total: float, *, finished: bool) -> None:
        score = float(total / self.rules.penalty(len(parts)))
        answer = Hypothesis(tuple(ids.tolist()), score, sum(parts), tuple(parts), finished)
        found = self.found[sentence]
        key = len(found) if self.rules.detokenize is None else self.rules.detokenize(answer.ids)
        if key in found and found[key].sort_key <= answer.sort_key:
            return
        found[key] = answer
        self.count[sentence] = len(found)
        if len(found) >= self.rules.n_best:
            scores = sorted((answer.score for answer in found.values()), reverse=True)
            self.worst[sentence] = scores[self.rules.n_best - 1]
