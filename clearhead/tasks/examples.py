"""Types that tasks exchange with training, evaluation and the apps: examples, batches, held-out data and results."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, cast

import numpy as np

from ..data.batches import Batches, Plan
from ..data.encoding import Encoded
from ..readers.skipped import Skipped
from ..scoring.bootstrap import FloatArray
from ..scoring.confidence import Confidence
from ..tokenization.ragged import IntArray, Ragged


@dataclass(frozen=True)
class Units:
    """Nouns for messages about a task, all plural except `answer`.

    Args:
        examples: training examples, such as "pairs".
        tokens: the tokens that an epoch is measured in, such as "target tokens".
        answer: the model's output, such as "translation".
        sources: the model's inputs, such as "sentences".
        stored: what a store keeps of the inputs, such as "pixels".
    """

    examples: str
    tokens: str
    answer: str
    sources: str = "sources"
    stored: str = "tokens"


class Dataset(Protocol):
    """Tokenized examples with two sides. The task defines what the sides mean."""

    def __len__(self) -> int: ...

    @property
    def tokens(self) -> int:
        """The number of tokens in an epoch."""

    @property
    def sides(self) -> tuple[Ragged, Ragged]:
        """Sources and targets, as a store keeps them."""

    def batches(self, max_tokens: int, seed: int = 0, max_rows: int | None = None) -> Plan:
        """Return the batches of each epoch.

        Args:
            max_tokens: maximum number of tokens in a batch, with padding.
            seed: seed of the order, which is different in each epoch.
            max_rows: maximum number of examples in a batch (default: no limit).
        """


class TaskScores(Protocol):
    """All scores of a set of answers."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON. `scoring.score_labels` has a label for each name."""


class Record:
    """An answer as it's printed or sent. Subclasses are dataclasses."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"format_version": 1, **asdict(cast(Any, self))}


@dataclass(frozen=True)
class EvaluationResult:
    """Answers with their scores.

    Args:
        scores: the scores of all answers together.
        sources: the inputs that were answered.
        answers: one answer per source; empty if the text itself is scored.
        references: the correct answers for each source.
        singly: function that returns an array (N,) for each score, one number per answer. The first score ranks the
            best and worst answers.
        details: additional lines for the report.
        draw: function that draws pictures of the scores into a model folder.
        tuned: function that returns settings that suit these answers best, such as thresholds.
        certainty: how certain the model was of each answer, on any scale (N,); None if it doesn't say.
        words: function that returns the log-probability of each word of the answers, and 1 if a reference has the
            word, else 0. (W,) each
    """

    scores: TaskScores
    sources: Sequence[str]
    answers: Sequence[str]
    references: Sequence[Sequence[str]]
    singly: Callable[[], Mapping[str, FloatArray]]
    details: str = ""
    draw: Callable[[Path], object] = lambda _: None
    tuned: Callable[[], Mapping[str, Any]] = dict
    certainty: FloatArray | None = None
    words: Callable[[], tuple[FloatArray, FloatArray]] | None = None

    def confidence(self) -> Confidence | None:
        """Return the calibration of these answers; None if there are too few, or their certainty isn't known."""
        found = None if self.certainty is None else Confidence.of(self.certainty, self.singly())
        if found is None or self.words is None:
            return found
        certainty, right = self.words()
        return replace(found, words=Confidence.of(certainty, {"accuracy": right}))


class ExampleEncoder(Protocol):
    """Tokenizes the data of a task."""

    def __call__(self, data: Any, /) -> Encoded:
        """Tokenize some data."""

    def each(self, chunks: Iterable[Any], count: int, processes: int) -> Iterator[Encoded]:
        """Tokenize each chunk. The chunks have `count` examples in total; use up to `processes` processes.

        By default, chunks are tokenized in this process, since the tokenizer library uses all cores.

        Args:
            chunks: data of the task, one chunk at a time.
            count: number of examples in all chunks.
            processes: maximum number of processes.
        """
        yield from map(self, chunks)


@dataclass(frozen=True)
class Examples:
    """Tokenized pairs. Sources end with EOS; targets begin with the decoder's first input, and end with EOS.

    In other tasks, targets are other numbers, such as a label, without that input.

    Args:
        sources: tokens, or numbers of images or recordings.
        targets: tokens, or other numbers.
        positions: returns the positions in the encoder of sources with some lengths; by default, these are the same.
    """

    sources: Ragged
    targets: Ragged
    positions: Callable[[IntArray], IntArray] | None = field(default=None, kw_only=True)
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
        return self.sources, self.targets

    @property
    def source_sizes(self) -> IntArray:
        """The positions of each source in the encoder. (N,)"""
        return self.sources.lengths if self.positions is None else self.positions(self.sources.lengths)

    def with_other_sources(self, shift: int) -> Self:
        """Return the examples with the sources of others, `shift` places on in the order of their length."""
        order = np.argsort(self.sources.lengths, kind="stable")
        others = np.empty_like(order)
        others[order] = np.roll(order, shift)
        return replace(self, sources=self.sources.take(others))

    def batches(self, max_tokens: int, seed: int = 0, max_rows: int | None = None) -> Batches:
        """Return the batches of each epoch, of examples of similar length.

        Args:
            max_tokens: maximum number of tokens per side in a batch, with padding.
            seed: seed of the order, which is different in each epoch.
            max_rows: maximum number of examples in a batch (default: no limit).
        """
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
        """Return batches with the settings of `plan`. All slots start with `examples`.

        Args:
            examples: the examples of any epoch, whose lengths are replaced before they're used.
            make: returns the examples of an epoch.
            plan: batches of `examples`, for their settings.
            slots: number of epochs that a step may use batches of, or more.
        """
        lengths = np.tile(plan.source_lengths, slots), np.tile(plan.target_lengths, slots)
        slots_of = [examples] * slots
        return cls(*lengths, plan.max_tokens, plan.seed, plan.max_rows, plan.counts_sources, make=make, slots=slots_of)

    def epoch(self, epoch: int) -> list[IntArray]:
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
    """Held-out data, ready to be scored.

    Args:
        examples: the examples that the loss is computed on, a `Dataset`.
        too_long: the examples that the loss leaves out.
        cut: the number of sources that are too long for the model and are truncated.
        sources: the distinct sources to answer.
        references: the correct answers to each source; empty if the text itself is scored.
        encoded: the sources as numbers, if they've been read already.
    """

    examples: Any
    too_long: list[Skipped]
    cut: int
    sources: Sequence[str]
    references: Sequence[Sequence[str]]
    encoded: Any = None
