"""Batches of sentences of similar length, with a maximum number of tokens.

The order depends only on (seed, epoch), so training can resume at any batch.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..tokenization.ragged import IntArray


class Plan(Protocol):
    """The batches of each epoch, as row numbers of examples."""

    def epoch(self, epoch: int) -> list[IntArray]:
        """Return the rows of each batch. Their order depends only on the seed and the epoch."""

    def predictions(self, rows: IntArray) -> int:
        """Return the number of terms in the loss of these examples."""

    def tokens(self, rows: IntArray) -> int:
        """Return the number of tokens in these examples, as epochs count them."""

    def sizes(self) -> list[int]:
        """Return the tokens per side of each batch of the first epoch, padding included."""


@dataclass(frozen=True)
class Batches:
    """Batches of examples with these lengths.

    Args:
        source_lengths: number of tokens in each source.
        target_lengths: number of tokens in each target.
        max_tokens: maximum tokens per side in a batch, padding included.
        seed: decides the order, together with the epoch.
        max_rows: maximum examples in a batch.
        counts_sources: if True, `tokens` counts source tokens instead of target tokens.
    """

    source_lengths: IntArray
    target_lengths: IntArray
    max_tokens: int
    seed: int = 0
    max_rows: int | None = None
    counts_sources: bool = False

    def predictions(self, rows: IntArray) -> int:
        """Return the number of target tokens."""
        return int(self.target_lengths[rows].sum())

    def tokens(self, rows: IntArray) -> int:
        """Return the number of target tokens, or of source tokens with `counts_sources`."""
        return int((self.source_lengths if self.counts_sources else self.target_lengths)[rows].sum())

    def sizes(self) -> list[int]:
        longer = np.maximum(self.source_lengths, self.target_lengths)
        return [len(rows) * int(longer[rows].max()) for rows in self.epoch(0)]

    def epoch(self, epoch: int) -> list[IntArray]:
        """Return the rows of each batch. Every example is in exactly one batch."""
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
