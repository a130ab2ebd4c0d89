"""Records of a model's answers: translations with alternatives and scores, and labels."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class Answer:
    """One answer of a search.

    Attributes:
        score: the log-probability divided by the length penalty.
        log_probability: the sum of `logprobs`.
        logprobs: one number for each token, and one for the end token if the answer reached it.
    """

    text: str
    score: float
    log_probability: float
    tokens: tuple[str, ...]
    logprobs: tuple[float, ...]


@dataclass(frozen=True)
class Reading:
    """The parts of a text that the model can't read properly.

    Attributes:
        unknown: words that aren't in the vocabulary.
        long: the number of source tokens if it's larger than any in training, otherwise 0.
        cut: number of tokens at the end that don't fit the model.
    """

    unknown: tuple[str, ...] = ()
    long: int = 0
    cut: int = 0


@dataclass(frozen=True)
class Result(Answer):
    """The best answer to a text, its `alternatives`, best first, and the fields of `Reading`."""

    source: str
    alternatives: tuple[Answer, ...] = ()
    unknown: tuple[str, ...] = ()
    long: int = 0
    cut: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"format_version": 1, **asdict(self)}


@dataclass(frozen=True)
class Scored(Answer):
    """A given answer that the model scored: the `text` at `line` of a file, for its `source`."""

    line: int
    source: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"format_version": 1, **asdict(self)}


@dataclass(frozen=True)
class Labelled:
    """The most likely label of a text.

    Attributes:
        probabilities: those of all labels, the most likely first.
        unknown: as in `Reading`.
        long: always 0: texts are cut in training, too.
        cut: as in `Reading`.
    """

    text: str
    label: str
    probability: float
    probabilities: Mapping[str, float]
    unknown: tuple[str, ...] = ()
    long: ClassVar[int] = 0
    cut: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"format_version": 1, **asdict(self)}
