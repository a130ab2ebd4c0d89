"""Records that tasks exchange with training, evaluation and the apps. `tasks.base` re-exports them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..data.batches import Plan
from ..data.encoding import Encoded
from ..readers.skipped import Skipped
from ..scoring.bootstrap import FloatArray
from ..tokenization.ragged import Ragged


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
        """Return the batches of each epoch."""


class Scorable(Protocol):
    """Held-out data, ready to be scored."""

    @property
    def examples(self) -> Dataset:
        """The examples that the loss is computed on."""

    @property
    def too_long(self) -> list[Skipped]:
        """The examples that the loss leaves out."""

    @property
    def cut(self) -> int:
        """The number of sources that are too long for the model and are truncated."""

    @property
    def sources(self) -> Sequence[str]:
        """The distinct sources to answer."""

    @property
    def references(self) -> Sequence[Sequence[str]]:
        """The correct answers to each source; empty if the text itself is scored."""


class TaskScores(Protocol):
    """All scores of a set of answers."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON. `scoring.score_labels` has a label for each name."""


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
    """

    scores: TaskScores
    sources: Sequence[str]
    answers: Sequence[str]
    references: Sequence[Sequence[str]]
    singly: Callable[[], Mapping[str, FloatArray]]
    details: str = ""


class ExampleEncoder(Protocol):
    """Tokenizes the data of a task."""

    def each(self, chunks: Iterable[Any], count: int, processes: int) -> Iterator[Encoded]:
        """Tokenize each chunk. The chunks have `count` examples in total; use up to `processes` processes."""
