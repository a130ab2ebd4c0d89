"""Sentence pairs from files: one TSV, or two line-aligned files; plain, gzip or xz, told by their first bytes.

A line ends at LF (or CR LF) and at nothing else. What cannot be used is counted and shown with its line number and the
reason; nothing is cut, shifted or dropped in silence. Later forms of data join here, each as one function to `Pairs`.
"""

import hashlib
import itertools
import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..errors import DataError
from .headers import header_of
from .lines import decode, read_lines, shown, undecodable

_LOOK = 200  # lines that tell the form of a file
_EXAMPLES = 3  # unusable lines shown for each reason
_FEWEST = 20  # distinct sources that a split needs
_NAMES = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six"}


@dataclass(frozen=True)
class Skipped:
    """A line that was not used."""

    line: int  # from 1
    reason: str
    text: str


@dataclass
class Report:
    """What was found in the files and what was not used of it; `str` of it is for people."""

    paths: tuple[str, ...]
    form: str = ""
    lines: int = 0  # of the TSV, header included, or of each of the two files
    used: int = 0
    skipped: dict[str, int] = field(default_factory=dict)  # lines by reason
    examples: list[Skipped] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def skip(self, line: int, reason: str, text: str) -> None:
        """Count a line that is not used; the first few of each reason are kept to be shown."""
        count = self.skipped[reason] = self.skipped.get(reason, 0) + 1
        if count <= _EXAMPLES:
            self.examples.append(Skipped(line, reason, text))

    def __str__(self) -> str:
        rows = [f"{' + '.join(self.paths)}: {self.form}; {self.used:,} of {self.lines:,} lines used"]
        return "\n".join([*rows, *self.skipped_rows(), *(f"  {note}" for note in self.notes)])

    def skipped_rows(self) -> list[str]:
        """What was not used, by reason, with the first few lines of each."""
        rows = []
        for reason, count in self.skipped.items():
            rows.append(f"  skipped {count:,}: {reason}")
            rows += [f"    line {it.line:,}: {shown(it.text)}" for it in self.examples if it.reason == reason]
        return rows


@dataclass(frozen=True)
class Pairs:
    """Sentences and their translations as the files hold them, with their line numbers (from 1)."""

    sources: list[str]
    targets: list[str]
    lines: "array[int]"
    report: Report

    def __len__(self) -> int:
        return len(self.sources)

    def take(self, indices: Iterable[int], note: str) -> "Pairs":
        """Some of the pairs, with a report of their own that says so."""
        chosen = list(indices)
        report = replace(self.report, skipped=dict(self.report.skipped), examples=list(self.report.examples))
        report.notes = [*self.report.notes, note]
        sources, targets = ([side[i] for i in chosen] for side in (self.sources, self.targets))
        return Pairs(sources, targets, array("q", [self.lines[i] for i in chosen]), report)


def read_pairs(paths: Sequence[str | Path]) -> Pairs:
    """Read one TSV (source TAB target) or two line-aligned files; a DataError where there is no pair to be had."""
    if len(paths) not in (1, 2):
        raise DataError(
            f"{len(paths)} files were named; expected one TSV (source <TAB> target) or two line-aligned files"
        )
    report = Report(tuple(str(path) for path in paths))
    pairs = Pairs([], [], array("q"), report)
    if len(paths) == 1:
        _read_tsv(Path(paths[0]), pairs)
    else:
        _read_aligned(Path(paths[0]), Path(paths[1]), pairs)
    report.used = len(pairs)
    if not pairs:
        advice = "\n  expected UTF-8; to convert: iconv -f LATIN1 -t UTF-8" if "not UTF-8" in report.skipped else ""
        raise DataError(f"no usable pair in {' and '.join(report.paths)}\n  {report}{advice}")
    return pairs


def split_pairs(pairs: Pairs, share: float, seed: int) -> tuple[Pairs, Pairs]:
    """Hold out `share` of the distinct sources: (the pairs to train on, the pairs held out).

    Sources that differ only in case, white space or punctuation count as one and stay on one side.
    The choice depends on the seed and the set of sources, not on their order. Too few sources: nothing is held out.
    """
    keys = {source: _key(source) for source in dict.fromkeys(pairs.sources)}
    distinct = set(keys.values())
    if share == 0 or len(distinct) < _FEWEST:
        why = "no share is asked for" if share == 0 else f"only {len(distinct)} distinct sources, fewer than {_FEWEST}"
        note = f"nothing held out: {why}"
        return pairs.take(range(len(pairs)), note), pairs.take([], note)
    size = min(max(1, round(share * len(distinct))), len(distinct) - 1)
    held = set(sorted(distinct, key=lambda key: (_digest(seed, key), key))[:size])
    apart = [keys[source] in held for source in pairs.sources]
    note = f"held out {sum(apart):,} pairs: {size:,} of {len(distinct):,} distinct sources, with all their translations"
    train, valid = ([i for i, is_held in enumerate(apart) if is_held == side] for side in (False, True))
    return pairs.take(train, note), pairs.take(valid, note)


