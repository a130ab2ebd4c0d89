"""Columns of a table or keys of JSON objects: inspect their content, and find those that the user chose."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..config import DataConfig
from ..errors import DataError, shortened, suggestion
from .lines import shown

_WIDEST = 1000  # maximum number of columns
_CELLS, _FEWEST_ROWS = 20_000, 50  # cells inspected to choose columns, and minimum rows
_SHOWN = 20  # columns listed in a message
_EXAMPLES = 2  # cells shown for each column
_MOSTLY = 0.9  # minimum share of cells that have the type of their column
_ENOUGH = 20  # minimum number of cells to see whether values repeat
_SHARE, _SHARE_OF_FEW = 0.25, 0.5  # maximum distinct labels per cell; the second for fewer than twenty cells
_NUMBERS = 11  # maximum distinct values of a numeric label: 0 to 10
_LABEL = 40  # maximum characters of a label
_SENTENCE = 3  # minimum number of words in a text, on average
_UNSPACED = 10  # minimum number of characters without a space that count as several words

_DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}([-/.]\d{1,2})?([T ,]+\d{1,2}:\d{2}\S*( ?[AP]M)?( ?[A-Z]{3,4})?)?|(19|20)\d{2}"
    r"|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}([ ,]+\d{1,2}:\d{2}\S*( ?[AP]M)?)?|\d{1,2}:\d{2}(:\d{2})?( ?[AP]M)?"
    r"|(\w{3,9},? )?\d{1,2}\.?[ -][A-Za-z]{3,9}\.?,?[ -]\d{2,4}.{0,20}|[A-Z][a-z]{2,8}\.? \d{1,2},? \d{4}.{0,20}",
    re.IGNORECASE,
)
_AMOUNT = re.compile(r"[$€£¥]?\s?[-+]?\d{1,3}([ .,'\u00a0]?\d{3})*([.,]\d+)?\s?[%$€£¥]?")
_ADDRESS = re.compile(r"[^\s@]+@[^\s@]+\.\w+|(https?://|www\.)\S+|(\d{1,3}\.){3}\d{1,3}", re.IGNORECASE)
_CODE = re.compile(r"#?[A-Za-z]{0,4}[-_/#:.]?\d+([-_/]\w+)*|(?=\w*\d)[0-9a-f]{6,}|[0-9a-f-]{32,36}", re.IGNORECASE)
_ATTRIBUTION = re.compile(r"\s*(?P<licence>.*?)[;,.:]?\s*\bAttribution:\s*(?P<source>[^#]*?)\s*(#.*|\(.*)?")


@dataclass(frozen=True)
class Sample:
    """The first rows of a file, by column."""

    file: str
    names: Sequence[str]  # the first row, which may be a header, or keys
    cells: Sequence[Sequence[str]]  # of each column, below the first row
    header: bool = False  # True if the first row is known to contain names
    what: str = "column"  # or "key"

    @property
    def words(self) -> Sequence[str]:
        """The names to recognise columns by. A nested key is recognised by its last part."""
        return [name.rpartition(".")[2] for name in self.names] if self.what == "key" else self.names

    def titles(self) -> list[str]:
        """Return the names of the columns, or their numbers if there's no known header."""
        known = self.names if self.header else [""] * len(self.names)
        return [name.strip() or f"{self.what} {place}" for place, name in enumerate(known, 1)]

    def labels(self) -> list[int]:
        """Return the columns that look like labels: few short values that repeat."""
        return [place for place, cells in enumerate(self.cells) if may_be_label(cells)]

    def numbers(self) -> list[int]:
        """Return the columns of numbers. Constant ones and row numbers count only if there are no others."""
        found = {place: column for place, cells in enumerate(self.cells) if (column := _numbers(cells))}
        steps = {place: {after - before for before, after in pairwise(column)} for place, column in found.items()}
        return [place for place, it in steps.items() if it not in (set(), {0.0}, {1.0})] or [*found]

    def texts(self) -> list[int]:
        """Return the columns that contain sentences."""
        return [place for place, cells in enumerate(self.cells) if is_text(cells)]

    def length(self, place: int) -> float:
        """Return the average number of characters in a column."""
        cells = self.cells[place]
        return sum(map(len, cells)) / len(cells) if cells else 0.0

    def usable(self) -> list[int]:
        """Return the columns that are neither blank nor a licence."""
        return [
            place for place, cells in enumerate(self.cells) if any(map(str.strip, cells)) and not attribution(cells)
        ]

    def doubt(self, why: str, *, labels: Sequence[int] = (), texts: Sequence[int] = ()) -> DataError:
        """Return the error for a file with ambiguous columns, which lists them and suggests options.

        Args:
            why: what is ambiguous, completing "FILE has N columns, and ...".
            labels: columns that may be the labels, from 0; the last one is suggested.
            texts: columns that may be texts; the first two are suggested.
        """
        titles = self.titles()
        text = ",".join(map(self._option, texts[:2])) or self.what.upper()
        label = self._option(labels[-1]) if labels else self.what.upper()
        fix = (
            f"choose them, for example: `train.task=classify` `data.source_column={text}` `data.target_column={label}`"
        )
        pair = range(2) if len(titles) == 2 else texts
        if len(pair) == 2:
            source, target = map(self._option, pair)
            columns = f"`data.source_column={source}` `data.target_column={target}`"
            fix += f"\n  or, for pairs of texts: `train.task=translate` {columns}"
        what = f"{self.file} has {len(titles)} {self.what}s, and {why}\n{self.listing()}"
        return DataError(what, expected="unambiguous columns", fix=fix, name=self.file, value=tuple(titles))

    def listing(self) -> str:
        """Return a line for each column with its name and two examples."""
        titles = self.titles()
        rows, width = [], min(max(map(len, titles), default=0), 30)
        for title, column in list(zip(titles, self.cells))[:_SHOWN]:
            examples = list(dict.fromkeys(cell.strip() for cell in column if cell.strip()))[:_EXAMPLES]
            rows.append(f"    {title:{width}}  {', '.join(shown(cell, 40) for cell in examples) or '(blank)'}")
        return "\n".join([*rows, *([f"    and {len(titles) - _SHOWN:,} more"] if len(titles) > _SHOWN else [])])

    def _option(self, place: int) -> str:
        """Format a column as the value of an option."""
        name = self.names[place].strip() if self.header else ""
        return str(place + 1) if not name or "," in name else f'"{name}"' if " " in name else name


