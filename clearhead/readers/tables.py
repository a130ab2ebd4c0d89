"""TSV and CSV tables of text. Separator, columns and header are detected from the first lines."""

import re
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..config import SEPARATORS, DataConfig
from ..config.values import counted
from ..errors import DataError, shortened
from .column_roles import FAST_TEXT, LABELLED, SENTENCES, SUMMARIES, Chosen, Columns, Roles
from .columns import Sample, attribution, rows_to_inspect
from .headers import holds_no_sentences, looks_like_header, named_pair
from .lines import HEAD_LINES, decode, shown, to_utf8, undecodable
from .rows import NOT_UTF_8, UNCLOSED, Dialect, Row, are_quoted
from .skipped import Report

Pair = tuple[int, str, str]  # line (from 1), source, target

_NAMES = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six"}
_MARKS = {mark: name for name, mark in SEPARATORS.items()} | {" ": "space"}
_FEW = 20  # labels needed to tell a label from a column name
_REGULAR = 0.9  # minimum share of CSV rows with the usual number of columns
_COLUMN_NAMES = {it for roles in (LABELLED, SUMMARIES) for it in (*roles.source_names, *roles.target_names)}
_QUOTED = re.compile(r'(?:^|\t)"(?:[^"\t]|"")*""(?:[^"\t]|"")*"(?:\t|$)')  # a cell with quotes around quotes
_LISTED = 5  # label columns in a description
_OTHERS = ",;|"  # possible separators besides the tab


