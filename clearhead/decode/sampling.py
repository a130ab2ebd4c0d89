"""Drawing a token instead of taking the likeliest: temperature, top-k, top-p, min-p, in this order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from .beams import Beams, Candidates, Hypothesis, Request, Step
from .engine import Decoding
from .rules import FloatArray, IntArray, Rules
from .search import run, steps


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How tokens are drawn. Probabilities are taken to the power 1 / `temperature`; then those stay that are among the
    `top_k` (0: all), among the likeliest whose sum just reaches `top_p`, and at least `min_p` times the largest."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0

    def probabilities(self, log_probabilities: FloatArray) -> FloatArray:
        """What each candidate is drawn with; -inf is never drawn, a row of nothing else is all 0. (N, k) -> (N, k)"""
        order = np.argsort(-log_probabilities, axis=1, kind="stable")
        values = np.take_along_axis(log_probabilities.astype(np.float64), order, 1)
        values -= np.maximum(values[:, :1], np.finfo(np.float64).min)  # finite, also where nothing is allowed
        with np.errstate(over="ignore"):  # what is far behind the likeliest becomes impossible
            values /= self.temperature
        if self.top_k:
            values[:, self.top_k :] = -np.inf
        p = np.exp(values)
        p /= np.maximum(p.sum(1, keepdims=True), np.finfo(np.float64).tiny)
        before = np.cumsum(p, 1) - p  # the sum of what is likelier
        p[(before >= self.top_p) | (p < self.min_p * p[:, :1])] = 0.0
        p /= np.maximum(p.sum(1, keepdims=True), np.finfo(np.float64).tiny)
        drawn_with = np.empty_like(p)
        np.put_along_axis(drawn_with, order, p, 1)
        return drawn_with

    def draw(self, log_probabilities: FloatArray, uniform: FloatArray) -> IntArray:
        """The candidate of each row at which the cumulated probability passes a number from [0, 1).

        (N, k), (N,) -> (N,)
        """
        reached = np.cumsum(self.probabilities(log_probabilities), 1)
        last = reached[:, -1:]  # 1 but for rounding
        found: IntArray = (reached <= uniform[:, None] * last).sum(1)
        return np.minimum(found, log_probabilities.shape[1] - 1)


class Draws:
    """The choice of sampling: every beam goes on alone, with a token drawn by its sentence's own generator, so that
    neither the order of the sentences nor their company changes what is drawn."""

    def __init__(self, sampling: Sampling, generators: Sequence[np.random.Generator]) -> None:
        self.sampling, self.generators = sampling, generators

    def __call__(self, beams: Beams, candidates: Candidates, rules: Rules) -> Step:
        """One token for each of `rules.beam` beams; at first they all follow the only one there is."""
        sentences, width, k = candidates.ids.shape
        by_id = np.argsort(candidates.ids, axis=2)  # the engine's order is nobody's business
        ids, log_probabilities, values = (
            np.take_along_axis(each, by_id, 2)
            for each in (candidates.ids, candidates.log_probabilities, candidates.values)
        )
        shape = (sentences, rules.beam)
        row, parents = np.arange(sentences)[:, None], np.broadcast_to(np.arange(rules.beam) % width, shape)
        uniform = np.stack([self.generators[place].random(rules.beam) for place in beams.sentences.tolist()])
        column = self.sampling.draw(values[row, parents].reshape(-1, k), uniform.reshape(-1)).reshape(shape)
        tokens = ids[row, parents, column]
        totals = beams.totals[row, parents] + values[row, parents, column]
        return Step(
            number=beams.tokens.shape[2] + 1,
            sentences=beams.sentences,
            parents=parents,
            tokens=tokens,
            log_probabilities=log_probabilities[row, parents, column],
            totals=totals,
            ended=(tokens == rules.end) & (totals > -np.inf),
            kept=np.broadcast_to(np.arange(rules.beam), shape),
            stranded=beams.dead_ends(candidates),
        )


def sample(
    decoding: Decoding,
    start: IntArray,
    requests: Sequence[Request],
    rules: Rules,
    draws: Draws,
    observe: Callable[[Step], None] | None = None,
) -> list[list[Hypothesis]]:
    """`rules.beam` independent draws for every sentence, the likeliest first; `draws` has a generator for each."""
    return run(steps(decoding, start, requests, replace(rules, n_best=rules.beam), draws), observe)
