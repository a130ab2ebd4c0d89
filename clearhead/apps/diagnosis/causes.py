"""Findings of probes, the causes that they support, and the ranking of these causes.

A probe returns findings. Each has what was measured, and can blame causes with a weight from 0 to 1: the probability
that the cause spoils the run, given this evidence alone. The weights of a cause combine as those of independent
evidence, 1 - (1 - a)(1 - b). A cause that explains others takes weight from them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

ALARM = 0.4  # weight from which a cause is reported
_FINE = 0.1  # weight below which a measurement speaks against a cause


@dataclass(frozen=True)
class Cause:
    """A cause that isn't a setting.

    Args:
        title: a sentence about the run.
        remedy: what to do; options of `clearhead train` are filled into its braces.
        explains: causes that follow from it.
    """

    title: str
    remedy: str
    explains: Sequence[str] = ()


_RATES = ("train.lr", "train.warmup")  # short trainings on such data say nothing about them
_SYMPTOMS = ("unused", "overfitting", "few_steps", "unlearned", "attention", "dead")
CAUSES: Mapping[str, Cause] = {
    "unrelated": Cause(
        "sources and targets have nothing to do with each other",
        "check how the file was made: line n of one column must belong to line n of the other",
        (*_SYMPTOMS, *_RATES),
    ),
    "column": Cause("the wrong column is read", "name the right one: {}", ("unrelated", *_SYMPTOMS, *_RATES)),
    "leak": Cause(
        "validation examples are also in the training data, so the scores say nothing about new ones",
        "hold out other data: leave out --valid, or remove these examples from the training file",
        _SYMPTOMS,
    ),
    "copies": Cause(
        "most targets are copies of their sources, and the model learns to copy",
        "remove these pairs from the training data",
        _SYMPTOMS,
    ),
    "same_source": Cause(
        "most sources are the same text",
        "check how the file was made, or name the right column: --source-column=NAME",
        ("unrelated", *_SYMPTOMS, *_RATES),
    ),
    "same_target": Cause("most targets are the same text", "check how the file was made", ("unrelated", *_SYMPTOMS)),
    "other_validation": Cause(
        "the validation data is unlike the training data", "hold out a part of the training data", _SYMPTOMS
    ),
    "few_examples": Cause(
        "the training data has too few different examples",
        "add data, or start from a trained model: --init-from DIR",
        ("overfitting", "unused", "other_validation"),
    ),
    "dominant": Cause(
        "almost all examples have the same label",
        "add examples of the other labels, or weight them: --train.balance=true",
        ("unrelated", *_SYMPTOMS),
    ),
    "vocabulary": Cause("the vocabulary doesn't suit the texts", "{}", ("few_steps", "unlearned")),
    "objective": Cause(
        "training doesn't minimise the loss that the scores measure",
        "compare the loss that your training computes with the `loss` of a built-in task",
        (*_SYMPTOMS, *_RATES),
    ),
    "frozen": Cause("parts of the model still have the random weights that they had before training", "{}", _SYMPTOMS),
    "architecture": Cause(
        "the model can't even memorise one batch",
        "use the built-in parts, and compare: clearhead verify DIR",
        _SYMPTOMS,
    ),
    "few_steps": Cause("the run ended while the model was still learning", "train longer: {}", ("unused", "unlearned")),
    "overfitting": Cause("the model memorises its training data", "{}", ("unlearned",)),
    "unused": Cause(
        "the model answers without looking at its sources",
        "train longer, or check that sources and targets belong together",
    ),
    "unlearned": Cause(
        "the model has learned little more than token frequencies",
        "try other settings; none of those tried here is better",
    ),
    "attention": Cause(
        "some attention is spread evenly over all tokens", "see the settings and the learning rate above"
    ),
    "dead": Cause("most units of the feed-forward networks never react", "lower the learning rate"),
    "search": Cause("the configured search answers worse than greedy search", "use --beam 1, or --greedy"),
    "data_changed": Cause("the training data has changed since the run", "name the data of the run after the folder"),
}


@dataclass(frozen=True)
class Blame:
    """A cause that a finding supports. Settings are causes, too: their name is that of the cause.

    Args:
        weight: the probability that this is what spoils the run, from this evidence alone.
        remedy: options of `clearhead train`, or another text for the braces of the cause's remedy.
        title: the title of a cause that's a setting.
    """

    cause: str
    weight: float
    remedy: str = ""
    title: str = ""


@dataclass(frozen=True)
class Finding:
    """A measurement.

    Args:
        probe: name of what was measured.
        measured: a sentence with the numbers.
        values: the numbers, by name.
        blames: the causes that it supports; none if nothing is wrong.
    """

    probe: str
    measured: str
    values: Mapping[str, Any] = field(default_factory=dict)
    blames: Sequence[Blame] = ()


@dataclass(frozen=True)
class Suspect:
    """A cause with its evidence."""

    cause: str
    title: str
    weight: float
    evidence: Sequence[str]
    remedy: str


@dataclass(frozen=True)
class Diagnosis:
    """All findings about a run. `unmeasured` has the probes that couldn't measure anything, and why."""

    path: str
    about: str
    findings: Sequence[Finding]
    unmeasured: Mapping[str, str]

    @property
    def suspects(self) -> list[Suspect]:
        """The causes that are likely enough to report, the most likely first."""
        return [it for it in ranked(self.findings) if it.weight >= ALARM]

    def to_dict(self) -> dict[str, Any]:
        return {
            "format_version": 1,
            "model": self.path,
            "about": self.about,
            "causes": [asdict(it) for it in self.suspects],
            "other_causes": [asdict(it) for it in ranked(self.findings) if it.weight < ALARM],
            "findings": [asdict(it) for it in self.findings],
            "unmeasured": dict(self.unmeasured),
        }

    def render(self) -> str:
        """Return a text: the most likely cause first, then the others, then what is fine."""
        lines, suspects = [f"{self.path}: {self.about}"], self.suspects
        for place, it in enumerate(suspects):
            lines += ["", f"{'most likely: ' if not place else 'also: '}{it.title}  ({it.weight:.0%})"]
            lines += [f"  {text}" for text in it.evidence]
            lines.append(f"  to fix it: {it.remedy}")
        fine = [it for it in self.findings if all(blame.weight < _FINE for blame in it.blames)]
        if not suspects:
            lines += ["", "nothing found that explains a bad result"]
            lines += [f"  {it.probe}: {it.measured}" for it in self.findings]
        elif fine:
            lines += ["", f"fine: {', '.join(dict.fromkeys(it.probe for it in fine))}"]
        return "\n".join([*lines, *(f"not measured: {name} ({why})" for name, why in self.unmeasured.items())])


