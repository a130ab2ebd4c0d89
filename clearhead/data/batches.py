"""Batches of sentences of similar length, with a maximum number of tokens.

The order depends only on (seed, epoch), so training can resume at any batch.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..tokenization.ragged import IntArray

_OTHERS = 2**40  # more than any number of examples


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
class Alternating:
    """Batches of examples, and as many of others, in turns. An epoch has all of the first ones.

    The row numbers of the others are larger by a constant. Their epochs follow each other, whatever those of the first.

    Args:
        own: the batches of the examples.
        others: the batches of the other examples.
    """

    own: Plan
    others: Plan

    def is_other(self, rows: IntArray) -> bool:
        """Return whether a batch is one of the others."""
        return bool(rows[0] >= _OTHERS)

    def epoch(self, epoch: int) -> list[IntArray]:
        own = self.own.epoch(epoch)
        each = len(self.others.epoch(0))  # every epoch has as many, apart from the order
        begin = epoch * len(own)
        epochs = {number: self.others.epoch(number) for number in range(begin // each, (begin + len(own)) // each + 1)}
        others = [epochs[n // each][n % each % len(epochs[n // each])] for n in range(begin, begin + len(own))]
        return [rows for one, other in zip(own, others) for rows in (one, other.astype(np.int64) + _OTHERS)]

    def predictions(self, rows: IntArray) -> int:
        return self._plan(rows).predictions(self.within(rows))

    def tokens(self, rows: IntArray) -> int:
        return self._plan(rows).tokens(self.within(rows))

    def sizes(self) -> list[int]:
        return [*self.own.sizes(), *self.others.sizes()]

    def within(self, rows: IntArray) -> IntArray:
        """Return the row numbers of a batch among its own examples."""
        return rows - _OTHERS if self.is_other(rows) else rows

    def _plan(self, rows: IntArray) -> Plan:
        return self.others if self.is_other(rows) else self.own


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
