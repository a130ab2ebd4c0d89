"""Find the columns of a table that a task reads. The table may have no column of labels, translations or answers."""

from collections.abc import Sequence

from ...config import DataConfig
from ...errors import DataError
from ...readers.column_roles import LABELLED, Roles
from ...readers.columns import Sample, asked_columns
from ...readers.headers import named_pair


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


def names_columns(sample: Sample, asked: str, roles: Roles, inputs: Sequence[str]) -> bool:
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
