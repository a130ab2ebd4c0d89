"""Data as it was given: paths, or rows in memory, which are read as if each row were a line of a file."""

import hashlib
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from ..config.values import counted, is_text
from ..errors import DataError
from ..folder.archive import unpacked
from .files import STDIN, Input
from .skipped import Report

SOURCE, TARGET = "source", "target"  # keys of a pair
IN_MEMORY = "rows in memory"  # what a run records as the name of its data; its temporary file has this name
_EXPECTED = "a path, two paths, (source, target) pairs, dicts, or a pandas or polars DataFrame"


class Rows(Input):
    """Rows in memory, stored as JSON Lines. Every reader accepts them in place of a path.

    Args:
        name: their name in messages.
        rows: the values of each row, by column.
        pairs: True for (source, target) pairs, whose columns are known.
    """

    def __init__(self, name: str, rows: Iterable[Mapping[str, Any]], *, pairs: bool = False) -> None:
        super().__init__(name)
        self.pairs = pairs
        lines = [json.dumps({str(key): json_value(row[key]) for key in row}, ensure_ascii=True) for row in rows]
        self._content = "".join(f"{line}\n" for line in lines).encode()
        if not lines:
            raise DataError(f"{name}: there are no rows", expected="at least one", name=name)

    @contextmanager
    def open(self) -> Iterator[io.BufferedReader]:
        yield io.BufferedReader(io.BytesIO(self._content))


class Source:
    """Open files that can be read repeatedly. As a context manager, it closes them.

    Args:
        paths: the paths as they were given.
        sides: all files, by the side of the examples that they hold.
    """

    report: Report  # of the last complete pass over the files

    def __init__(self, paths: Sequence[str | Path | Input], sides: Sequence[Sequence[Input]]) -> None:
        self.sides = sides
        self.report = Report(tuple((path if isinstance(path, Input) else Input(path)).name for path in paths))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Delete the copies of streams."""
        for side in self.sides:
            for file in side:
                file.close()

    def digest(self) -> str:
        """Return the SHA-256 of the bytes of all files."""
        whole = hashlib.sha256()
        for side in self.sides:
            whole.update(b"side")
            for each in side:
                with each.open() as file:
                    whole.update(hashlib.file_digest(file, "sha256").digest())
        return whole.hexdigest()

    def expect_digest(self, digest: str) -> None:
        """Raise a DataError if the files have changed since `digest` was computed."""
        if self.digest() != digest:
            name = " and ".join(self.report.paths)
            raise DataError(f"{name} changed while being read", fix="run the command again", name=name)

    def rewritten(self, place: int, records: Sequence[str], old: Sequence[str], new: Sequence[str]) -> list[str] | None:
        """Return the lines of an example with other texts, or None if its format can't hold them.

        Args:
            place: which of the files of a side the example is in.
            records: the lines of each side, with their ends. The texts of plain text and aligned files are first lines.
            old: the texts of the example, as they were read.
            new: what replaces them. Everything else stays the same.
        """
        texts = [record.split("\n")[0].removesuffix("\r") for record in records]
        changed = {one: other for one, other in zip(old, new) if one != other}
        if any(texts.count(it) != 1 or "\n" in changed[it] for it in changed):
            return None
        return [changed.get(text, text) + record[len(text) :] for text, record in zip(texts, records)]


def as_paths(data: Any) -> list[str | Path | Input]:
    """Convert data to paths, or to one `Rows` with the examples, for a reader.

    Args:
        data: a path; several paths; a list of (source, target) pairs or of dicts; a pandas, polars or Arrow table. A
            zip archive is read as the folder in it.

    Raises:
        DataError: the data has another type, or names standard input twice.
    """
    if isinstance(data, str | Path | Input):
        return [_folder_of(data)]
    if table := _table(data):
        names, rows = table
        return [Rows(f"{type(data).__name__} of {counted(len(data), 'rows')}", (dict(zip(names, row)) for row in rows))]
    items = data.tolist() if hasattr(data, "tolist") else data
    if not isinstance(items, Iterable) or isinstance(items, bytes | Mapping):
        raise _not_data(f"the data is of type {type(data).__name__}", data)
    items = list(items)
    if all(isinstance(it, str | Path | Input) for it in items):
        if list(map(str, items)).count(STDIN) > 1:
            expected = "- once, since it can be read only once"
            raise DataError("standard input (-) was given twice", expected=expected, name=STDIN, value=items)
        return list(map(_folder_of, items))
    if all(isinstance(it, Mapping) for it in items):
        return [Rows(f"list of {len(items):,} dicts", items)]
    pairs = [_pair(place, it) for place, it in enumerate(items)]
    _expect_both_sides(pairs)
    return [Rows(f"list of {counted(len(items), 'pairs')}", pairs, pairs=True)]


def _folder_of(path: str | Path | Input) -> str | Path | Input:
    """Return the folder in a zip archive, and everything else unchanged."""
    if isinstance(path, str) and not is_text(path):
        raise _not_data(f"{path!r} isn't a path", path)
    return unpacked(path) if str(path).lower().endswith(".zip") and not isinstance(path, Input) else path


def _table(data: Any) -> tuple[list[str], Iterable[Sequence[Any]]] | None:
    """Return the column names and the rows of a DataFrame; None for anything else."""
    if hasattr(data, "columns") and hasattr(data, "iter_rows"):  # polars
        return list(data.columns), data.iter_rows()
    if hasattr(data, "columns") and hasattr(data, "itertuples"):  # pandas
        return [str(name) for name in data.columns], data.itertuples(index=False, name=None)
    if hasattr(data, "column_names") and hasattr(data, "to_pylist"):  # Arrow
        names = list(data.column_names)
        return names, ([row[name] for name in names] for row in data.to_pylist())
    return None


def _pair(place: int, item: Any) -> dict[str, Any]:
    if isinstance(item, str | bytes) or not isinstance(item, Sequence) or len(item) != 2:
        raise _not_data(f"item {place} of the data isn't a pair: {item!r:.80}", item)
    return {SOURCE: item[0], TARGET: item[1]}


def _expect_both_sides(pairs: Sequence[Mapping[str, Any]]) -> None:
    """Raise DataError if most pairs lack the same side. If only a few do, the reader skips and counts them."""
    for side in (SOURCE, TARGET):
        lacking = [place for place, pair in enumerate(pairs) if json_value(pair[side]) is None]
        if 2 * len(lacking) > len(pairs):
            place = lacking[0]
            what = f"item {place} of the data has no {side}: {(*pairs[place].values(),)!r:.80}"
            expected = "(source, target) pairs"
            raise DataError(what, expected=expected, name=side, value=pairs[place][side], line=place + 1)


def _not_data(what: str, value: Any) -> DataError:
    return DataError(what, expected=_EXPECTED, value=value)


def json_value(value: Any) -> Any:
    """Convert a value to JSON: missing values become null, and unknown types become text."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, list | tuple):
        return [json_value(it) for it in value]
    if isinstance(value, Mapping):
        return {str(key): json_value(it) for key, it in value.items()}
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if hasattr(value, "item"):  # a NumPy scalar
        return json_value(value.item())
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None
    return str(value)
