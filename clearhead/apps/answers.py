"""Records of a model's answers: translations with alternatives and scores, and labels."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, cast

from ..scoring.number_scores import spelled


class Record:
    """What records that are printed or sent have in common."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"format_version": 1, **asdict(cast(Any, self))}


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
    """The best answer to a text, with its `alternatives` (best first) and the fields of `Reading`."""

    source: str
    alternatives: tuple[ScoredAnswer, ...] = ()
    unknown: tuple[str, ...] = ()
    long: int = 0
    cut: int = 0


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
class Labelled(Record):
    """The most likely label of a text.

    Attributes:
        probabilities: the probability of each label, most likely first.
        unknown: as in `Reading`.
        long: always 0, because training cuts long texts too.
        cut: as in `Reading`.
    """

    text: str
    label: str
    probability: float
    probabilities: Mapping[str, float]
    unknown: tuple[str, ...] = ()
    long: ClassVar[int] = 0
    cut: int = 0


@dataclass(frozen=True)
class EmbeddedRow(Reading):
    """The embedding (D,) of a row, with the fields of `Reading`."""

    embedding: Any = None


@dataclass(frozen=True)
class LabelSet(Record):
    """The labels of a text that can have any number of them.

    Attributes:
        label: the labels, joined by the separator of data.label_kind.
        labels: the labels, most likely first.
        probabilities: the probability of each label of the model, most likely first. They don't sum to 1.
        unknown: as in `Reading`.
        long: always 0, because training cuts long texts too.
        cut: as in `Reading`.
    """

    text: str
    label: str
    labels: tuple[str, ...]
    probabilities: Mapping[str, float]
    unknown: tuple[str, ...] = ()
    long: ClassVar[int] = 0
    cut: int = 0


@dataclass(frozen=True)
class TargetLabels(Record):
    """The most likely label of a text for each target.

    Attributes:
        label: the labels, joined by "|", in the order of the targets.
        labels: the label of each target.
        probability: the probability of each of these labels.
        probabilities: for each target, the probability of each label, most likely first.
        unknown: as in `Reading`.
        long: always 0, because training cuts long texts too.
        cut: as in `Reading`.
    """

    text: str
    label: str
    labels: Mapping[str, str]
    probability: Mapping[str, float]
    probabilities: Mapping[str, Mapping[str, float]]
    unknown: tuple[str, ...] = ()
    long: ClassVar[int] = 0
    cut: int = 0


@dataclass(frozen=True)
class Numbered(Record):
    """A number that a text has according to a model.

    Attributes:
        unknown: as in `Reading`.
        long: always 0, because training cuts long texts too.
        cut: as in `Reading`.
    """

    text: str
    number: float
    unknown: tuple[str, ...] = ()
    long: ClassVar[int] = 0
    cut: int = 0

    @property
    def label(self) -> str:
        """The number as it's printed."""
        return spelled(self.number)


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
