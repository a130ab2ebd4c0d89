"""What a task learns from, as tokens: two sides of each example, batches of them, and what is held out to score on."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np

from ..data.batches import Batches
from ..readers.skipped import Skipped
from ..tokenization.ragged import IntArray, Ragged


@dataclass(frozen=True)
class Examples:
    """Sentence pairs as tokens: sources end with EOS, targets begin with BOS and end with EOS.

    Other tasks put other numbers on the second side, such as that of a label; what they predict has no BOS.
    """

    sources: Ragged
    targets: Ragged
    given: ClassVar[int] = 1  # numbers of a target that are not predicted: BOS
    counts_sources: ClassVar[bool] = False  # whether an epoch is measured in what is read, not in what is predicted

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def tokens(self) -> int:
        """The size of an epoch: every target token but BOS, or all that is read where hardly anything is predicted."""
        if self.counts_sources:
            return int(self.sources.lengths.sum())
        return int(self.targets.lengths.sum()) - self.given * len(self)

    @property
    def sides(self) -> tuple[Ragged, Ragged]:
        """Both, as a store keeps them."""
        return self.sources, self.targets

    def batches(self, max_tokens: int, seed: int = 0, max_rows: int | None = None) -> Batches:
        """Batches by length."""
        predicted = self.targets.lengths - self.given
        return Batches(self.sources.lengths, predicted, max_tokens, seed, max_rows, self.counts_sources)


@dataclass(frozen=True)
class FreshBatches(Batches):
    """Batches of examples that are cut anew for each epoch, by `cut(epoch)`.

    A step may take batches of several epochs, so that the last ones are all held: those of epoch e have the rows
    n * (e % slots) and on. `at` gives the examples of some rows, and their places among these.
    """

    cut: Callable[[int], Examples] = field(kw_only=True)
    slots: list[Examples] = field(kw_only=True)

    @classmethod
    def of(cls, examples: Examples, cut: Callable[[int], Examples], plan: Batches, slots: int) -> Self:
        """As `plan`, with room for so many epochs; until they are cut, it holds the `examples` as they are."""
        lengths = np.tile(plan.source_lengths, slots), np.tile(plan.target_lengths, slots)
        slots_of = [examples] * slots
        return cls(*lengths, plan.max_tokens, plan.seed, plan.max_rows, plan.counts_sources, cut=cut, slots=slots_of)

    def epoch(self, epoch: int) -> list[IntArray]:
        """Cut the examples, and plan the batches of what came out."""
        examples, slot = self.cut(epoch), epoch % len(self.slots)
        self.slots[slot], start = examples, slot * len(examples)
        self.source_lengths[start : start + len(examples)] = examples.sources.lengths
        self.target_lengths[start : start + len(examples)] = examples.targets.lengths - examples.given
        plan = examples.batches(self.max_tokens, self.seed, self.max_rows)
        return [rows + start for rows in plan.epoch(epoch)]

    def at(self, rows: IntArray) -> tuple[Examples, IntArray]:
        """The examples of a batch, and its rows among them."""
        slot, _ = divmod(int(rows[0]), len(self.slots[0]))
        return self.slots[slot], rows - slot * len(self.slots[0])


@dataclass(frozen=True)
class HeldOut:
    """What is scored on: as tokens for the loss, and each distinct source once with all its references for the rest.

    `too_long` are the examples that the loss leaves out; of `cut` sources the model can read only the beginning.
    """

    examples: Examples
    too_long: list[Skipped]
    cut: int
    sources: list[str]
    references: list[list[str]]
