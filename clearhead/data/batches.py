"""From lists of tokens to batches: sentences of like length together, as many as fit a number of tokens.

The order is a function of (seed, epoch) alone, so training goes on from any batch without having seen those before.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..tokenization.ragged import IntArray


class Plan(Protocol):
    """Which examples each batch of an epoch has; whatever they are, they go by numbers, `rows`."""

    def epoch(self, epoch: int) -> list[IntArray]:
        """The rows of each batch, in order: a function of a seed and the epoch."""

    def predictions(self, rows: IntArray) -> int:
        """How many terms the loss of these examples has."""

    def tokens(self, rows: IntArray) -> int:
        """The size of these examples, as that of an epoch is measured."""

    def sizes(self) -> list[int]:
        """Tokens a side of each batch of the first epoch, padding included."""


@dataclass(frozen=True)
class Batches:
    """The batches of any epoch over examples with these lengths: at most `max_tokens` a side, padding included, and at
    most `max_rows` examples, where that says anything."""

    source_lengths: IntArray
    target_lengths: IntArray
    max_tokens: int
    seed: int = 0
    max_rows: int | None = None
    counts_sources: bool = False  # whether `tokens` are those that are read, not those that are predicted

    def predictions(self, rows: IntArray) -> int:
        """Numbers on the second side."""
        return int(self.target_lengths[rows].sum())

    def tokens(self, rows: IntArray) -> int:
        """Those of the second side, or of the first."""
        return int((self.source_lengths if self.counts_sources else self.target_lengths)[rows].sum())

    def sizes(self) -> list[int]:
        """Tokens a side of each batch, padding included."""
        longer = np.maximum(self.source_lengths, self.target_lengths)
        return [len(rows) * int(longer[rows].max()) for rows in self.epoch(0)]

    def epoch(self, epoch: int) -> list[IntArray]:
        """Indices of the examples of each batch, in order. Every example is in exactly one batch."""
        rng = np.random.default_rng([self.seed, epoch])
        shuffled = rng.permutation(len(self.source_lengths))
        by_length = np.lexsort((self.source_lengths[shuffled], self.target_lengths[shuffled]))
        batches = self._cut(shuffled[by_length])
        return [batches[i] for i in rng.permutation(len(batches))]

    def _cut(self, order: IntArray) -> list[IntArray]:
        batches, start, widest, most = [], 0, 0, self.max_rows or len(order)
        longer = np.maximum(self.source_lengths, self.target_lengths)[order].tolist()
        for end, length in enumerate(longer):
            widest = max(widest, length)
            if end > start and ((end + 1 - start) * widest > self.max_tokens or end - start == most):
                batches.append(order[start:end])
                start, widest = end, length
        if start < len(order):
            batches.append(order[start:])
        return batches
