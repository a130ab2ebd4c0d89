"""Write the lines of training data without faulty ones. The bytes of the others don't change."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ..errors import DataError
from ..folder.atomic import replacing
from ..readers.lines import decode, read_head, undecodable, whole_lines
from ..readers.source import Source
from .findings import DataCheck

_BYTE_ORDER_MARK = "\ufeff"

Change = tuple[Sequence[str], Sequence[str]]  # the texts of an example, and what replaces them


@dataclass
class _Record:
    """A header, or an example with what follows it."""

    line: int = 0  # 0 if it isn't an example
    file: int = 0  # of a side
    header: int = 0  # 1 for that of the first file
    rows: list[tuple[bytes, ...]] = field(default_factory=list)  # the lines of all sides

    def rewritten(self, source: Source, change: Change | None) -> list[tuple[bytes, ...]]:
        """Return the rows with other texts, or none if their format can't hold them."""
        records = [decode(b"".join(side)) for side in zip(*self.rows)]
        if change is None or None in records:
            return []
        whole = [record or "" for record in records]
        marks = [_BYTE_ORDER_MARK * record.startswith(_BYTE_ORDER_MARK) for record in whole]
        new = source.rewritten(self.file, [it.removeprefix(mark) for it, mark in zip(whole, marks)], *change)
        return [tuple((mark + it).encode() for it, mark in zip(new, marks))] if new else []


def expect_outputs(source: Source, out: Sequence[Path]) -> None:
    """Raise a DataError if there isn't a file for each side of the data, or the data can't lose a line."""
    if out and len(out) != len(source.sides):
        what = f"{len(out)} file{'s' * (len(out) != 1)} to write, but the data has {len(source.sides)}"
        raise DataError(what, expected="one for each aligned file", fix="name them after `out`", name="out")
    for file in (side[0] for side in source.sides) if out else ():
        if read_head(file)[0].lstrip().startswith(b"["):
            what = f"{file.name} is a JSON array, which can't be written without some lines"
            raise DataError(what, expected="JSON Lines", fix="convert it with: jq -c '.[]' FILE", name=file.name)


def write_clean(
    source: Source, check: DataCheck, out: Sequence[Path], dropped: Path | None, changed: Mapping[int, Change]
) -> set[int]:
    """Write the lines that aren't dropped, and the others with their numbers and reasons.

    A header is kept, but only that of the first file. Lines that aren't the first one of an example belong to the
    example before them.

    Args:
        out: a file for each side of the data.
        dropped: a TSV with the number of each line, its kinds and reasons, and the line as it was.
        changed: the old and new texts of repaired examples, by their first lines.

    Returns:
        The first lines of examples that are dropped because their format can't hold the new texts.
    """
    reasons = {it: [f"{found.kind}: {found.reason}" for found in why] for it, why in check.faulty().items()}
    failed = set[int]()
    with replacing([*out, *filter(None, [dropped])]) as files:
        rest = files.pop() if dropped else None
        for record in _records(source, check, reasons):
            why, change = reasons.get(record.line, []), changed.get(record.line)
            new = record.rewritten(source, change)
            if change and not new:
                failed.add(record.line)
            for lines in new or record.rows if record.header < 2 and (new or not why) else ():
                for file, line in zip(files, lines):
                    file.write(line)
            if not why or not rest:
                continue
            for place, lines in enumerate(record.rows):
                told = f"{record.line}\t{'; '.join([*why, *['repaired'] * bool(new)])}\t" if place == 0 else "\t\t"
                shown = "\t".join(undecodable(line.rstrip(b"\r\n")) for line in lines)
                rest.write(f"{told}{shown}\n".encode())
    return failed


def _records(source: Source, check: DataCheck, faulty: Iterable[int]) -> Iterator[_Record]:
    """Yield all lines. Those before the first example may be a record, too."""
    starts = np.unique(np.array([*check.lines, *faulty], np.int64))
    record, at, number = _Record(), 0, 0
    for file, files in enumerate(zip(*source.sides)):
        for place, lines in enumerate(zip(*map(whole_lines, files))):
            number += 1
            is_start = at < len(starts) and bool(starts[at] == number)
            header = 0 if is_start or place or not check.report.headers else file + 1
            if is_start or header:
                yield record
                record, at = _Record(number * is_start, file, header), at + is_start
            record.rows.append(lines)
    yield record
