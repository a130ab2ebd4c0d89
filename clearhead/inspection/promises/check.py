"""Promises of a model, the results of checking them, and a page of all results."""

import math
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Literal

from .rounding import Bound, Difference
from .subject import Case

_WIDTH = 80  # columns of a terminal
_INDENT = " " * 8
_NAMED = 6  # maximum number of failing parts or texts to list

Status = Literal["passed", "failed", "skipped"]
Measured = Iterator[tuple[Bound, Difference]]


@dataclass(frozen=True)
class Check:
    """The result of one check in one precision. `reason` explains the bound, or why the check was skipped."""

    name: str
    proves: str
    status: Status
    reason: str
    precision: str = ""
    difference: float | None = None
    bound: float | None = None
    detail: str = ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def render(self) -> str:
        """Render a line with the numbers, then the reason and, if the check failed, details."""
        status = "FAILED" if self.status == "failed" else self.status
        line = f"{status:<8}{self.name:<32}{self.precision:<9}"
        if self.difference is not None and self.bound is not None:
            line += f"{_number(self.difference):>8}  bound {_number(self.bound)}"
        texts = [self.proves, self.detail] if self.status == "failed" else []
        wrapped = [textwrap.fill(text, _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT)
                   for text in (self.reason, *texts) if text]  # fmt: skip
        return "\n".join([line.rstrip(), *wrapped])


@dataclass(frozen=True)
class Verification:
    """The results of all checks.

    Attributes:
        checks: the results, one for each check and precision.
        texts: description of the texts used.
        seconds: duration of all checks.
        broken_by: what each faulty class of parts breaks on its own: {"LeakyAttention": ("causality", "padding")}.
    """

    checks: tuple[Check, ...]
    texts: str
    seconds: float
    broken_by: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """True if no check failed. Skipped checks don't count."""
        return not any(check.status == "failed" for check in self.checks)

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of passed, failed and skipped checks."""
        found = Counter(check.status for check in self.checks)
        return {"passed": found["passed"], "failed": found["failed"], "skipped": found["skipped"]}

    def render(self) -> str:
        """Render all results in 80 columns."""
        counts = ", ".join(f"{count} {status}" for status, count in self.counts.items())
        last = [*self.sentences(), f"{counts}; {self.seconds:.1f} seconds; checked on {self.texts}"]
        return "\n".join([*(check.render() for check in self.checks), "", *(textwrap.fill(it, _WIDTH) for it in last)])

    def sentences(self) -> list[str]:
        """Return a sentence for each class of parts at fault."""
        return [f"{part} breaks {enumerated(kinds)}" for part, kinds in self.broken_by.items()]

    def to_dict(self) -> dict[str, Any]:
        return {
            "format_version": 1,
            "passed": self.passed,
            "counts": self.counts,
            "seconds": self.seconds,
            "texts": self.texts,
            "broken_by": {part: list(kinds) for part, kinds in self.broken_by.items()},
            "checks": [check.to_dict() for check in self.checks],
        }


class Skip(Exception):  # noqa: N818
    """Says why a promise doesn't apply to a model."""


@dataclass(frozen=True)
class Promise:
    """A property that every model must have: its name, a sentence that describes it, and how it's measured.

    `measure` returns one or more differences of a case, each with its bound. It raises `Skip` if the property doesn't
    apply. For a property of a decoding engine, it also takes the name of the engine.
    """

    name: str
    proves: str
    measure: Callable[..., Iterable[tuple[Bound, Difference]]]

    def check(self, case: Case, *engine: str) -> Check:
        """Measure a case, and report the difference with the largest ratio to its bound."""
        result = partial(Check, self.name, self.proves)
        try:
            found = sorted(self.measure(case, *engine), key=_share, reverse=True)
        except Skip as reason:
            return result("skipped", str(reason))
        except Exception as error:  # custom parts may raise anything
            detail = in_one_line(error)
            return result("failed", "the check raised an error", case.precision, detail=": ".join((*engine, detail)))
        bound, worst = found[0]
        if worst.value <= bound.value:
            return result("passed", bound.reason, case.precision, worst.value, bound.value)
        broken = in_words(it for limit, it in found if not it.value <= limit.value)  # also for NaN
        detail = ": ".join((*engine, broken))
        return result("failed", bound.reason, case.precision, worst.value, bound.value, detail)


def in_one_line(error: Exception) -> str:
    """Return the class and the message of an error on one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def in_words(broken: Iterable[Difference]) -> str:
    """Describe where a check failed. Places with the same fault share a sentence."""
    found: dict[tuple[str, str], list[str]] = {}
    for it in broken:
        found.setdefault((it.part, it.problem) if it.problem else (it.where, ""), []).append(it.where)
    texts = [f"{part} ({places(where)}) {problem}" if problem else part for (part, problem), where in found.items()]
    more = [f"and {len(texts) - _NAMED} more"] if len(texts) > _NAMED else []
    return "; ".join([*filter(None, texts[:_NAMED]), *more])


def places(names: Iterable[str]) -> str:
    """List the first few names and count the others."""
    known = list(dict.fromkeys(names))
    return ", ".join(known if len(known) <= _NAMED else [*known[: _NAMED - 1], f"{len(known) - _NAMED + 1} more"])


def enumerated(words: Sequence[str]) -> str:
    """Join words, such as "one, two and three"."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _share(measured: tuple[Bound, Difference]) -> float:
    """Return the ratio of a difference to its bound; infinity for NaN."""
    limit, value = measured[0].value, measured[1].value
    if value <= limit:
        return value / limit if limit else 0.0
    return value / limit if limit > 0 and math.isfinite(value) else math.inf


def _number(value: float) -> str:
    return f"{value:.1e}" if value else "0"
