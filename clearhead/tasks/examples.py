"""Tokenized examples with two sides, their batches, and held-out pairs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np

from ..data.batches import Batches
from ..readers.skipped import Skipped
from ..tokenization.ragged import IntArray, Ragged


@dataclass(frozen=True)
class Examples:
    """Tokenized pairs. Sources end with EOS; targets begin with the decoder's first input, and end with EOS.

    In other tasks, targets are other numbers, such as a label, without that input.
    """

    sources: Ragged
    targets: Ragged
    given: ClassVar[int] = 1  # tokens of a target that aren't predicted: the decoder's first input
    counts_sources: ClassVar[bool] = False  # True if epochs are measured in source tokens

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def tokens(self) -> int:
        """The size of an epoch: all predicted tokens, or all source tokens with `counts_sources`."""
        if self.counts_sources:
            return int(self.source_sizes.sum())
        return int(self.targets.lengths.sum()) - self.given * len(self)

    @property
    def sides(self) -> tuple[Ragged, Ragged]:
        """Sources and targets, as a store keeps them."""
        return self.sources, self.targets

    @property
    def source_sizes(self) -> IntArray:
        """The positions of each source in the encoder. (N,)"""
        return self.sources.lengths

    def batches(self, max_tokens: int, seed: int = 0, max_rows: int | None = None) -> Batches:
        """Return batches of examples of similar length."""
        predicted = self.targets.lengths - self.given
        return Batches(self.source_sizes, predicted, max_tokens, seed, max_rows, self.counts_sources)


@dataclass(frozen=True)
class FreshBatches(Batches):
    """Batches of examples that are different in each epoch.

    A step may use batches of several epochs, so the latest epochs are kept in slots. With n examples, the rows of epoch
    e start at n * (e % slots).

    Args:
        make: function that returns the examples of an epoch.
        slots: the examples in each slot.
    """

    make: Callable[[int], Examples] = field(kw_only=True)
    slots: list[Examples] = field(kw_only=True)

    @classmethod
    def of(cls, examples: Examples, make: Callable[[int], Examples], plan: Batches, slots: int) -> Self:
        """Return batches with the settings of `plan`. All slots start with `examples`."""
        lengths = np.tile(plan.source_lengths, slots), np.tile(plan.target_lengths, slots)
        slots_of = [examples] * slots
        return cls(*lengths, plan.max_tokens, plan.seed, plan.max_rows, plan.counts_sources, make=make, slots=slots_of)

    def epoch(self, epoch: int) -> list[IntArray]:
        """Make the examples of an epoch, and return their batches."""
        examples, slot = self.make(epoch), epoch % len(self.slots)
        self.slots[slot], start = examples, slot * len(examples)
        self.source_lengths[start : start + len(examples)] = examples.sources.lengths
        self.target_lengths[start : start + len(examples)] = examples.targets.lengths - examples.given
        plan = examples.batches(self.max_tokens, self.seed, self.max_rows)
        return [rows + start for rows in plan.epoch(epoch)]

    def at(self, rows: IntArray) -> tuple[Examples, IntArray]:
        """Return the examples that a batch is from, and its rows in them."""
        slot, _ = divmod(int(rows[0]), len(self.slots[0]))
        return self.slots[slot], rows - slot * len(self.slots[0])


@dataclass(frozen=True)
class HeldOut:
    """Held-out pairs.

    Args:
        examples: the pairs that the loss is computed on.
        too_long: the pairs that the loss leaves out.
        cut: the number of truncated sources.
        sources: the distinct sources.
        references: all targets of each source.
    """

    examples: Examples
    too_long: list[Skipped]
    cut: int
    sources: list[str]
    references: list[list[str]]