@dataclass(frozen=True)
class Table:
    """Format of a table."""

    dialect: Dialect
    columns: Columns
    width: int  # the usual number of columns
    header: tuple[str, ...] | None = None
    where: str = ""  # a phrase for where the columns are, if they aren't the first ones
    roles: Roles = SENTENCES
    doubt: str = ""  # why the first row may be a header
    credits: tuple[int, str, str] | None = None  # a column that states licence and source, the licence, the source
    several: tuple[int, ...] = ()  # columns of labels, if there are several, of which the target column is the first

    @property
    def kind(self) -> str:
        """The format, which all files of a folder must share."""
        return "TSV" if self.separator == "\t" else f"CSV ({_named(self.separator)})"

    @property
    def separator(self) -> str:
        return self.dialect.separator

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the source columns and the target column, if there is a header."""
        sources, target = self.columns
        used = (*sources, *(self.several or (target,)))
        return tuple(self.header[place].strip() for place in used) if self.header else None

    def is_named_in(self, head: Sequence[bytes]) -> bool:
        """Return whether another table, with the first lines `head`, has these names in its first row."""
        _, _, cells, _ = next(self.dialect.rows(head), (0, "", None, ""))
        return set(self.names or ()) <= {cell.strip() for cell in cells or ()}

    def __str__(self) -> str:
        places = sorted((*self.columns[0], *(self.several or self.columns[1:])))
        named = shortened([self.header[i].strip() for i in places], _LISTED) if self.header else ""
        header = f"header ({named})" if self.header else ""
        quotes = {("\t", True): " with CSV quotes"}.get((self.separator, self.dialect.quoted), "")
        return f"{self.kind}{quotes}, {_NAMES.get(self.width, self.width)} columns{self.where}, {header or 'no header'}"

    def described(self) -> str:
        """Return a description of the used and unused columns."""

        def name(place: int) -> str:
            known = self.header[place].strip() if self.header else ""
            return f"{known} (column {place + 1})" if known else f"column {place + 1}"

        sources, target = self.columns
        targets = self.several or (target,)
        others = [name(it) for it in range(self.width) if it not in (*sources, *targets)]
        labels = shortened([name(it) for it in targets], _LISTED)
        used = f"{self.roles.source}: {' + '.join(map(name, sources))}; {self.roles.target}: {labels}"
        return used + (f"; not used: {', '.join(others)}" if others else "")

    def read(self, lines: Iterable[bytes], report: Report, before: int) -> Generator[Pair, None, int]:
        """Yield the pairs, then return the number of lines. Line numbers start at `before` + 1.

        Args:
            lines: the lines of a file, without their ends.
            report: counts the lines, and gets those that can't be used.
            before: number of lines in the files before this one.
        """
        sources, target = self.columns
        last = max(*sources, target, *self.several)
        listed = self.width if self.header else last + 1  # columns that the report or the description has named
        n_rows = number = ignored = quoted = 0
        text = example = ""
        for number, text, cells, reason in self.dialect.rows(lines):
            n_rows += 1
            line = before + number
            if n_rows == 1 and self.header:
                report.headers += 1
                continue
            if cells is None:
                report.skip(line, reason, text)
            elif len(cells) <= last:
                report.skip(line, self._too_few(cells, text), text)
            elif self.separator != "\t" and len(cells) > self.width:
                report.skip(line, f"more than {self.width} columns: is a {_named(self.separator)} not quoted?", text)
            elif why := (found := self._pair(cells))[2]:
                report.skip(line, why, text)
            else:
                yield line, found[0], found[1]
                quoted += not self.dialect.quoted and '""' in text and _QUOTED.search(text) is not None
                if len(cells) > listed:
                    ignored, example = ignored + 1, example or f"{report.place(line)}: {shown(cells[listed])}"
        if quoted:
            what = f"{report.unit} with cells that look quoted: {quoted:,}"
            report.notes.append(f"{what}; to read them as in CSV, pass --data.quoting=csv")
        self._add_notes(report, before, ignored, listed, example)
        report.lines += n_rows - bool(n_rows and self.header)
        return number + text.count("\n")

    def replaced(self, record: str, old: Sequence[str], new: Sequence[str]) -> str | None:
        """Return a row, and what follows it, with another source and target, or None if it can't hold them.

        Args:
            record: a row, and what follows it, with the line ends.
            old: its source and target, as they were read.
            new: what replaces them. Everything else stays the same.
        """
        sources, target = self.columns
        changed = {at: it for at, *it in zip((sources[0], target), old, new) if it[0] != it[1]}
        before, after = ({at: it[side] for at, it in changed.items()} for side in (0, 1))
        return self.dialect.replaced(record, before, after) if len(sources) == 1 else None

    def _pair(self, cells: Sequence[str]) -> tuple[str, str, str]:
        """Return source and target, and the reason why they're unusable or ""."""
        source, wrong = self._source(cells), ""
        if self.several:
            target, wrong = self.roles.joined(self.labels, [cells[it] for it in self.several])
        else:
            target = self.roles.labels_in(cells[self.columns[1]])
        if wrong and self.roles.voices and source.strip():
            return source, target, wrong
        return source, target, self.roles.fault(source, target) or wrong

    @cached_property
    def labels(self) -> list[str]:
        """The names of several label columns."""
        named = [self.header[place].strip() if self.header else "" for place in self.several]
        return [name or f"column {place + 1}" for name, place in zip(named, self.several)]

    def _source(self, cells: Sequence[str]) -> str:
        sources, _ = self.columns
        return cells[sources[0]] if len(sources) == 1 else " ".join(filter(str.strip, (cells[it] for it in sources)))

    def _add_notes(self, report: Report, before: int, ignored: int, listed: int, example: str) -> None:
        if self.doubt:
            report.notes.append(f"{report.place(before + 1)} may be a header: {self.doubt}")
        if self.credits:
            column, report.licence, report.source = self.credits
            report.notes.append(
                f"column {column + 1} states the licence, {report.licence}, and the source, {report.source}"
            )
        elif ignored:
            report.notes.append(
                f"columns after {listed} aren't used: they're in {counted(ignored, report.unit)} ({example})"
            )

    def _too_few(self, cells: Sequence[str], text: str) -> str:
        if len(cells) > 1:
            return "too few columns"
        return f"no {_named(self.separator)}" if text.strip() else "blank line"


def asked_separator(data: DataConfig) -> str:
    """Return the separator in the settings, or ""."""
    return SEPARATORS.get(data.separator, data.separator)


def detect_table(
    name: str, head: Sequence[bytes], rest: Iterable[bytes], data: DataConfig, roles: Roles = SENTENCES
) -> Table:
    """Detect the format of a table.

    Args:
        name: name of the file, for messages.
        head: first lines of the file.
        rest: its other lines, which are only counted for a message.
        data: settings, which may set separator and columns.
        roles: SENTENCES, LABELLED or SUMMARIES.

    Raises:
        DataError: there are no columns, or they're ambiguous.
    """
    sampled = sample_table(name, head, data, roles)
    if sampled is None:
        raise _no_columns(name, head, rest, data, roles)
    dialect, sample = sampled
    columns, header, where = _chosen(sample, data, roles)
    names, each = sample.names, sample.cells
    doubt = "" if header else _doubt(names, each, columns, roles)
    if data.reverse:
        columns = _reversed(columns)
    credits = next(((i, *it) for i, cells in enumerate(each) if (it := attribution(cells))), None)
    header_row, several = tuple(names) if header else None, roles.several(sample, data)
    if several:
        where = (
            f" ({roles.source} in {' and '.join(str(it + 1) for it in columns[0])}, {len(several)} {roles.plural[1]})"
        )
    found = Table(dialect, columns, len(names), header_row, where, roles, doubt, credits, several)
    roles.expect_distinct(name, found.labels)
    return found


