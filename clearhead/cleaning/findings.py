"""Findings of a data check: what kinds there are, which lines have them, and their summary."""

from array import array
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..readers.lines import shown
from ..readers.skipped import Report

_EXAMPLES = 3  # lines shown for each kind
_WIDTH = 70  # characters of a text shown


@dataclass(frozen=True)
class Kind:
    """A kind of fault. Lines with it are dropped, unless it's `kept`. No example of a `private` one is shown."""

    about: str
    kept: bool = False
    private: bool = False


KINDS = {
    "unreadable": Kind("can't be used for training"),
    "encoding": Kind("decoded wrongly, or with HTML"),
    "swapped": Kind("source and target are swapped"),
    "copied": Kind("the target is the source, untranslated"),
    "language": Kind("a side is in another language"),
    "shifted": Kind("target of a line nearby"),
    "mismatched": Kind("the target doesn't translate the source"),
    "length": Kind("truncated or merged"),
    "duplicate": Kind("repeats another line, or nearly"),
    "label": Kind("the label is probably wrong"),
    "conflict": Kind("the same text with different labels"),
    "spelling": Kind("label that differs from another in spelling only", kept=True),
    "leak": Kind("also in the validation or test data, or nearly"),
    "long": Kind("longer than data.max_len"),
    "boilerplate": Kind("begins or ends as many other texts do", kept=True),
    "characters": Kind("has a character that hardly any other text has", kept=True),
    "personal": Kind("e-mail addresses and phone numbers (not shown)", kept=True, private=True),
}


@dataclass(frozen=True)
class Finding:
    """A fault of a line, with the reason for this verdict, and the text of the repaired line. Lines count from 1."""

    line: int
    kind: str
    reason: str
    text: str
    repaired: str | None = None


@dataclass(frozen=True)
class DataCheck:
    """The result of a check. `str(check)` is its summary.

    Args:
        report: what was read.
        examples: the noun for what a line holds, such as "pairs".
        lines: the first line of each example that can be used.
        findings: all faults, sorted by line.
        notes: what couldn't be checked, and other remarks.
        repair: whether faults were undone where that's possible.
    """

    report: Report
    examples: str
    lines: "array[int]"
    findings: Sequence[Finding]
    notes: Sequence[str] = field(default=())
    repair: bool = False

    @property
    def counts(self) -> dict[str, int]:
        """The number of lines with each kind of fault."""
        lines: dict[str, set[int]] = {kind: set() for kind in KINDS}
        for it in self.findings:
            lines[it.kind].add(it.line)
        return {kind: len(found) for kind, found in lines.items() if found}

    def dropped(self) -> set[int]:
        """Return the lines that a clean file leaves out."""
        return {line for line, found in self.faulty().items() if found[0].repaired is None}

    def without_repair(self, lines: Collection[int]) -> "DataCheck":
        """Return the check with some lines dropped instead of repaired, since their format can't hold the new text."""
        note = f"{len(lines):,} more could be repaired, but not written in the format of the data"
        findings = [replace(it, repaired=None) if it.line in lines else it for it in self.findings]
        return replace(self, findings=findings, notes=[*self.notes, note]) if lines else self

    def faulty(self) -> dict[int, list[Finding]]:
        """Return the findings of the lines that a clean file leaves out, or has in another form."""
        found: dict[int, list[Finding]] = {}
        for it in self.findings:
            if not KINDS[it.kind].kept:
                found.setdefault(it.line, []).append(it)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON values. Lines with personal data have no text."""
        findings = [vars(it) for it in self.findings]
        if not self.repair:
            findings = [{key: value for key, value in it.items() if key != "repaired"} for it in findings]
        kept = self.report.used - len(self.dropped() - self._unreadable)
        head = {"files": [*self.report.paths], self.examples: self.report.used, "kept": kept}
        return {**head, "counts": self.counts, "notes": [*self.notes], "findings": findings}

    @property
    def _unreadable(self) -> set[int]:
        return {it.line for it in self.findings if it.kind == "unreadable"}

    def __str__(self) -> str:
        faulty = self.faulty().keys() - self._unreadable
        share, repaired = len(faulty) / max(1, self.report.used), faulty - self.dropped()
        nouns = "labelled texts" if self.examples == "labels" else self.examples
        some = f"{len(faulty):,} of {self.report.used:,} {nouns} look{'s' * (len(faulty) == 1)} faulty"
        some += f" ({share:.1%})"
        rows = [str(self.report), some + f"; {len(repaired):,} repaired" * self.repair]
        for kind, count in self.counts.items():
            fixed = len({it.line for it in self.findings if it.kind == kind} & repaired)
            rows.append(f"  {kind:<11} {count:>7,}  {KINDS[kind].about}" + f"; {fixed:,} repaired" * bool(fixed))
            rows += _examples(it for it in self.findings if it.kind == kind)
        return "\n".join([*rows, *(f"note: {note}" for note in self.notes)])


def _examples(findings: Iterable[Finding]) -> list[str]:
    """Return rows with a few lines, those with different reasons first."""
    each: dict[str, list[Finding]] = {}
    for it in findings:
        each.setdefault(it.reason, []).append(it)
    firsts = [it[place] for place in range(_EXAMPLES) for it in each.values() if len(it) > place][:_EXAMPLES]
    if KINDS[firsts[0].kind].private:
        return []
    return [f"    line {it.line:,}: {_shown(it.text)} ({it.reason})" for it in firsts]


def _shown(text: str) -> str:
    return shown(text.replace("\t", " | "), _WIDTH) if text else "not shown, it has personal data"
