"""Two line-aligned files: line n of one belongs to line n of the other."""

import itertools
from collections.abc import Generator, Iterable, Sequence

from ..errors import DataError
from .column_roles import Roles
from .files import Input
from .lines import LOOK, decode, read_lines, undecodable
from .skipped import Report
from .tables import Pair, begin_with_label


def read_aligned(
    first: Input, second: Input, report: Report, before: int, roles: Roles, *, reverse: bool
) -> Generator[Pair, None, int]:
    """The pairs of two files, lines counted after `before` others; returns the number of lines.

    With `reverse` the sources are in the second file. A DataError where one has more lines than the other.
    """
    ones, others, number = read_lines(first), read_lines(second), 0
    for number, (one, other) in enumerate(itertools.zip_longest(ones, others), 1):
        if one is None or other is None:
            longer, line = (first, one) if other is None else (second, other)
            names = (first.name, second.name)
            raise _unequal(names, number - 1, longer.name, itertools.chain([line or b""], ones, others), roles)
        source, target = (decode(other), decode(one)) if reverse else (decode(one), decode(other))
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
    for line in extra:  # which may be most of a large file
        n_extra += 1
        n_blank += not line.strip()
    counts = [f"{name} has {fewer + n_extra if name == longer else fewer:,} lines" for name in names]
    advice = f"remove the {n_extra:,} empty at the end of {longer}" if n_blank == n_extra else roles.aligned
    return DataError(f"{' and '.join(counts)}; expected as many in both: {advice}")


def has_tabs(file: Input) -> bool:
    """Whether most of the first lines have one, so that the file may be a table."""
    head = list(itertools.islice(read_lines(file), LOOK))
    return 2 * sum(b"\t" in line for line in head) > len(head)


def have_labels(files: Iterable[Input]) -> bool:
    """Whether each is a file for fastText, so that none is a side of the other."""
    return all(begin_with_label(list(itertools.islice(read_lines(file), LOOK))) for file in files)


def are_exchanged(first: Input, second: Input, roles: Roles) -> bool:
    """Whether the first lines of the second file look like the sources, and those of the first like the targets."""
    return roles.exchanged(
        [[undecodable(it) for it in itertools.islice(read_lines(file), LOOK)] for file in (first, second)]
    )