def rows_to_inspect(name: str, width: int, what: str = "column") -> int:
    """Return the number of rows to inspect in a table, which is smaller in a wide one.

    Args:
        name: name of the file, for messages.
        width: number of columns or keys.
        what: the noun for one of these, for messages.

    Raises:
        DataError: the table is too wide.
    """
    if width > _WIDEST:
        expected = f"at most {_WIDEST:,}"
        fix = "keep only those you use"
        raise DataError(f"{name} has {width:,} {what}s", expected=expected, fix=fix, name=name, value=width)
    return max(_FEWEST_ROWS, _CELLS // max(width, 1))


# --- content of a column


def is_number(cell: str) -> bool:
    """Return whether a cell is a finite number, such as 12, -3 or 1.2498."""
    try:
        return cell.isascii() and math.isfinite(float(cell.strip('"')))  # in a TSV a quote is part of the cell
    except ValueError:
        return False


def _numbers(cells: Sequence[str]) -> list[float]:
    """Return the numbers in a column, or none if fewer than nine in ten of its cells are numbers."""
    spoken = [cell for cell in cells if cell.strip()]
    found = [float(cell.strip('"')) for cell in spoken if is_number(cell)]
    return found if len(found) >= _MOSTLY * len(spoken) else []


def data_type(cells: Sequence[str]) -> str:
    """Return "date", "number", "address" (e-mail, web) or "code" if nearly all cells are of that type, else ""."""
    spoken = [cell.strip() for cell in cells if cell.strip()]
    least = _MOSTLY * len(spoken)
    for name, pattern in (("date", _DATE), ("number", _AMOUNT), ("address", _ADDRESS), ("code", _CODE)):
        fits = sum(bool(pattern.fullmatch(cell)) or (name == "number" and is_number(cell)) for cell in spoken)
        if spoken and fits >= least:
            return name
    return ""


def may_be_label(cells: Sequence[str]) -> bool:
    """Return whether the cells look like labels: few short values that repeat."""
    spoken = [cell for cell in cells if cell.strip()]
    many, distinct = len(spoken), set(spoken)
    share = _SHARE if many >= _ENOUGH else _SHARE_OF_FEW
    if 2 * many < len(cells) or not 2 <= len(distinct) <= max(2, share * many) or many < 4:
        return False
    kind = data_type(spoken)
    return kind not in ("date", "address") and max(map(len, distinct)) <= _LABEL and (
        kind != "number" or len(distinct) <= _NUMBERS
    )  # fmt: skip


def is_text(cells: Sequence[str]) -> bool:
    """Return whether the cells are sentences and mostly distinct."""
    spoken = [cell for cell in cells if cell.strip()]
    if not spoken or 2 * len(set(spoken)) < len(spoken) or data_type(spoken) or attribution(spoken):
        return False
    return sum(map(n_words, spoken)) >= _SENTENCE * len(spoken)


def n_words(text: str) -> int:
    """Return the number of words; in a script without spaces, such as Chinese, two characters count as a word."""
    return sum(len(part) // 2 if len(part) >= _UNSPACED and ord(part[1]) > 0x2E7F else 1 for part in text.split())


def attribution(cells: Sequence[str]) -> tuple[str, str] | None:
    """Return the licence and source stated in nearly all cells, or None.

    Files from manythings.org have such a third column: "CC-BY 2.0 (France) Attribution: tatoeba.org #1 (ann)".
    """
    spoken = [cell for cell in cells if cell.strip()]
    found = [match for cell in spoken if (match := _ATTRIBUTION.fullmatch(cell))]
    if not found or len(found) < _MOSTLY * len(spoken):
        return None
    licences, sources = (dict.fromkeys(match[part].strip() for match in found) for part in ("licence", "source"))
    return ", ".join(filter(None, licences)), ", ".join(filter(None, sources))


# --- columns chosen by the user


def asked_columns(
    name: str, names: Sequence[str], data: DataConfig, what: str = "column"
) -> tuple[tuple[int, ...], int | None] | None:
    """Return the source columns and the target column set in `data`, or None if none are set.

    If one side isn't set, it's the other one of two columns; with more columns, it's () or None.
    Columns are given by name or by 1-based number. Several source columns are separated by commas.

    Args:
        name: name of the file, for messages.
        names: names of all columns.
        data: settings. `data.source_column` can have several columns.
        what: the noun for a column, for messages.

    Raises:
        DataError: there's no such column, or source and target are the same.
    """
    asked = [data.source_column, data.target_column]
    if not any(asked):
        return None
    sources = asked_places(name, names, asked[0], what) if asked[0] else ()
    target = _place(name, names, asked[1], what) if asked[1] else None
    if len(names) == 2 and target is None and len(sources) == 1:
        target = 1 - sources[0]
    elif len(names) == 2 and target is not None and not sources:
        sources = (1 - target,)
    if target in sources:
        raise in_both(name, names, data.target_column, what)
    return sources, target


def in_both(name: str, names: Sequence[str], column: str, what: str) -> DataError:
    """Return the error for a column that is both source and target.

    Args:
        name: name of the file.
        names: names of all columns.
        column: the one that was named twice.
        what: the noun for a column.
    """
    return DataError(
        f"{name}: source and target are both {what} {column!r}\n  {what}s: {listed(names)}",
        expected=f"two different {what}s",
        name="data.target_column",
        value=column,
    )


def side_missing(sample: Sample, data: DataConfig) -> DataError:
    """Return the error for a source or target column that isn't set and can't be detected."""
    missing, given, column = ("target", "source", data.source_column)
    option = "`data.target_column`"
    if not column:
        missing, given, column = ("source", "target", data.target_column)
        option = "`data.source_column`"
    return DataError(
        f"{sample.file} has {len(sample.names)} {sample.what}s, but only data.{given}_column={column!r} is set\n"
        f"{sample.listing()}",
        expected=f"a {missing} column too",
        fix=f"set {option}",
        name=f"data.{missing}_column",
    )


def listed(names: Sequence[str]) -> str:
    """Format up to twenty names for a message."""
    return shortened([shown(name, 40)[1:-1] for name in names], _SHOWN)


def asked_places(name: str, names: Sequence[str], asked: str, what: str) -> tuple[int, ...]:
    """Return the positions, from 0, of one column or of several separated by commas.

    Args:
        name: name of the file, for messages.
        names: names of all columns.
        asked: names or 1-based numbers.
        what: the noun for a column, for messages.
    """
    if asked in [it.strip() for it in names] or "," not in asked:
        return (_place(name, names, asked, what),)
    return tuple(dict.fromkeys(_place(name, names, part.strip(), what) for part in asked.split(",") if part.strip()))


def _place(name: str, names: Sequence[str], asked: str, what: str) -> int:
    plain = [it.strip() for it in names]
    if asked in plain:
        return plain.index(asked)
    if asked.isascii() and asked.isdigit() and 1 <= int(asked) <= len(names):
        return int(asked) - 1
    raise DataError(
        f"{name} has no {what} {asked!r}\n  {what}s: {listed(names)}",
        expected=f"one of these names, or a number from 1 to {len(names)}",
        fix=suggestion(asked, plain),
        name=name,
        value=asked,
    )
