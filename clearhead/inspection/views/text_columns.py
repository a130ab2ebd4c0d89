"""Fit text into terminal columns. Chinese characters and emoji take two columns, combining accents none."""

import html
import textwrap
from collections.abc import Iterable, Iterator
from itertools import chain

from rich.cells import cell_len, chop_cells, set_cell_size

WIDTH = 80  # columns of a terminal
_LARGE = 1000  # numbers from here on have five digits
_BAR = 16  # columns of the longest bar


def cut(text: str, width: int) -> str:
    """Cut a text to `width` columns. If anything was cut, the result ends in "…"."""
    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"


def left(text: str, width: int) -> str:
    """Cut or pad a text to exactly `width` columns, aligned left."""
    return set_cell_size(cut(text, width), width)


def right(text: str, width: int) -> str:
    """Cut or pad a text to exactly `width` columns, aligned right."""
    short = cut(text, width)
    return " " * (width - cell_len(short)) + short


def wrapped(label: str, words: Iterable[str], width: int = WIDTH) -> Iterator[str]:
    """Yield lines of words after a label. All lines after the first are indented by the label's width.

    Args:
        label: what the first line begins with, such as "keys: ".
        words: the words. A line break can come between any two.
        width: the maximum number of columns.
    """
    line, used = label, cell_len(label)
    for word in words:
        if used + cell_len(word) + 1 > width and line.strip():
            yield line.rstrip()
            line, used = " " * cell_len(label), cell_len(label)
        line, used = f"{line}{word} ", used + cell_len(word) + 1
    yield line.rstrip()


def folded(label: str, text: str) -> list[str]:
    """Return the lines of a text after a label. Line breaks are kept, and long lines are folded."""
    lines = [part for line in text.splitlines() or [""] for part in _folds(line, WIDTH - cell_len(label))]
    return [f"{' ' * cell_len(label) if number else label}{line}" for number, line in enumerate(lines)]


def _folds(line: str, width: int) -> list[str]:
    """Split a line, between words if possible."""
    # `chop_cells` drops a word that consists of an accent only
    parts = (chop_cells(it, width) if cell_len(it) > width else [it] for it in line.split(" "))
    words = chain.from_iterable(parts)
    return [part.strip() for part in wrapped("", words, width)] if cell_len(line) > width else [line]


def signed(value: float, width: int = 0) -> str:
    """Return a number with its sign, and four decimals if it isn't a large one."""
    return f"{value:>+{width}.4f}" if abs(value) < _LARGE else f"{value:>+{width}.5g}"


def bar(value: float, largest: float) -> str:
    """Return a bar to the right of a line if a value is positive, otherwise to its left."""
    size = round(_BAR * abs(value) / largest)
    return f"{'<' * size:>{_BAR}}|" if value < 0 else f"{'':{_BAR}}|{'>' * size}"


def with_note(view: str, note: str) -> str:
    """Return a view with a note below it, if there is one."""
    return f"{view}\n\n{textwrap.fill(note, WIDTH)}" if note else view


def preformatted(text: str) -> str:
    """Return a text as HTML that keeps its columns."""
    return f"<pre>{html.escape(text)}</pre>"
