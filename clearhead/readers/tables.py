"""Tables of text, TSV and CSV: which separator, which columns and whether a header, all found by looking."""

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..config import SEPARATORS, DataConfig
from ..errors import DataError
from .column_roles import FAST_TEXT, SENTENCES, Columns, Roles
from .headers import asked_columns, holds_no_sentences, named_pair
from .lines import LOOK, decode, shown, undecodable
from .rows import NOT_UTF_8, UNCLOSED, Row, rows
from .skipped import Report

Pair = tuple[int, str, str]  # line (from 1), source, target

_NAMES = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six"}
_SAID = {mark: name for name, mark in SEPARATORS.items()} | {" ": "space"}
_FEW = 20  # labels that tell one from the name of their column
_REGULAR = 0.9  # of the rows of a CSV have as many columns as most
_OTHERS = ",;|"  # that are looked for beside the tab


@dataclass(frozen=True)
class Table:
    """How to read a table. With a tab between columns a quote is a letter; with others it quotes, as in RFC 4180."""

    separator: str
    columns: Columns
    width: int  # the usual number of columns
    header: tuple[str, ...] | None = None
    where: str = ""  # in words, where it is not at the beginning
    roles: Roles = SENTENCES
    doubt: str = ""  # whether the first row is one of the table

    @property
    def kind(self) -> str:
        """What the shards of a folder have in common."""
        return "TSV" if self.separator == "\t" else f"CSV ({_said(self.separator)})"

    @property
    def names(self) -> tuple[str, str] | None:
        """What source and target are called, where there is a header."""
        source, target = self.columns
        return (self.header[source].strip(), self.header[target].strip()) if self.header else None

    def is_named_in(self, head: Sequence[bytes]) -> bool:
        """Whether another table, whose first lines are `head`, begins with the names of source and target too."""
        _, _, cells, _ = next(_rows(head, self.separator, self.roles), (0, "", None, ""))
        return set(self.names or ()) <= {cell.strip() for cell in cells or ()}

    def __str__(self) -> str:
        header = f"header ({', '.join(self.header[i].strip() for i in sorted(self.columns))})" if self.header else ""
        return f"{self.kind}, {_NAMES.get(self.width, self.width)} columns{self.where}, {header or 'no header'}"

    def read(self, lines: Iterable[bytes], report: Report, before: int) -> Generator[Pair, None, int]:
        """The pairs, their lines counted after `before` others; returns the number of lines. The report is added to."""
        source, target = self.columns
        last, quoted = max(self.columns), self.separator != "\t"
        n_rows = number = ignored = 0
        text = example = ""
        for number, text, cells, reason in _rows(lines, self.separator, self.roles):
            n_rows += 1
            line = before + number
            if n_rows == 1 and self.header:
                report.headers += 1
                continue
            if cells is None:
                report.skip(line, reason, text)
            elif len(cells) <= last:
                report.skip(line, self._too_few(cells, text), text)
            elif quoted and len(cells) > self.width:
                report.skip(line, f"more than {self.width} columns: is a {_said(self.separator)} not quoted?", text)
            elif why := self.roles.fault(cells[source], cells[target]):
                report.skip(line, why, text)
            else:
                yield line, cells[source], cells[target]
                if len(cells) > last + 1:
                    ignored, example = ignored + 1, example or f"{report.place(line)}: {shown(cells[last + 1])}"
        if self.doubt:
            report.notes.append(f"{report.place(before + 1)} may be a header that is not known: {self.doubt}")
        if ignored:
            report.notes.append(f"what follows column {last + 1} is ignored on {ignored:,} {report.unit} ({example})")
        report.lines += n_rows - bool(n_rows and self.header)
        return number + text.count("\n")

    def _too_few(self, cells: Sequence[str], text: str) -> str:
        if len(cells) > 1:
            return "too few columns"
        return f"no {_said(self.separator)}" if text.strip() else "blank line"


def asked_separator(data: DataConfig) -> str:
    """The separator that somebody asked for, "" where nobody did."""
    return SEPARATORS.get(data.separator, data.separator)


def look_for_table(
    name: str, head: Sequence[bytes], rest: Iterable[bytes], data: DataConfig, roles: Roles = SENTENCES
) -> Table:
    """The form of a table whose first lines are `head`; a DataError that shows a line where there are no columns, or
    where nothing tells which of them are meant.
    """
    separator = asked_separator(data) or _separator(head, roles)
    if separator is None or not any(separator.encode() in line for line in head):
        raise _no_columns(name, head, rest, data, roles)
    looked = whole_rows(head, separator, roles)
    sample = [cells or text.split(separator) for _, text, cells, reason in looked if reason in ("", NOT_UTF_8)]
    sample = [cells for cells in sample if len(cells) > 1]
    if not sample:
        raise _no_columns(name, head, rest, data, roles)
    width = Counter(map(len, sample)).most_common(1)[0][0]
    below = [row for row in sample[1:] if len(row) == width] or sample[:1]  # the first may be a header
    each = list(zip(*below))
    names = _names(looked[0][2] or (), each)
    found, asked = roles.columns(names, each), asked_columns(name, names, data)
    if asked:
        by_name = {data.source_column, data.target_column}.intersection(cell.strip() for cell in names) - {""}
        header = bool(found and found[1]) or bool(by_name) or named_pair([names[i] for i in sorted(asked)]) is not None
        found = asked, header, roles.where(asked)
    if found is None:
        raise _no_labels(name, sample, roles)
    columns, header, where = found
    doubt = "" if header else _doubt(looked[0][2] or (), each, columns, roles)
    columns = columns[::-1] if data.reverse else columns
    return Table(separator, columns, width, names if header else None, where, roles, doubt)


