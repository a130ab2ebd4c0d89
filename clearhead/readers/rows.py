"""Lines to rows of cells: split at the separator, with quotes as RFC 4180 has them where they mean something.

A quoted field may hold separators, line breaks, and quotes that are doubled. A quote that is never closed costs its own
line and no other: were it looked for to the end of the file, one slip of a typist would swallow the rest of it.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator

from .lines import decode, undecodable

_MOST_LINES = 1000  # of one row
_MOST_LETTERS = 1 << 20
_FEW = 3  # lines of a quoted text may look like rows by chance

# First line (from 1), its text, and the cells; None and a reason where there are none to be had.
Row = tuple[int, str, list[str] | None, str]

_SEPARATOR = re.compile(r'"?sep=.?"?[,;\t|]?\s*')  # a first line as Excel writes and reads it: no row
NOT_UTF_8, UNCLOSED, STRAY = "not UTF-8", "unclosed quote", "text after a closing quote"


def rows(lines: Iterable[bytes], separator: str, *, quoted: bool, cuts: int = -1) -> Iterator[Row]:
    """The rows of a table; without `quoted` a quote is a letter like others, and every line a row, which is cut at most
    `cuts` times if that is not negative. A first line that tells the separator to a spreadsheet (sep=;) is passed over.
    """
    stream, ahead, number = iter(lines), deque[bytes](), 0
    while (line := ahead.popleft() if ahead else next(stream, None)) is not None:
        number += 1
        text = decode(line)
        if text is None:
            yield number, undecodable(line), None, NOT_UTF_8
        elif number == 1 and _SEPARATOR.fullmatch(text):
            continue
        elif not quoted or '"' not in text:
            yield number, text, text.split(separator, cuts), ""
        else:
            cells, reason = _cells(text, separator)
            if reason == UNCLOSED and (longer := _closed(text, separator, stream, ahead)):
                text, cells, reason = longer[0], longer[1], ""
            yield number, text, cells, reason
            number += text.count("\n")


def _closed(text: str, separator: str, stream: Iterator[bytes], ahead: deque[bytes]) -> tuple[str, list[str]] | None:
    """The row that begins with `text` and ends on a later line, which is then taken from `ahead`, or None.

    `ahead` holds the lines of `stream` that were looked at.
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
        if part.count('"') % 2:  # otherwise it ends inside of quotes, as it began
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
    """Whether what seems to be inside of quotes are rows themselves: then two slips, far apart, look like a pair.

    A separator with a space behind it is a text's own.
    """
    each = [_cells(line, separator)[0] or [] for line in lines]
    rows = all(len(cells) == n_cells and all(map(str.strip, cells)) for cells in each)
    return len(lines) >= _FEW and rows and not any(cell[0] == " " for cells in each for cell in cells[1:])


def _cells(text: str, separator: str) -> tuple[list[str] | None, str]:
    """The cells of one row, or None and the reason."""
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
