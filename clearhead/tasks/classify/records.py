"""Records of classifiers' answers.

Each has what the app returns (`answer`), its labels as spelled in data.labels (`said`), and numbers for an
explanation (`values`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from ...scoring.class_scores import spelled
from ..examples import Record


@dataclass(frozen=True)
class Labelled(Record):
    """The most likely label of a text.

    Attributes:
        probabilities: the probability of each label, most likely first.
        unknown: words that aren't in the vocabulary.
        long: always 0, because training cuts long texts too.
        cut: number of tokens cut off the end of a text that's too long for the model.
        confidence: the share of right labels to expect, measured on validation data; None if it wasn't.
    """

    text: str
    label: str
    probability: float
    probabilities: Mapping[str, float]
    unknown: tuple[str, ...] = ()
    long: ClassVar[int] = 0
    cut: int = 0
    confidence: float | None = None

    @property
    def answer(self) -> str:
        return self.label

    @property
    def said(self) -> tuple[str, ...]:
        return (self.label,)

    @property
    def values(self) -> Mapping[str, Any]:
        return {"probability": self.probability}


@dataclass(frozen=True)
class LabelSet(Record):
    """The labels of a text that can have any number of them. The other attributes are those of `Labelled`.

    Attributes:
        label: the labels, joined by the separator of data.label_kind.
        labels: the labels, most likely first.
        probabilities: the probability of each label of the model, most likely first. They don't sum to 1.
    """

    text: str
    label: str
    labels: tuple[str, ...]
    probabilities: Mapping[str, float]
    unknown: tuple[str, ...] = ()
    long: ClassVar[int] = 0
    cut: int = 0
    confidence: float | None = None

    @property
    def answer(self) -> list[str]:
        return [*self.labels]

    @property
    def said(self) -> tuple[str, ...]:
        return self.labels

    @property
    def values(self) -> Mapping[str, Any]:
        """The probability of each label in the answer, or of the most likely one if there's none."""
        return {"probability": {it: self.probabilities[it] for it in self.labels or [*self.probabilities][:1]}}


@dataclass(frozen=True)
class TargetLabels(Record):
    """The most likely label of a text for each target. The other attributes are those of `Labelled`.

    Attributes:
        label: the labels, joined by "|", in the order of the targets.
        labels: the label of each target.
        probability: the probability of each of these labels.
        probabilities: for each target, the probability of each label, most likely first.
    """

    text: str
    label: str
    labels: Mapping[str, str]
    probability: Mapping[str, float]
    probabilities: Mapping[str, Mapping[str, float]]
    unknown: tuple[str, ...] = ()
    long: ClassVar[int] = 0
    cut: int = 0
    confidence: float | None = None

    @property
    def answer(self) -> dict[str, str]:
        return dict(self.labels)

    @property
    def said(self) -> tuple[str, ...]:
        return tuple(f"{name}={label}" for name, label in self.labels.items())

    @property
    def values(self) -> Mapping[str, Any]:
        return {"probability": dict(zip(self.said, self.probability.values()))}


@dataclass(frozen=True)
class Numbered(Record):
    """A number that a text has according to a model. The other attributes are those of `Labelled`."""

    text: str
    number: float
    unknown: tuple[str, ...] = ()
    long: ClassVar[int] = 0
    cut: int = 0

    @property
    def label(self) -> str:
        """The number as it's printed."""
        return spelled(self.number)

    @property
    def answer(self) -> float:
        return self.number

    @property
    def said(self) -> tuple[str, ...]:
        return ()

    @property
    def values(self) -> Mapping[str, Any]:
        return {"number": self.number}


ClassRecord: TypeAlias = Labelled | LabelSet | TargetLabels | Numbered


def ranked(labels: Iterable[str], p: Iterable[float]) -> dict[str, float]:
    """Return the probability of each label, the highest first."""
    return dict(sorted(zip(labels, p), key=lambda it: -it[1]))