def _rows(lines: Iterable[bytes], separator: str, roles: Roles) -> Iterator[Row]:
    """A space as separator parts a label from its text, which has many of them."""
    once = separator == " " and roles.labels
    return rows(lines, separator, quoted=separator != "\t" and not once, cuts=1 if once else -1)


def _doubt(first: Sequence[str], each: Sequence[Sequence[str]], columns: Columns, roles: Roles) -> str:
    """Why the first row may be a header, though none of its names is known; "" where it is none."""
    labels, label = each[columns[1]], first[columns[1]] if len(first) == len(each) else ""
    if not roles.labels or not label or label in labels or label in roles.known:
        return ""
    if len(labels) < _FEW and not roles.known:
        return ""
    return f"its {roles.target}, {shown(label, 40)}, comes on no other of the first {len(labels):,}"


def _names(first: Sequence[str], each: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """What the first row calls each of the columns below it, were it a header; "" where it holds but a label of theirs.

    A row that is a cell short has no name for the numbers that stand first: so R writes a table.
    """
    if len(first) == len(each) - 1 and holds_no_sentences(each[0]):
        first = ("", *first)
    named = zip((*first, *[""] * len(each)), each)
    return tuple("" if name in column and holds_no_sentences(column) else name for name, column in named)


def _separator(head: Sequence[bytes], roles: Roles) -> str | None:
    """The tab, where half of the lines have one; else what cuts them into equally many columns; else, of lines as
    fastText has them, the space, which parts the label from the text; else any tab."""
    spoken = [line for line in head if line.strip()]
    tabs = sum(b"\t" in line for line in spoken)
    if tabs and 2 * tabs >= len(spoken):
        return "\t"
    share, separator = max((_regularity(head, mark), mark) for mark in _OTHERS)
    if share >= _REGULAR:
        return separator
    if roles.labels and begin_with_label(head):
        return " "
    return "\t" if tabs else None


def begin_with_label(head: Sequence[bytes]) -> bool:
    """Whether most lines are those of a file for fastText."""
    spoken = [line for line in head if line.strip()]
    return 2 * sum(line.startswith(FAST_TEXT.encode()) for line in spoken) > len(spoken)


def whole_rows(head: Sequence[bytes], separator: str, roles: Roles = SENTENCES) -> list[Row]:
    """The rows of a table's first lines, without a quoted text that the look ends in: its lines are no rows."""
    looked = list(_rows(head, separator, roles))
    begun = (place for place, row in enumerate(looked) if row[3] == UNCLOSED and 2 * row[0] > len(head) == LOOK)
    return looked[: next(begun, None)]


def _regularity(head: Sequence[bytes], separator: str) -> float:
    """The share of rows with the usual number of columns; 0 where the marks are a text's own, a space behind them."""
    sample = [cells for _, text, cells, why in whole_rows(head, separator) if text.strip() and why != NOT_UTF_8]
    widths = Counter(len(cells) for cells in sample if cells)
    width, number = max(widths.items(), key=lambda it: (it[1], it[0]), default=(1, 0))
    later = [cell for cells in sample if cells for cell in cells[1:]]
    if width < 2 or 2 * sum(cell.startswith(" ") for cell in later) > len(later):
        return 0.0
    return number / len(sample)


def _no_columns(name: str, head: Sequence[bytes], rest: Iterable[bytes], data: DataConfig, roles: Roles) -> DataError:
    total = len(head) + sum(1 for _ in rest)
    looked = f"the first {len(head)} of {total:,}" if total > len(head) else f"all {total}"
    number, line = next(((i, line) for i, line in enumerate(head, 1) if line.strip()), (1, b""))
    mark = asked_separator(data)
    between = f" and {_said(mark)} between them" if mark else ""
    hint = _hint(head, roles) if not mark else ""
    if strange := sum(decode(line) is None for line in head):
        hint += f"\n  {strange:,} of these lines are not UTF-8; to convert: iconv -f LATIN1 -t UTF-8"
    return DataError(
        f"{name} has no line with two columns{between} (looked at {looked})\n"
        f"  line {number}: {shown(undecodable(line))}\n"
        f"  expected: {roles.source} <TAB> {roles.target}, CSV, JSON lines, or two line-aligned files: "
        f"{roles.files}{hint}"
    )


def _no_labels(name: str, sample: Sequence[Sequence[str]], roles: Roles) -> DataError:
    targets = roles.plural[1]
    looked = f"{targets} that come again and again" if roles.labels else "two columns of texts"
    return DataError(
        f"{name}: nothing tells which of its {len(sample[0])} columns holds the {targets}\n"
        f"  the first row: {' | '.join(shown(cell, 40) for cell in sample[0])}\n"
        f"  expected a header that says {roles.source} and {roles.target}, or {looked}, or: --source-column N "
        "--target-column N"
    )


def _hint(head: Sequence[bytes], roles: Roles) -> str:
    """What to give where some lines hold a character that may be the separator."""
    words = [line.split(b" ", 1)[0] for line in head if b" " in line.strip()]
    if roles.labels and words and 2 * len(set(words)) <= len(words):
        return f'\n  if the {roles.target} is the first word: --separator " "'
    counts = {mark: sum(mark.encode() in line for line in head) for mark in _OTHERS}
    mark = max(counts, key=lambda it: counts[it])
    return f'\n  if the separator is "{mark}": --separator "{mark}"' if counts[mark] else ""


def _said(separator: str) -> str:
    return _SAID.get(separator, shown(separator))
