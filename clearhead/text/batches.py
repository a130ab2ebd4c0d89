"""From lists of tokens to batches: sentences of like length together, as many as fit a number of tokens.

The order is a function of (seed, epoch) alone, so training goes on from any batch without having seen those before.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]


class Ragged:
    """Sequences of different lengths in one flat array: sequence i is `tokens[starts[i] : starts[i + 1]]`."""

    def __init__(self, sequences: Sequence[Sequence[int]]) -> None:
        lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
        self._hold(np.fromiter(itertools.chain.from_iterable(sequences), np.int32, int(lengths.sum())), lengths)

    @classmethod
    def of(cls, tokens: NDArray[np.integer[Any]], lengths: IntArray) -> Self:
        """Sequences that lie in one array already, which may be a file mapped into memory."""
        ragged = cls.__new__(cls)
        ragged._hold(tokens, lengths)
        return ragged

    def _hold(self, tokens: NDArray[np.integer[Any]], lengths: IntArray) -> None:
        self.tokens, self.lengths = tokens, lengths
        self.starts: IntArray = np.concatenate([[0], np.cumsum(lengths)])

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> list[int]:
        start = self.starts[:-1][index]
        return self.tokens[start : start + self.lengths[index]].tolist()

    def padded(self, rows: IntArray, pad: int) -> IntArray:
        """These sequences below each other, with padding on the right. (B,) -> (B, longest)"""
        lengths = self.lengths[rows]
        columns = np.arange(int(lengths.max(initial=0)))
        real = columns < lengths[:, None]
        padded = np.full(real.shape, pad, np.int64)
        padded[real] = self.tokens[(self.starts[rows][:, None] + columns)[real]]
        return padded


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
