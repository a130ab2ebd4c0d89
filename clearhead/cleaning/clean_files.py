"""Write the lines of training data without faulty ones. The bytes of the others don't change."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import numpy as np

from ..errors import DataError
from ..folder.atomic import partial_path
from ..readers.lines import read_head, undecodable, whole_lines
from ..readers.source import Source
from .findings import DataCheck


def expect_outputs(source: Source, out: Sequence[Path]) -> None:
    """Raise a DataError if there isn't a file for each side of the data, or the data can't lose a line."""
    if out and len(out) != len(source.sides):
        what = f"{len(out)} file{'s' * (len(out) != 1)} to write, but the data has {len(source.sides)}"
        raise DataError(what, expected="one for each aligned file", fix="name them after `out`", name="out")
    for file in (side[0] for side in source.sides) if out else ():
        if read_head(file)[0].lstrip().startswith(b"["):
            what = f"{file.name} is a JSON array, which can't be written without some lines"
            raise DataError(what, expected="JSON Lines", fix="convert it with: jq -c '.[]' FILE", name=file.name)


def write_clean(source: Source, check: DataCheck, out: Sequence[Path], dropped: Path | None) -> None:
    """Write the lines that aren't dropped, and the others with their numbers and reasons.

    A header is kept, but only that of the first file. Lines that aren't the first one of an example belong to the
    example before them.

    Args:
        out: a file for each side of the data.
        dropped: a TSV with the number of each line, its kinds and reasons, and the line itself.
    """
    first = {it: [f"{found.kind}: {found.reason}" for found in why] for it, why in check.dropped().items()}
    starts = np.unique(np.array([*check.lines, *first], np.int64))
    with ExitStack() as opened:
        files = [opened.enter_context(partial_path(path).open("wb")) for path in out]
        rest = opened.enter_context(partial_path(dropped).open("wb")) if dropped else None
        at, why = 0, list[str]()
        for number, (is_header, lines) in enumerate(_rows(source, check.report.headers), 1):
            is_start = at < len(starts) and starts[at] == number
            if is_start:
                at, why = at + 1, first.get(number, [])
            if is_header and not is_start:
                if is_header == 1:
                    _write(files, lines)
            elif not why:
                _write(files, lines)
            elif rest:
                told = f"{number}\t{'; '.join(why)}\t" if is_start else "\t\t"
                shown = "\t".join(undecodable(line.rstrip(b"\r\n")) for line in lines)
                rest.write(f"{told}{shown}\n".encode())
    for path in [*out, *([dropped] if dropped else [])]:
        partial_path(path).replace(path)


def _write(files: Sequence[IO[bytes]], lines: Sequence[bytes]) -> None:
    for file, line in zip(files, lines):
        file.write(line)


def _rows(source: Source, headers: int) -> Iterator[tuple[int, tuple[bytes, ...]]]:
    """Yield the lines of all sides, with the number of the header that each may be, or 0."""
    for number, files in enumerate(zip(*source.sides), 1):
        for place, lines in enumerate(zip(*map(whole_lines, files))):
            yield (number if place == 0 and headers else 0), lines
