"""Running text for training, re-read from files as needed. Its end is held out."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Self

from ..readers.documents import Documents, Piece
from ..readers.skipped import Report
from .corpus import SpacedTexts, in_chunks

_LETTERS = 1 << 21  # maximum characters of the pieces tokenized at once
_LEARN = 1 << 27  # characters that a tokenizer learns from; more wouldn't change the vocabulary


@dataclass(frozen=True)
class Running:
    """Pieces of documents in memory."""

    pieces: list[Piece]
    report: Report

    def __len__(self) -> int:
        return len(self.pieces)

    @property
    def texts(self) -> list[str]:
        """The text of each piece."""
        return [piece.text for piece in self.pieces]


def beginning(pieces: Iterable[Piece], letters: int) -> Iterator[Piece]:
    """Yield the pieces up to this many characters."""
    for piece in pieces:
        if letters <= 0:
            return
        yield piece if len(piece.text) <= letters else piece.before(letters)
        letters -= len(piece.text)


@dataclass(frozen=True)
class TextCorpus:
    """Documents whose end is held out. A random part would be too similar to the text around it."""

    source: Documents
    letters: int  # number of training characters, from the beginning
    count: int  # number of training pieces
    held: Running
    note: str  # on what was held out

    @classmethod
    def of(cls, source: Documents, share: float) -> Self:
        """Hold out the last share of all characters, rounded to the start of the next line.

        If there's no next line, the held-out part starts at the last line. A text of a single line is split within it.
        """
        total = count = 0
        for piece in source:
            total, count = total + len(piece.text), count + 1
        if not share or total < 2:
            why = "data.split is 0" if not share else f"the text has {total} character{'s' * (total != 1)}"
            return cls(source, total, count, Running([], source.report), f"nothing held out: {why}")
        place = _line_begin(source, min(max(1, total - round(share * total)), total - 1))
        held, where, count = _after(source, place)
        note = f"held out the last {total - place:,} of {total:,} characters, from {where} on"
        return cls(source, place, count, Running(held, source.report), note)

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Piece]:
        return beginning(self.source, self.letters)

    def held_out(self) -> Running:
        return self.held

    def chunks(self) -> Iterator[Running]:
        yield from running_chunks(self, self.source.report)

    def texts(self) -> tuple[SpacedTexts, tuple[()]]:
        """Return the pieces that a tokenizer learns from: all, or evenly spaced ones."""
        return SpacedTexts(self, max(self.count * _LEARN // max(self.letters, 1), 1), attrgetter("text")), ()


def running_chunks(pieces: Iterable[Piece], report: Report) -> Iterator[Running]:
    """Yield the pieces in chunks."""
    for chunk in in_chunks(pieces, lambda piece: len(piece.text), _LETTERS):
        yield Running(chunk, report)


def _line_begin(pieces: Iterable[Piece], place: int) -> int:
    """Return the start of the first line at or after a position in the whole text, or else of the last line before."""
    begin = line = 0  # of the piece, and of the last line before the position in the same document
    for piece in pieces:
        if piece.first:
            if begin >= place:
                return begin
            line = begin
        end = begin + len(piece.text)
        if end >= place:
            found = piece.text.find("\n", max(place - 1 - begin, 0)) + 1
            if 0 < found < len(piece.text) or (found and not piece.last):
                return begin + found
        line = begin + (piece.text.rfind("\n", 0, max(place - begin, 0)) + 1 or line - begin)
        begin = end
    return line or place


def _after(pieces: Iterable[Piece], place: int) -> tuple[list[Piece], str, int]:
    """Return the text from a position on, its file and line as a phrase, and the number of pieces before it."""
    held, where, count, begin, line = list[Piece](), "", 0, 0, 1
    for piece in pieces:
        line = 1 if piece.first else line
        cut = max(place - begin, 0)
        count += cut > 0
        if cut < len(piece.text):
            held.append(piece.after(cut) if cut else piece)
            line += piece.text.count("\n", 0, cut)
            where = where or (piece.name if held[0].first else f"{piece.name} line {line:,}")
        else:
            line += piece.text.count("\n")
        begin += len(piece.text)
    return held, where, count
