"""Texts in the columns of a terminal, of which a Chinese letter or an emoji takes two and an accent none."""

import html
import textwrap
from collections.abc import Iterable, Iterator
from itertools import chain

from rich.cells import cell_len, chop_cells, set_cell_size

WIDTH = 80  # columns of a terminal


def cut(text: str, width: int) -> str:
    """A text of at most so many columns; one that is longer ends in "…"."""
    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"


def left(text: str, width: int) -> str:
    """A text cut or filled to so many columns, at their left."""
    return set_cell_size(cut(text, width), width)


def right(text: str, width: int) -> str:
    """The same at their right."""
    short = cut(text, width)
    return " " * (width - cell_len(short)) + short


def wrapped(label: str, words: Iterable[str], width: int = WIDTH) -> Iterator[str]:
    """Words behind a label, in lines of so many columns; those below the first are as far in."""
    line, used = label, cell_len(label)
    for word in words:
        if used + cell_len(word) + 1 > width and line.strip():
            yield line.rstrip()
            line, used = " " * cell_len(label), cell_len(label)
        line, used = f"{line}{word} ", used + cell_len(word) + 1
    yield line.rstrip()


def folded(label: str, text: str) -> list[str]:
    """A text behind a label, which keeps the lines that it has and folds those that are too long."""
    lines = [part for line in text.splitlines() or [""] for part in _folds(line, WIDTH - cell_len(label))]
    return [f"{' ' * cell_len(label) if number else label}{line}" for number, line in enumerate(lines)]


def _folds(line: str, width: int) -> list[str]:
    """A line in parts, between words where that can be."""
    # `chop_cells` loses a word that is nothing but an accent.
    parts = (chop_cells(it, width) if cell_len(it) > width else [it] for it in line.split(" "))
    words = chain.from_iterable(parts)
    return [part.strip() for part in wrapped("", words, width)] if cell_len(line) > width else [line]


def noted(view: str, note: str) -> str:
    """A view, and below it what has to be known about it; where that is nothing, the view."""
    return f"{view}\n\n{textwrap.fill(note, WIDTH)}" if note else view


def preformatted(text: str) -> str:
    """A text for notebooks, its columns kept."""
    return f"<pre>{html.escape(text)}</pre>"
