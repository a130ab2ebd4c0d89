"""Sampling: temperature, top-k, top-p and min-p, applied in this order."""

from dataclasses import dataclass

import numpy as np

from .beams import Beams, Candidates, SearchStep
from .rules import FloatArray, IntArray, Rules


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Hyperparameters of sampling.

    Args:
        temperature: divides the log-probabilities.
        top_k: number of most likely tokens to sample from (0: all).
        top_p: sample from the smallest set of most likely tokens whose probabilities sum to at least this.
        min_p: drop tokens with less than this fraction of the top probability.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0

    def probabilities(self, log_probabilities: FloatArray) -> FloatArray:
        """Return the probability of drawing each candidate, 0 for -inf. (N, k) -> (N, k)"""
        order = np.argsort(-log_probabilities, axis=1, kind="stable")
        values = np.take_along_axis(log_probabilities.astype(np.float64), order, 1)
        values -= np.maximum(values[:, :1], np.finfo(np.float64).min)  # finite, even if nothing is allowed
        with np.errstate(over="ignore"):  # very unlikely tokens become impossible
            values /= self.temperature
        if self.top_k:
            values[:, self.top_k :] = -np.inf
        p = np.exp(values)
        p /= np.maximum(p.sum(1, keepdims=True), np.finfo(np.float64).tiny)
        before = np.cumsum(p, 1) - p  # probability of all more likely tokens
        p[(before >= self.top_p) | (p < self.min_p * p[:, :1])] = 0.0
        p /= np.maximum(p.sum(1, keepdims=True), np.finfo(np.float64).tiny)
        unsorted = np.empty_like(p)
        np.put_along_axis(unsorted, order, p, 1)
        return unsorted

    def draw(self, log_probabilities: FloatArray, uniform: FloatArray) -> IntArray:
        """Draw a candidate for each row: the first whose cumulative probability exceeds `uniform`, from [0, 1).

        (N, k), (N,) -> (N,)
        """
        reached = np.cumsum(self.probabilities(log_probabilities), 1)
        last = reached[:, -1:]  # 1 up to rounding
        found: IntArray = (reached <= uniform[:, None] * last).sum(1)
        return np.minimum(found, log_probabilities.shape[1] - 1)


class Sampler:
    """Chooses candidates of a `Search` by drawing one token per beam.

    Each beam becomes one answer. The rules need `n_best` equal to `beam`, or the search can end before all are drawn.

    Each sentence has its own random generator, under its number, so neither the order of the sentences nor the batch
    changes the result.
    """

    def __init__(self, sampling: Sampling, generators: "dict[int, np.random.Generator]") -> None:
        self.sampling, self.generators = sampling, generators

    def __call__(self, beams: Beams, candidates: Candidates, rules: Rules) -> SearchStep:
        """Draw one token for each of `rules.beam` beams. A sentence's first draws all continue the same beam."""
        sentences, width, k = candidates.ids.shape
        by_id = np.argsort(candidates.ids, axis=2)  # the result must not depend on the engine's order
        ids, log_probabilities, values = (
            np.take_along_axis(each, by_id, 2)
            for each in (candidates.ids, candidates.log_probabilities, candidates.values)
        )
        shape = (sentences, rules.beam)
        row, begun = np.arange(sentences)[:, None], beams.lengths[:, None] > 0
        parents = np.broadcast_to(np.where(begun, np.arange(rules.beam) % width, 0), shape)
        uniform = np.stack([self.generators[place].random(rules.beam) for place in beams.sentences.tolist()])
        column = self.sampling.draw(values[row, parents].reshape(-1, k), uniform.reshape(-1)).reshape(shape)
        tokens = ids[row, parents, column]
        totals = beams.totals[row, parents] + values[row, parents, column]
        return SearchStep(
            number=beams.tokens.shape[2] + 1,
            sentences=beams.sentences,
            parents=parents,
            tokens=tokens,
            log_probabilities=log_probabilities[row, parents, column],
            totals=totals,
            ended=rules.ends(tokens) & (totals > -np.inf),
            kept=np.broadcast_to(np.arange(rules.beam), shape),
            stranded=beams.dead_ends(candidates),
        )