def ranked(findings: Sequence[Finding]) -> list[Suspect]:
    """Return all causes that are blamed, the most likely first."""
    doubts: dict[str, float] = {}
    by_cause: dict[str, list[tuple[Blame, Finding]]] = {}
    for finding in findings:
        for blame in finding.blames:
            by_cause.setdefault(blame.cause, []).append((blame, finding))
            doubts[blame.cause] = doubts.get(blame.cause, 1.0) * (1 - min(max(blame.weight, 0.0), 0.99))
    weights = {cause: 1 - doubt for cause, doubt in doubts.items()}
    left = {
        cause: it * math.prod(1 - weights[by] for by in weights if cause in _explained(by))
        for cause, it in weights.items()
    }
    found = []
    for cause, known in by_cause.items():
        strongest = max((blame for blame, _ in known), key=lambda it: it.weight)
        entry = CAUSES.get(cause)
        title = strongest.title or (entry.title if entry else cause)
        remedy = entry.remedy.format(strongest.remedy) if entry else strongest.remedy
        if remedy.startswith("--"):
            remedy = f"clearhead train … {remedy}"
        known.sort(key=lambda it: -it[0].weight)
        evidence = list(dict.fromkeys(finding.measured for blame, finding in known if blame.weight > 0.05))
        found.append(Suspect(cause, title, left[cause], evidence, remedy))
    return sorted((it for it in found if it.weight >= 0.05), key=lambda it: -it.weight)


def _explained(cause: str) -> Sequence[str]:
    """Return the causes that follow from one. A setting explains all symptoms."""
    return CAUSES[cause].explains if cause in CAUSES else _SYMPTOMS


def certainty(effect: float, enough: float) -> float:
    """Return a weight for an effect: 0 without one, 0.63 if it's `enough`, and towards 1 for more."""
    return 1 - math.exp(-((max(effect, 0.0) / enough) ** 2))
