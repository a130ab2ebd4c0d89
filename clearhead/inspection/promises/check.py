"""Results of checks: the largest difference compared with its bound, and a page of all results."""

import math
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

_WIDTH = 80  # columns of a terminal
_INDENT = " " * 8
_NAMED = 6  # maximum number of failing parts or texts to list

Status = Literal["passed", "failed", "skipped"]


@dataclass(frozen=True)
class Promise:
    """A property that a check verifies, with its name and a sentence that describes it."""

    name: str
    proves: str


@dataclass(frozen=True)
class Bound:
    """The largest difference that rounding can explain, and the reason. It's computed before measuring."""

    value: float
    reason: str


EXACT = Bound(0.0, "the same operations on the same numbers, so every bit must be equal")


@dataclass(frozen=True)
class Difference:
    """The largest difference between two results that should be equal, and `where` it occurs.

    If a part is at fault, `where` is its name, `part` its class, and `problem` a description.
    """

    value: float
    where: str = ""
    part: str = ""
    problem: str = ""


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
        """Return plain values for JSON."""
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
        """Return plain values for JSON."""
        return {
            "format_version": 1,
            "passed": self.passed,
            "counts": self.counts,
            "seconds": self.seconds,
            "texts": self.texts,
            "broken_by": {part: list(kinds) for part, kinds in self.broken_by.items()},
            "checks": [check.to_dict() for check in self.checks],
        }


def judge(promise: Promise, precision: str, bound: Callable[[], Bound], measure: Callable[[], Difference]) -> Check:
    """Compute the bound, then measure the difference. If either raises an error, the check fails."""
    return judge_each(promise, precision, lambda: [bound()], lambda: [measure()])


def judge_each(
    promise: Promise, precision: str, bounds: Callable[[], Sequence[Bound]], measure: Callable[[], Sequence[Difference]]
) -> Check:
    """Compare several measurements with their bounds, and report the one with the largest ratio to its bound."""
    name, proves = promise.name, promise.proves
    try:
        limits = bounds()
        found = measure()
    except Exception as error:  # custom parts may raise anything
        detail = in_one_line(error)
        return Check(name, proves, "failed", "the check raised an error", precision, detail=detail)
    shares = [_share(it.value, limit.value) for it, limit in zip(found, limits, strict=True)]
    order = sorted(range(len(shares)), key=lambda place: -shares[place])
    worst, limit = found[order[0]], limits[order[0]]
    if worst.value <= limit.value:  # false for NaN
        return Check(name, proves, "passed", limit.reason, precision, worst.value, limit.value)
    detail = in_words([found[place] for place in order if not found[place].value <= limits[place].value])
    return Check(name, proves, "failed", limit.reason, precision, worst.value, limit.value, detail)


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


def _share(value: float, limit: float) -> float:
    """Return the ratio of a difference to its bound; infinity for NaN."""
    if value <= limit:
        return value / limit if limit else 0.0
    return value / limit if limit > 0 and math.isfinite(value) else math.inf


def blaming(name: str, check: Check) -> Check:
    """Begin the details of a failed check with the name of what it checked, such as an engine."""
    return replace(check, detail=f"{name}: {check.detail}") if check.status == "failed" else check


def skip(promise: Promise, reason: str) -> Check:
    """Return the result of a check that doesn't apply to this model."""
    return Check(promise.name, promise.proves, "skipped", reason)


def _number(value: float) -> str:
    return f"{value:.1e}" if value else "0"