def sample_table(
    name: str, head: Sequence[bytes], data: DataConfig, roles: Roles = SENTENCES
) -> tuple[Dialect, Sample] | None:
    """Return the dialect of a table and a sample of its columns, or None if there are no columns.

    Args:
        name: name of the file, for messages.
        head: first lines of the file.
        data: settings, which may set separator and quoting.
        roles: SENTENCES, LABELLED or SUMMARIES.

    Raises:
        DataError: there's only a header.
    """
    separator = asked_separator(data) or _separator(head, roles, data)
    if separator is None or not any(separator.encode() in line for line in head):
        return None
    dialect = _dialect(head, separator, roles, data)
    found = whole_rows(head, dialect)
    rows = [cells or text.split(separator) for _, text, cells, reason in found if reason in ("", NOT_UTF_8)]
    rows = [cells for cells in rows if len(cells) > 1]
    if not rows:
        return None
    width = Counter(map(len, rows)).most_common(1)[0][0]
    n_rows = rows_to_inspect(name, width)
    if len(found) == 1:
        _expect_not_header(name, rows[0])
    below = [row for row in rows[1:] if len(row) == width][:n_rows] or rows[:1]  # the first may be a header
    each = list(zip(*below))
    names = _names(found[0][2] or (), each)
    return dialect, Sample(name, names, each, looks_like_header(names, each, _COLUMN_NAMES))


def _expect_not_header(name: str, row: Sequence[str]) -> None:
    """Raise a DataError if the only row of a file is a header, even one that belongs to another task."""
    if any(None not in roles.named(row) for roles in (LABELLED, SUMMARIES)):
        what = f"{name} has a header, {shown(', '.join(map(str.strip, row)))}, but no rows below it"
        raise DataError(what, expected="at least one row of data", name=name, line=1)


def _chosen(sample: Sample, data: DataConfig, roles: Roles) -> Chosen:
    names = sample.names
    if asked := roles.asked(sample, data):
        sources, target = asked
        words = {*(it for side in (data.source_column, data.target_column) for it in (side, *side.split(",")))}
        by_name = {word.strip() for word in words}.intersection(cell.strip() for cell in names) - {""}
        pair = named_pair([names[i] for i in sorted((*sources, target))]) or named_pair(names, sample.cells)
        known = roles.named(names) != (None, None) or pair is not None
        return asked, bool(by_name) or known or sample.header, roles.where(asked)
    found = roles.choose(sample)
    if found is None:
        raise _no_labels(sample, roles)
    return found


def _reversed(columns: Columns) -> Columns:
    sources, target = columns
    if len(sources) > 1:
        what = "data.reverse=true exchanges source and target, but there are several source columns"
        fix = "leave out `data.reverse`, and swap `data.source_column` and `data.target_column`"
        raise DataError(what, expected="one source column", fix=fix, name="data.reverse", value=True)
    return (target,), sources[0]


def _dialect(head: Sequence[bytes], separator: str, roles: Roles, data: DataConfig) -> Dialect:
    """Return how to split lines. If the separator is a space, only the first one separates the label from its text."""
    if separator == " " and roles.labels:
        return Dialect(separator, quoted=False, cuts=1)
    quoted = data.quoting == "csv" if data.quoting != "auto" else separator != "\t" or are_quoted(head, separator)
    return Dialect(separator, quoted)


def _doubt(first: Sequence[str], each: Sequence[Sequence[str]], columns: Columns, roles: Roles) -> str:
    """Return the (weak) evidence that the first row is a header, or ""."""
    labels, label = each[columns[1]], first[columns[1]] if len(first) == len(each) else ""
    if not roles.labels or roles.numbers or not label or label in labels or label in roles.known:
        return ""
    if len(labels) < _FEW and not roles.known:
        return ""
    return f"its {roles.target}, {shown(label, 40)}, isn't in any other of the first {len(labels):,} rows"


