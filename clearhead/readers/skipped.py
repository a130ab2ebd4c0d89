"""Report on what was read from files, and on skipped lines with the reasons."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..errors import DataError
from .lines import shown

_EXAMPLES = 3  # unused lines shown for each reason, and unknown words of a line
UNREADABLE = "that can't be read"  # the reason for images and audio whose content isn't what their name says


def none_readable(what: str, count: int) -> DataError:
    """Return the error for data in which no file can be read. `what` is their plural."""
    return DataError(
        f"no {what} are left to train on: none of the {count:,} can be read",
        expected=f"{what} whose content matches their names",
        value=count,
    )


@dataclass(frozen=True)
class Skipped:
    """A line that wasn't used."""

    line: int  # from 1
    reason: str
    text: str

    @classmethod
    def with_unknown(cls, line: int, what: str, words: Sequence[str]) -> "Skipped":
        """Return an example with words that a vocabulary lacks.

        Args:
            line: its number, from 1.
            what: the plural of such examples, such as "texts".
            words: the words. The first three are shown.
        """
        reason = f"{what} with words or characters missing from the vocabulary, which become <unk>"
        return cls(line, reason, ", ".join(words[:_EXAMPLES]))


@dataclass
class Report:
    """Counts of used and skipped lines. `str(report)` is readable text.

    Lines are numbered as if all files were one. `place` returns the file and the line in it.
    """

    paths: tuple[str, ...]
    form: str = ""
    unit: str = "lines"
    item: str = "line"  # what `place` counts
    lines: int = 0  # in a table, without its header; in aligned files, those of one file
    headers: int = 0  # header lines: one, or one for each file in a folder
    used: int = 0
    skipped: dict[str, int] = field(default_factory=dict)  # number of lines by reason
    examples: list[Skipped] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    files: list[tuple[str, int]] = field(default_factory=list)  # in a folder: each file, and the lines before it
    licence: str = ""  # licence of the data, if a column states it
    source: str = ""  # source of the data, if a column states it
    width: int = 80  # maximum number of characters to show of an unused line
    folder: str = ""  # of images and audio: the folder that names in it are relative to
    most: int = _EXAMPLES  # maximum number of examples kept for each reason

    def skip(self, line: int, reason: str, text: str) -> None:
        """Count a line that isn't used, and keep the first few of each reason as examples.

        Args:
            line: its number, counted over all files from 1.
            reason: a phrase that other lines with the same fault share.
            text: the line, or the part of it to show.
        """
        count = self.skipped[reason] = self.skipped.get(reason, 0) + 1
        if count <= self.most:
            self.examples.append(Skipped(line, reason, text))

    def place(self, line: int) -> str:
        """Return the location of a line as a phrase, such as `part-2.tsv line 7`."""
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
        """Return a row for each reason with its count, followed by its first few lines."""
        rows = []
        for reason, count in self.skipped.items():
            rows.append(f"  {what} {count:,}: {reason}")
            shows = [it for it in self.examples if it.reason == reason][:_EXAMPLES]
            rows += [f"    {self.place(it.line)}: {shown(it.text, self.width)}" for it in shows]
        return rows
