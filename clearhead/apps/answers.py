"""Records of a model's answers, such as translations with alternatives and scores."""

from dataclasses import dataclass
from typing import Any

from ..tasks.examples import Record


@dataclass(frozen=True)
class ScoredAnswer:
    """An answer found by a search.

    Attributes:
        score: the log-probability divided by the length penalty.
        log_probability: the sum of `logprobs`.
        logprobs: the log-probability of each token, including the end token if the answer has one.
    """

    text: str
    score: float
    log_probability: float
    tokens: tuple[str, ...]
    logprobs: tuple[float, ...]


@dataclass(frozen=True)
class Word:
    """A word of an answer, as the spaces separate it.

    Attributes:
        probability: the product of the probabilities of its tokens.
        confidence: the share of such words on validation data that the reference has, too; None if it wasn't measured.
    """

    text: str
    probability: float
    confidence: float | None = None


@dataclass(frozen=True)
class Reading:
    """Problems with an input text.

    Attributes:
        unknown: words that aren't in the vocabulary.
        long: the length in tokens if it's longer than any text in training, otherwise 0.
        cut: number of tokens cut off the end of a text that's too long for the model.
    """

    unknown: tuple[str, ...] = ()
    long: int = 0
    cut: int = 0


@dataclass(frozen=True)
class BriefResult(Reading):
    """The `text` of the best answer, with the fields of `Reading`."""

    text: str = ""


@dataclass(frozen=True)
class Result(Record, ScoredAnswer):
    """The best answer to a text, with its `alternatives` (best first), its `words`, and the fields of `Reading`.

    The `confidence` is the score that such answers had on validation data, from 0 to 1; see `App.confidence`.
    """

    source: str
    alternatives: tuple[ScoredAnswer, ...] = ()
    unknown: tuple[str, ...] = ()
    long: int = 0
    cut: int = 0
    confidence: float | None = None
    words: tuple[Word, ...] = ()


@dataclass(frozen=True)
class PlainAnswer(Record):
    """The `text` that answers a `source`, of a task that says no more about it."""

    text: str
    source: str


@dataclass(frozen=True)
class Scored(Record, ScoredAnswer):
    """An existing answer with the model's score: the target `text` and its `source`, on a `line` of a file."""

    line: int
    source: str


@dataclass(frozen=True)
class EmbeddedRow(Reading):
    """The embedding (D,) of a row, with the fields of `Reading`."""

    embedding: Any = None


@dataclass(frozen=True)
class Embedded:
    """A text with its embedding (D,)."""

    text: str
    embedding: Any

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"format_version": 1, "text": self.text, "embedding": plain_value(self.embedding)}


def plain_value(value: Any) -> Any:
    """Return a value for JSON: of an array, the shortest decimals that give the same float32 numbers."""
    return [float(str(number)) for number in value] if hasattr(value, "dtype") else value
