"""Open a table for its answers: detect its format and the columns to read."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...config import SEPARATORS, DataConfig
from ...errors import DataError
from ...readers.column_roles import LABELLED, Roles
from ...readers.columns import Sample, asked_columns
from ...readers.files import Input
from ...readers.headers import named_pair
from ...readers.json_lines import json_objects, sample_json, value_at
from ...readers.lines import decode, read_head, shown, undecodable
from ...readers.rows import Dialect
from ...readers.tables import sample_table
from .delimited_table import DelimitedTable
from .json_table import JsonTable
from .parquet_table import MAGIC, ParquetTable
from .table_file import TableFile

_NAME = re.compile(r"\.(csv|tsv)(\.gz|\.xz)?$", re.IGNORECASE)


def open_table(
    file: Input,
    data: DataConfig,
    roles: Roles = LABELLED,
    inputs: Sequence[str] = ("text",),
    *,
    own_separator: bool = False,
) -> TableFile:
    """Open a CSV, TSV, JSON Lines or Parquet file whose rows will be answered.

    Args:
        data: settings for reading: the columns and the separator, which are detected by default.
        roles: the usual names of the columns in training.
        inputs: the inputs of the task. If there are several, each is a column. The texts of several columns are joined
            if there's one.
        own_separator: True if the separator of `data` was set for this file. If it comes from a model's training, a
            file may have another one.

    Raises:
        DataError: the file isn't a table, or it isn't clear which columns to read.
        ConfigError: reading it needs a package that's missing.
    """
    asked = data.target_column if data.reverse else data.source_column
    joined = len(inputs) == 1
    with file.open() as content:
        if content.read(len(MAGIC)) == MAGIC:
            table = ParquetTable(file, joined=joined)
            table.places = input_columns(table.sample(), asked, roles, inputs, reverse=data.reverse)
            return table
    head = read_head(file)
    if objects := json_objects(file.name, head, data if own_separator else replace(data, separator=""), roles):
        paths = _asked_paths(objects, asked, len(inputs))
        if not paths:
            known, sample = sample_json(file.name, objects, roles)
            paths = [known[it] for it in input_columns(sample, asked, roles, inputs, reverse=data.reverse)]
        return JsonTable(file, paths, joined=joined)
    dialect, sample = _sampled(file.name, head, data, asked, roles, own_separator=own_separator)
    has_header = sample.header or _names_columns(sample, asked, roles, inputs)
    places = input_columns(replace(sample, header=has_header), asked, roles, inputs, reverse=data.reverse)
    return DelimitedTable(file, dialect, len(sample.cells), places, has_header=has_header, joined=joined)


def _asked_paths(objects: Sequence[dict[str, Any]], asked: str, n_inputs: int) -> list[tuple[str, ...]]:
    """Return the keys that are asked for, or none if an object doesn't have them.

    A key may be in a few objects only, and its values needn't be texts.
    """
    if not asked:
        return []
    keys = [asked] if any(asked in values for values in objects) else [part.strip() for part in asked.split(",")]
    paths = [(key,) if any(key in values for values in objects) else tuple(key.split(".")) for key in keys]
    are_there = all(any(not value_at(values, path)[1] for values in objects) for path in paths)
    return paths if are_there and n_inputs in (1, len(paths)) else []


def _sampled(
    name: str, head: Sequence[bytes], data: DataConfig, asked: str, roles: Roles, *, own_separator: bool
) -> tuple[Dialect, Sample]:
    """Return the dialect of a table and a sample of its columns."""
    found = None
    if len([line for line in head if line.strip()]) == 1:
        head = [*head, *head]  # a header alone is a table without rows
    attempts = [data]
    if not own_separator:
        attempts += [replace(data, separator=mark) for mark in ("", _separator_of_header(name, head, asked))]
    for attempt in attempts:
        found = found or sample_table(name, head, attempt, roles)
    if found is None and own_separator:
        what = f"{name} has no line with the separator {shown(data.separator)}"
        fix = "leave `data.separator` out to detect it"
        raise DataError(what, expected="a separator that it has", fix=fix, name="data.separator", value=data.separator)
    if found is None:
        found = _single_column(name, head, asked, roles)
    if found[0].cuts >= 0:
        raise _no_table(name, head)
    return found


def _separator_of_header(name: str, head: Sequence[bytes], asked: str) -> str:
    """Return the most frequent separator in the first line, if the file or the names show that it's a header, or "".

    Rows of different widths, or a very long one, may hide the separator.
    """
    first = next((text for line in head if (text := (decode(line) or "").strip())), "")
    mark = max(SEPARATORS.values(), key=first.count)
    names = {name.strip('" ') for name in first.split(mark)}
    is_header = _NAME.search(name) or {asked, *asked.split(",")} & names - {""}
    return mark if mark in first and is_header else ""


def _single_column(name: str, head: Sequence[bytes], asked: str, roles: Roles) -> tuple[Dialect, Sample]:
    """Return a table with one column. It needs a name that says so, of the file or of the column."""
    dialect = Dialect(",", quoted=True)
    rows = [cells for _, _, cells, _ in dialect.rows(head) if cells and cells[0].strip()]
    first = rows[0][0].strip() if rows and len(rows[0]) == 1 else ""
    sample = Sample(name, (first,), ([cells[0] for cells in rows[1:]],))
    if _NAME.search(name) or asked == first or _names_columns(sample, "", roles, ("text",)):
        return dialect, sample
    raise _no_table(name, head)


def _no_table(name: str, head: Sequence[bytes]) -> DataError:
    line = next(line for line in head if line.strip())
    what = f"{name} isn't a table: its lines have no columns\n  {shown(decode(line) or undecodable(line))}"
    fix = "to answer each line of a file, pass it as standard input: < FILE"
    return DataError(what, expected="CSV, TSV, JSON lines or Parquet", fix=fix, name=name, line=1)


def input_columns(
    sample: Sample, asked: str, roles: Roles, inputs: Sequence[str], *, reverse: bool = False
) -> tuple[int, ...]:
    """Return the columns to read.

    Args:
        asked: columns that were asked for: names or 1-based numbers, separated by commas. If "", they're detected.
        roles: the usual names of the columns in training.
        inputs: the inputs of the task. If there are several, each is a column.
        reverse: True if the second one of two languages is read.

    Raises:
        DataError: there's no such column, or it isn't clear which one it is.
    """
    if asked:
        try:
            found = asked_columns(sample.file, sample.names, DataConfig(source_column=asked), sample.what)
        except DataError as error:
            error.fix = error.fix or f"name what to read: `data.source_column={sample.what.upper()}`"
            raise
        places = found[0] if found else ()
        if not places or (len(inputs) > 1 and len(places) != len(inputs)):
            raise _unclear(sample, inputs, f"{asked!r} isn't {len(inputs)} {sample.what}{'s' * (len(inputs) > 1)}")
    elif len(inputs) > 1:
        plain = [name.strip().casefold() for name in sample.words]
        if not {*inputs} <= {*plain}:
            raise _unclear(sample, inputs, f"it has no {sample.what}s {' and '.join(inputs)}")
        places = tuple(map(plain.index, inputs))
    else:
        places = _detected(sample, roles, reverse=reverse)
    _expect_one_each(sample, asked, places)
    return places


def _names_columns(sample: Sample, asked: str, roles: Roles, inputs: Sequence[str]) -> bool:
    """Return whether the first row is a header: it has requested or well-known column names."""
    plain = [name.strip() for name in sample.names]
    if {asked, *(part.strip() for part in asked.split(","))} & {*plain} - {""}:
        return True
    return _named(sample, roles) is not None or {*inputs} <= {name.casefold() for name in plain}


def _detected(sample: Sample, roles: Roles, *, reverse: bool) -> tuple[int, ...]:
    """Return the column with a usual name, or else the only one that has sentences."""
    named = _named(sample, roles, reverse=reverse)
    places = sample.texts() if named is None else [named]
    if len(sample.names) == 1:
        places = [0]
    if len(places) != 1:
        why = "several of them could be the text" if places else "none of them has a usual name or contains sentences"
        raise _unclear(sample, ("text",), why)
    return tuple(places)


def _named(sample: Sample, roles: Roles, *, reverse: bool = False) -> int | None:
    """Return the column that is the source by its name. Names of languages count if there are two."""
    if not roles.source_names and (pair := named_pair(sample.words, sample.cells)):
        return pair[reverse]
    return (roles if roles.source_names else LABELLED).named(sample.words)[0]


def _expect_one_each(sample: Sample, asked: str, places: Sequence[int]) -> None:
    """Raise a DataError if another column has the same name as one that isn't requested by number."""
    plain, numbers = [name.strip() for name in sample.names], [part.strip() for part in asked.split(",")]
    for place in places:
        same = [str(other + 1) for other, name in enumerate(plain) if name == plain[place] != ""]
        if len(same) > 1 and str(place + 1) not in numbers:
            what = f"{sample.file} has {len(same)} {sample.what}s named {plain[place]!r}: {' and '.join(same)}"
            fix = f"choose one by its number: `data.source_column={same[0]}`"
            raise DataError(what, expected="different names", fix=fix, name=sample.file, value=plain[place], line=1)


def _unclear(sample: Sample, inputs: Sequence[str], why: str) -> DataError:
    example = ",".join(inputs) if len(inputs) > 1 else sample.what.upper()
    what = f"{sample.file} has {len(sample.names)} {sample.what}s, and {why}\n{sample.listing()}"
    expected = f"one {sample.what} to read" if len(inputs) == 1 else f"a {sample.what} for each input"
    fix = f"name what to read: `data.source_column={example}`"
    return DataError(what, expected=expected, fix=fix, name=sample.file, value=tuple(sample.titles()))
