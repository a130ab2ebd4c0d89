"""Running text in pieces, told apart into what is trained on and what is held out."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

from .documents import Document
from .report import Report

_PIECE = 1 << 17  # letters that are cut into tokens together
_CHUNK = 64  # pieces that are in memory as tokens together


@dataclass(frozen=True)
class Running:
    """Pieces of documents, each up to the end of a line; which are the first and the last of their documents."""

    pieces: list[str]
    first: list[bool]
    last: list[bool]
    lines: list[int]  # where each piece begins, counted over all files
    report: Report

    def __len__(self) -> int:
        return len(self.pieces)

    @classmethod
    def of(cls, documents: Iterable[Document], report: Report, *, begins: bool = True, ends: bool = True) -> Self:
        """Documents cut into pieces; without `begins` the first is the rest of one, without `ends` the last goes on."""
        found = cls([], [], [], [], report)
        for document in documents:
            line = document.line
            for number, piece in enumerate(pieces := list(_pieces(document.text))):
                found.pieces.append(piece)
                found.first.append(number == 0)
                found.last.append(number == len(pieces) - 1)
                found.lines.append(line)
                line += 0 if document.escaped else piece.count("\n")
        if found.pieces and not begins:
            found.first[0] = False
        if found.pieces and not ends:
            found.last[-1] = False
        return found

    def chunks(self) -> Iterator["Running"]:
        """The same in parts."""
        for i in range(0, len(self), _CHUNK):
            some = slice(i, i + _CHUNK)
            yield Running(self.pieces[some], self.first[some], self.last[some], self.lines[some], self.report)

    def beginning(self, letters: int) -> "Running":
        """The first pieces, so many letters of them."""
        kept, left = Running([], [], [], [], self.report), letters
        for piece, first, last, line in zip(self.pieces, self.first, self.last, self.lines):
            if left <= 0:
                break
            kept.pieces.append(piece[:left])
            kept.first.append(first)
            kept.last.append(last and len(piece) <= left)
            kept.lines.append(line)
            left -= len(piece)
        return kept


def _pieces(text: str) -> Iterator[str]:
    """A text cut at line ends, or where there is none for long, anywhere."""
    start = 0
    while start < len(text):
        end = start + _PIECE
        if end < len(text):
            end = text.rfind("\n", start, end) + 1 or end
        yield text[start:end]
        start = end
