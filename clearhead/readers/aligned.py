"""Read two line-aligned files, or folders of them: line n of one belongs to line n of the other."""

import itertools
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path

from ..config import DataConfig
from ..errors import DataError
from .column_roles import SENTENCES, Roles
from .files import Input
from .lines import decode, read_head, read_lines, undecodable
from .skipped import Report
from .tables import Pair, begin_with_label


def read_aligned(sides: Sequence[Sequence[Input]], report: Report, data: DataConfig, roles: Roles) -> Iterator[Pair]:
    """Yield the pairs of two files, or of two folders whose files are aligned one by one.

    Raises:
        DataError: one side has more files or lines than the other, or both have fastText's labels.
    """
    if data.source_column or data.target_column or data.separator:
        report.notes.append("columns and separator aren't used: line-aligned files have none")
    _expect_sides(sides, report)
    heads = [read_head(files[0]) for files in sides]
    before, reverse = 0, data.reverse
    report.form = "two line-aligned files" + (", reversed" if reverse else "")
    if roles is not SENTENCES:
        reverse = roles.are_swapped([list(map(undecodable, head)) for head in heads])
        report.form += roles.where(((1,), 0) if reverse else ((0,), 1))
    if all(2 * sum(b"\t" in line for line in head) > len(head) for head in heads):  # as in a table
        report.notes.append(
            "most lines of both files have a tab: if each file has pairs, pass one of them, or a folder with both"
        )
    for first, second in zip(*sides):
        if len(sides[0]) > 1:
            report.files.append((f"{first.name} + {second.name}", before))
        before += yield from _read_files(first, second, report, before, roles, reverse=reverse)


def _expect_sides(sides: Sequence[Sequence[Input]], report: Report) -> None:
    name, counts = " and ".join(report.paths), tuple(map(len, sides))
    if len({*counts}) > 1:
        what = " and ".join(map(_files_of, report.paths, sides))
        expected = "the same number in both: file n of one is aligned with file n of the other"
        raise DataError(what, expected=expected, name=name, value=counts)
    if all(begin_with_label(read_head(files[0])) for files in sides):
        what = f"{name} both have labels and texts, in fastText's format"
        raise DataError(what, expected="one of them, or a folder with both", name=name)


def _files_of(path: str, files: Sequence[object]) -> str:
    return f"{path} has {len(files):,} file{'s' * (len(files) != 1)}" if Path(path).is_dir() else f"{path} is a file"


def _read_files(
    first: Input, second: Input, report: Report, before: int, roles: Roles, *, reverse: bool
) -> Generator[Pair, None, int]:
    """Yield the pairs of two files, then return the number of lines. Line numbers start at `before` + 1.

    With `reverse`, the sources are in the second file.

    Raises:
        DataError: one file has more lines than the other.
    """
    ones, others, number = read_lines(first), read_lines(second), 0
    for number, (one, other) in enumerate(itertools.zip_longest(ones, others), 1):
        if one is None or other is None:
            longer, line = (first, one) if other is None else (second, other)
            names = (first.name, second.name)
            raise _unequal(names, number - 1, longer.name, itertools.chain([line or b""], ones, others), roles)
        source, target = (decode(other), decode(one)) if reverse else (decode(one), decode(other))
        target = target if target is None else roles.labels_in(target)
        if source is None or target is None:
            report.skip(before + number, "not UTF-8", undecodable(one if decode(one) is None else other))
        elif reason := roles.fault(source, target):
            report.skip(before + number, reason, source if source.strip() else target)
        else:
            yield before + number, source, target
    report.lines += number
    return number


def _unequal(names: Sequence[str], fewer: int, longer: str, extra: Iterable[bytes], roles: Roles) -> DataError:
    n_extra = n_blank = 0
    for line in extra:  # possibly most of a large file
        n_extra += 1
        n_blank += not line.strip()
    lengths = {name: fewer + n_extra if name == longer else fewer for name in names}
    counts = [f"{name} has {count:,} line{'s' * (count != 1)}" for name, count in lengths.items()]
    what, expected = " and ".join(counts), f"the same number in both: {roles.aligned}"
    fix = f"remove the {n_extra:,} empty at the end of {longer}" if n_blank == n_extra else ""
    return DataError(what, expected=expected, fix=fix, name=longer, value=tuple(lengths.values()))
