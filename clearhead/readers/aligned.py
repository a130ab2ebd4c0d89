"""Read two line-aligned files: line n of one belongs to line n of the other."""

import itertools
from collections.abc import Generator, Iterable, Sequence

from ..errors import DataError
from .column_roles import Roles
from .files import Input
from .lines import decode, read_head, read_lines, undecodable
from .skipped import Report
from .tables import Pair, begin_with_label


def read_aligned(
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
    return DataError(
        " and ".join(counts),
        expected=f"the same number in both: {roles.aligned}",
        fix=f"remove the {n_extra:,} empty at the end of {longer}" if n_blank == n_extra else "",
        name=longer,
        value=tuple(lengths.values()),
    )


def have_tabs(file: Input) -> bool:
    """Return whether most of the first lines have a tab, as in a table."""
    head = read_head(file)
    return 2 * sum(b"\t" in line for line in head) > len(head)


def have_labels(files: Iterable[Input]) -> bool:
    """Return whether all files are in fastText's format. Such files aren't line-aligned."""
    return all(begin_with_label(read_head(file)) for file in files)


def are_swapped(first: Input, second: Input, roles: Roles) -> bool:
    """Return whether the second file looks like the sources, and the first like the targets."""
    return roles.are_swapped([[undecodable(it) for it in read_head(file)] for file in (first, second)])
