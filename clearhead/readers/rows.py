"""Split lines into rows of cells, with quotes as in RFC 4180.

A quoted field may contain separators, line breaks and doubled quotes. An unclosed quote only affects its own line;
otherwise, a typo could swallow the rest of the file.
"""

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from .lines import decode, undecodable

_MOST_LINES = 1000  # maximum lines of one row
_MOST_LETTERS = 1 << 20  # maximum characters of one row
_RARE = 10  # rows with ordinary quotes are this many times rarer in a table with CSV quoting
_FEW = 3  # fewer lines within quotes may look like rows by chance

# Number of the first line (from 1), text, and cells; None and a reason if the row can't be split.
Row = tuple[int, str, list[str] | None, str]

SEPARATOR_LINE = re.compile(r'"?sep=.?"?[,;\t|]?\s*')  # a first line that Excel writes and reads
NOT_UTF_8, UNCLOSED, STRAY = "not UTF-8", "unclosed quote", "text after a closing quote"


@dataclass(frozen=True)
class Dialect:
    """Rules for splitting lines into cells.

    Args:
        separator: the character between cells.
        quoted: True if quotes are special. Otherwise, they're ordinary characters and every line is a row.
        cuts: maximum number of splits per row; -1 for no limit.
    """

    separator: str
    quoted: bool
    cuts: int = -1

    def spelled(self, cell: str) -> str:
        """Return the text of a cell with quotes if it needs them. Without quotes, it can't have line breaks or tabs."""
        special = "[" + re.escape(self.separator) + r"\r\n" + '"' * self.quoted + "]"
        if not re.search(special, cell):
            return cell
        return '"' + cell.replace('"', '""') + '"' if self.quoted else re.sub(special, " ", cell)

    def replaced(self, record: str, old: Mapping[int, str], new: Mapping[int, str]) -> str | None:
        """Return the text of a row, and what follows it, with other cells, or None if the row can't hold them.

        Args:
            record: all lines of the row, with their ends.
            old: cells by their places.
            new: what replaces them. All other cells stay as they're written.
        """
        lines = record.split("\n")
        row = next(self.rows(it.removesuffix("\r").encode() for it in lines), None)
        if row is None or row[2] is None or any(row[2][place] != cell for place, cell in old.items()):
            return None
        n_lines, cells, mark = row[1].count("\n") + 1, row[2], re.escape(self.separator)
        text = "\n".join(lines[:n_lines]).removesuffix("\r")
        written = text.split(self.separator, self.cuts)
        if self.quoted:
            written = re.findall(f'("(?:[^"]|"")*"|[^{mark}]*){mark}', text + self.separator)
        if len(written) != len(cells):
            return None
        for place, cell in new.items():
            cells[place], spelled = cell, self.spelled(cell)
            again = written[place].startswith('"') and self.quoted and spelled == cell
            written[place] = f'"{cell}"' if again else spelled
        changed = self.separator.join(written)
        found = next(self.rows(it.removesuffix("\r").encode() for it in changed.split("\n")), None)
        return changed + record[len(text) :] if found and found[2] == cells else None

    def rows(self, lines: Iterable[bytes]) -> Iterator[Row]:
        """Yield the rows of lines without their ends. A first line that tells a spreadsheet `sep=;` is skipped."""
        stream, ahead, number = iter(lines), deque[bytes](), 0
        while (line := ahead.popleft() if ahead else next(stream, None)) is not None:
            number += 1
            text = decode(line)
            if text is None:
                yield number, undecodable(line), None, NOT_UTF_8
            elif number == 1 and SEPARATOR_LINE.fullmatch(text):
                continue
            elif not self.quoted or '"' not in text:
                yield number, text, text.split(self.separator, self.cuts), ""
            else:
                cells, reason = _cells(text, self.separator)
                if reason == UNCLOSED and (longer := _closed(text, self.separator, stream, ahead)):
                    text, cells, reason = longer[0], longer[1], ""
                yield number, text, cells, reason
                number += text.count("\n")


def are_quoted(head: Sequence[bytes], separator: str) -> bool:
    """Return whether quotes around cells are those of a CSV writer, in the first lines of a TSV.

    A writer puts quotes around cells with separators, line breaks or quotes, which are doubled, or around every cell.
    In ordinary text, quotes begin or end within a cell.
    """
    found = [row for row in Dialect(separator, quoted=True).rows(head) if row[1]]
    widths = Counter(len(cells) for _, _, cells, _ in found if cells)
    width = max(widths, key=lambda it: widths[it], default=0)
    needed = against = n_full = 0
    for _, text, cells, _ in found:
        if '"' not in text:
            continue
        around = text.count('"') - 2 * sum(cell.count('"') for cell in cells or ())  # quotes around cells
        if cells is None or len(cells) != width or around < 2 * sum('"' in cell for cell in cells):
            against += 1
            continue
        needed += any({separator, '"', "\n"} & {*cell} for cell in cells)
        n_full += around == 2 * width
    return against * _RARE <= needed if needed else n_full == len(found) >= _FEW


def _closed(text: str, separator: str, stream: Iterator[bytes], ahead: deque[bytes]) -> tuple[str, list[str]] | None:
    """Return the row that begins with `text` and ends on a later line, or None.

    Lines read ahead from `stream` are kept in `ahead`; those of the row are removed from it.
    """
    parts, letters = [text], len(text)
    while len(parts) < _MOST_LINES and letters < _MOST_LETTERS:
        if len(parts) > len(ahead):
            following = next(stream, None)
            if following is None:
                return None
            ahead.append(following)
        part = decode(ahead[len(parts) - 1])
        if part is None:
            return None
        parts.append(part)
        letters += len(part)
        if part.count('"') % 2:  # otherwise the line ends within the quotes
            whole = "\n".join(parts)
            cells, reason = _cells(whole, separator)
            if cells is not None:
                if _swallows_rows(parts[1:-1], len(cells), separator):
                    return None
                for _ in parts[1:]:
                    ahead.popleft()
                return whole, cells
            if reason == STRAY:
                return None
    return None


def _swallows_rows(lines: list[str], n_cells: int, separator: str) -> bool:
    """Return whether the lines within quotes are rows themselves, so the two quotes aren't a pair.

    A separator followed by a space is punctuation.
    """
    each = [_cells(line, separator)[0] or [] for line in lines]
    rows = all(len(cells) == n_cells and all(map(str.strip, cells)) for cells in each)
    return len(lines) >= _FEW and rows and not any(cell[0] == " " for cells in each for cell in cells[1:])


def _cells(text: str, separator: str) -> tuple[list[str] | None, str]:
    """Return the cells of one row, or None and the reason."""
    cells, at = [], 0
    while True:
        if text.startswith('"', at):
            end = text.find('"', at + 1)
            while end >= 0 and text.startswith('"', end + 1):
                end = text.find('"', end + 2)
            if end < 0:
                return None, UNCLOSED
            cells.append(text[at + 1 : end].replace('""', '"'))
            at = end + 1
            if at < len(text) and text[at] != separator:
                return None, STRAY
        else:
            end = text.find(separator, at)
            end = len(text) if end < 0 else end
            cells.append(text[at:end])
            at = end
        if at == len(text):
            return cells, ""
        at += 1