def references(pairs: Pairs) -> tuple[list[str], list[list[str]]]:
    """Each distinct source once, in order of appearance, and beside it all its distinct targets."""
    found: dict[str, dict[str, None]] = {}
    for source, target in zip(pairs.sources, pairs.targets):
        found.setdefault(source, {})[target] = None
    return list(found), [list(targets) for targets in found.values()]


def _key(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text.casefold())
    return re.sub(r"[\W_]+", "", folded) or folded


def _digest(seed: int, key: str) -> bytes:
    return hashlib.blake2b(f"{seed} {key}".encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _read_tsv(path: Path, pairs: Pairs) -> None:
    lines, report = read_lines(path), pairs.report
    head = list(itertools.islice(lines, _LOOK))
    if not any(b"\t" in line for line in head):
        raise _no_columns(path, head, lines)
    source, target = columns = _columns(head)
    header = header_of(head[0], columns)
    report.form = _form(head, columns, header)
    ignored, example = 0, ""
    for number, line in enumerate(itertools.chain(head, lines), 1):
        report.lines = number
        if number == 1 and header:
            continue
        text = decode(line)
        cells = ("" if text is None else text).split("\t")
        if text is None:
            report.skip(number, "not UTF-8", undecodable(line))
        elif len(cells) <= target:
            report.skip(number, "too few columns" if "\t" in text else "no tab" if text.strip() else "blank line", text)
        elif reason := _fault(cells[source], cells[target]):
            report.skip(number, reason, text)
        else:
            pairs.sources.append(cells[source])
            pairs.targets.append(cells[target])
            pairs.lines.append(number)
            if len(cells) > target + 1:
                ignored, example = ignored + 1, example or f"line {number:,}: {shown(cells[target + 1])}"
    if ignored:
        report.notes.append(f"what follows column {target + 1} is ignored on {ignored:,} lines ({example})")


def _width(head: Sequence[bytes]) -> int:
    """The usual number of columns."""
    return Counter(line.count(b"\t") + 1 for line in head if b"\t" in line).most_common(1)[0][0]


def _columns(head: Sequence[bytes]) -> tuple[int, int]:
    """Where source and target stand: the first two columns, unless the first of three or more holds only numbers."""
    width = _width(head)
    rows = [line.split(b"\t") for line in head if line.count(b"\t") == width - 1]
    rows = rows[1:] or rows  # the first may be a header
    words = [i for i in range(width) if not all(row[i].isdigit() for row in rows)]
    return (words[0], words[1]) if width > 2 and words[:1] != [0] and len(words) > 1 else (0, 1)


def _form(head: Sequence[bytes], columns: tuple[int, int], header: str | None) -> str:
    width = _width(head)
    where = "" if columns == (0, 1) else f" (sentences in {columns[0] + 1} and {columns[1] + 1}; numbers before them)"
    return f"TSV, {_NAMES.get(width, width)} columns{where}, {f'header {header}' if header else 'no header'}"


def _no_columns(path: Path, head: Sequence[bytes], rest: Iterable[bytes]) -> DataError:
    total = len(head) + sum(1 for _ in rest)
    looked = f"the first {len(head)} of {total:,}" if total > len(head) else f"all {total}"
    number, line = next(((i, line) for i, line in enumerate(head, 1) if line.strip()), (1, b""))
    return DataError(
        f"{path} has no line with two columns (looked at {looked})\n"
        f"  line {number}: {shown(line.decode('utf-8', 'backslashreplace'))}\n"
        "  expected: source <TAB> target, or two line-aligned files: train a.en a.fr"
    )


def _read_aligned(source_path: Path, target_path: Path, pairs: Pairs) -> None:
    sources, targets, report = read_lines(source_path), read_lines(target_path), pairs.report
    report.form = "two line-aligned files"
    for number, (source_line, target_line) in enumerate(itertools.zip_longest(sources, targets), 1):
        if source_line is None or target_line is None:
            longer, line = (source_path, source_line) if target_line is None else (target_path, target_line)
            raise _unequal(report.paths, number - 1, str(longer), [line or b"", *sources, *targets])
        report.lines = number
        source, target = decode(source_line), decode(target_line)
        if source is None or target is None:
            raw = source_line if source is None else target_line
            report.skip(number, "not UTF-8", undecodable(raw))
        elif reason := _fault(source, target):
            report.skip(number, reason, source if source.strip() else target)
        else:
            pairs.sources.append(source)
            pairs.targets.append(target)
            pairs.lines.append(number)


def _unequal(paths: Sequence[str], fewer: int, longer: str, extra: Sequence[bytes]) -> DataError:
    counts = [f"{path} has {fewer + len(extra) if path == longer else fewer:,} lines" for path in paths]
    blank = all(not line.strip() for line in extra)
    advice = (
        f"remove the {len(extra):,} empty at the end of {longer}"
        if blank
        else "line n of one translates line n of the other"
    )
    return DataError(f"{' and '.join(counts)}; expected as many in both: {advice}")


def _fault(source: str, target: str) -> str | None:
    """Why a pair cannot be used, or None."""
    if not source.strip():
        return "empty source" if target.strip() else "blank line"
    if not target.strip():
        return "empty target"
    return "NUL character" if "\0" in source or "\0" in target else None
