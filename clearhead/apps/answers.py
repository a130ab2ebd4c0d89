"""What a model answers, as records: a translation, the best of several, one that others made; a label of a text."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class Answer:
    """One translation. `score` is the log-probability over the length penalty. `logprobs` has one number a token, and
    one more for the end where the translation came to it; their sum is the log-probability."""

    text: str
    score: float
    log_probability: float
    tokens: tuple[str, ...]
    logprobs: tuple[float, ...]


@dataclass(frozen=True)
class Reading:
    """What the model cannot read in a text as it should.

    `unknown` are words of the source that the model has never seen; `long` counts source tokens where they are more
    than any in training, and is 0 elsewhere; `cut` counts those beyond the longest that it can read.
    """

    unknown: tuple[str, ...] = ()
    long: int = 0
    cut: int = 0


@dataclass(frozen=True)
class Result(Answer):
    """The best translation of a text, and the `alternatives` to it, best first; and what `Reading` says."""

    source: str
    alternatives: tuple[Answer, ...] = ()
    unknown: tuple[str, ...] = ()
    long: int = 0
    cut: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"format_version": 1, **asdict(self)}


@dataclass(frozen=True)
class Scored(Answer):
    """A translation that the model did not make but judged: `text` of `line` of a file, beside its `source`."""

    line: int
    source: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"format_version": 1, **asdict(self)}


@dataclass(frozen=True)
class Labelled:
    """The likeliest label of a text and its probability; those of all labels, the likeliest first. `unknown` and
    `cut` are as in `Reading`; nothing is too `long`, for what is cut in use is cut in training, too."""

    text: str
    label: str
    probability: float
    probabilities: Mapping[str, float]
    unknown: tuple[str, ...] = ()
    long: ClassVar[int] = 0
    cut: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"format_version": 1, **asdict(self)}
