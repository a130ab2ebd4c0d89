"""What was found in files and what was not used of it, with line number and reason."""

from bisect import bisect_right
from dataclasses import dataclass, field

from .lines import shown

_EXAMPLES = 3  # unusable lines shown for each reason


@dataclass(frozen=True)
class Skipped:
    """A line that was not used."""

    line: int  # from 1
    reason: str
    text: str


@dataclass
class Report:
    """What was found in the files and what was not used of it; `str` of it is for people.

    The lines of several files are counted as if these stood below each other; a message names the file and its line.
    """

    paths: tuple[str, ...]
    form: str = ""
    unit: str = "lines"
    item: str = "line"  # what the number of a place counts
    lines: int = 0  # of a table, below its header, or of each of two files
    headers: int = 0  # lines that are the header of a table: one, or one in each file of a folder
    used: int = 0
    skipped: dict[str, int] = field(default_factory=dict)  # lines by reason
    examples: list[Skipped] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    files: list[tuple[str, int]] = field(default_factory=list)  # of a folder: each file, and the lines before it

    def skip(self, line: int, reason: str, text: str) -> None:
        """Count a line that is not used; the first few of each reason are kept to be shown."""
        count = self.skipped[reason] = self.skipped.get(reason, 0) + 1
        if count <= _EXAMPLES:
            self.examples.append(Skipped(line, reason, text))

    def add(self, other: "Report") -> None:
        """Count what another found in the lines behind these."""
        for reason, count in other.skipped.items():
            have = self.skipped.get(reason, 0)
            self.examples += [it for it in other.examples if it.reason == reason][: max(_EXAMPLES - have, 0)]
            self.skipped[reason] = have + count
        self.lines, self.used = other.lines, self.used + other.used

    def place(self, line: int) -> str:
        """Where a line stands, in words."""
        if not self.files:
            return f"{self.item} {line:,}"
        name, before = self.files[bisect_right(self.files, line - 1, key=lambda it: it[1]) - 1]
        return f"{name} {self.item} {line - before:,}"

    def __str__(self) -> str:
        counts = f"{self.used:,} of {self.lines:,} {self.unit} used"
        of = f" ({len(self.files):,} file{'s' * (len(self.files) != 1)})" if self.files else ""
        rows = [f"{' + '.join(self.paths)}{of}: {self.form}; {counts}"]
        return "\n".join([*rows, *self.skipped_rows(), *(f"  {note}" for note in self.notes)])

    def skipped_rows(self, what: str = "skipped") -> list[str]:
        """In words, `what` became of how many lines for each reason, with the first few of them."""
        rows = []
        for reason, count in self.skipped.items():
            rows.append(f"  {what} {count:,}: {reason}")
            rows += [f"    {self.place(it.line)}: {shown(it.text)}" for it in self.examples if it.reason == reason]
        return rows