def _names(first: Sequence[str], each: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the name of each column, assuming that the first row is a header; "" if the name is a label of the column.

    If the first row is one cell shorter, the first column has row numbers without a name, as R writes them.
    """
    if len(first) == len(each) - 1 and holds_no_sentences(each[0]):
        first = ("", *first)
    named = zip((*first, *[""] * len(each)), each)
    return tuple("" if name in column and holds_no_sentences(column) else name for name, column in named)


def _separator(head: Sequence[bytes], roles: Roles, data: DataConfig) -> str | None:
    """Return the tab if half of the lines have one, else the character that gives rows the same number of columns.

    Lines in fastText's format are split at the first space.
    """
    spoken = [line for line in head if line.strip()]
    tabs = sum(b"\t" in line for line in spoken)
    dialect = Dialect("\t", data.quoting == "csv" or (data.quoting == "auto" and are_quoted(head, "\t")))
    if tabs and (2 * tabs >= len(spoken) or (dialect.quoted and _regularity(head, dialect) >= _REGULAR)):
        return "\t"
    share, separator = max((_regularity(head, Dialect(mark, data.quoting != "none")), mark) for mark in _OTHERS)
    if share >= _REGULAR:
        return separator
    if roles.labels and begin_with_label(head):
        return " "
    return "\t" if tabs else None


def begin_with_label(head: Sequence[bytes]) -> bool:
    """Return whether most lines are in fastText's format."""
    spoken = [line for line in head if line.strip()]
    return 2 * sum(line.startswith(FAST_TEXT.encode()) for line in spoken) > len(spoken)


def whole_rows(head: Sequence[bytes], dialect: Dialect) -> list[Row]:
    """Return the rows of a table's first lines, without a quoted text that continues beyond them."""
    found = list(dialect.rows(head))
    begun = (place for place, row in enumerate(found) if row[3] == UNCLOSED and 2 * row[0] > len(head) == HEAD_LINES)
    return found[: next(begun, None)]


def _regularity(head: Sequence[bytes], dialect: Dialect) -> float:
    """Return the share of rows with the usual number of columns; 0 if most separators precede a space, as in text."""
    sample = [cells for _, text, cells, why in whole_rows(head, dialect) if text.strip() and why != NOT_UTF_8]
    widths = Counter(len(cells) for cells in sample if cells)
    width, number = max(widths.items(), key=lambda it: (it[1], it[0]), default=(1, 0))
    later = [cell for cells in sample if cells for cell in cells[1:]]
    if width < 2 or 2 * sum(cell.startswith(" ") for cell in later) > len(later):
        return 0.0
    return number / len(sample)


def _no_columns(name: str, head: Sequence[bytes], rest: Iterable[bytes], data: DataConfig, roles: Roles) -> DataError:
    total = len(head) + sum(1 for _ in rest)
    checked = f"all {total} lines checked" if total > 1 else "its only line"
    if total > len(head):
        checked = f"first {len(head)} of {total:,} lines checked"
    number, line = next(((i, line) for i, line in enumerate(head, 1) if line.strip()), (1, b""))
    mark = asked_separator(data)
    between = f" separated by a {_named(mark)}" if mark else ""
    fixes = [] if mark else [_hint(head, roles)]
    if strange := sum(decode(line) is None for line in head):
        fixes.append(f"{strange:,} of these lines aren't UTF-8; {to_utf8(head)}")
    what = f"{name} has no line with two columns{between} ({checked})\n  line {number}: {shown(undecodable(line))}"
    expected = f"{roles.source}<TAB>{roles.target}, a CSV, JSON lines, or two line-aligned files ({roles.files})"
    return DataError(what, expected=expected, fix="\n  ".join(filter(None, fixes)), name=name, line=number)


def _no_labels(sample: Sample, roles: Roles) -> DataError:
    file, targets = sample.file, roles.plural[1]
    what = f"{file}: it isn't clear which of its {len(sample.names)} columns has the {targets}\n{sample.listing()}"
    columns = f"{targets} that repeat" if roles.labels else "two columns of texts"
    expected = f"a header with {roles.source} and {roles.target}, or {columns}"
    if roles.numbers:
        expected = "a column of texts, and one of numbers"
    fix = "name the columns: `data.source_column=N` and `data.target_column=N`"
    return DataError(what, expected=expected, fix=fix, name=file, value=tuple(sample.titles()))


def _hint(head: Sequence[bytes], roles: Roles) -> str:
    """Suggest a separator if some lines have a character that could be one."""
    words = [line.split(b" ", 1)[0] for line in head if b" " in line.strip()]
    if roles.labels and words and 2 * len(set(words)) <= len(words):
        return f'if the {roles.target} is the first word, set `data.separator=" "`'
    counts = {mark: sum(mark.encode() in line for line in head) for mark in _OTHERS}
    mark = max(counts, key=lambda it: counts[it])
    return f'if the separator is "{mark}", set `data.separator="{mark}"`' if counts[mark] else ""


def _named(separator: str) -> str:
    return _MARKS.get(separator, shown(separator))
