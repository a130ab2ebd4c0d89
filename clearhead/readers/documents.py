"""Running text for language models: text files, folders of them, or JSON Lines with a text on each line.

The text is unchanged, including whitespace and line ends. Lines that aren't UTF-8 are skipped and reported, and so are
files in a folder that aren't text.
"""

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..config import DataConfig
from ..errors import DataError
from .files import Input, broken_links, is_folder, tree
from .json_lines import half_a_character, read_object, value_at
from .lines import (
    controls_note,
    count_controls,
    decode,
    read_blocks,
    read_head,
    read_lines,
    shown,
    to_utf8,
    undecodable,
)
from .skipped import Report
from .source import Source, as_paths

_KEY = "text"  # default key of a document in a JSON object
_MOST = 0.5  # maximum share of unreadable lines in a text file
_SHOWN = 20  # skipped files listed in the report
_PIECE = 1 << 17  # maximum number of characters tokenized together
_JSON_ARRAY = "{} is a JSON array and is used as plain text; to use the texts in it, convert it with: jq -c '.[]' FILE"


@dataclass(frozen=True)
class Piece:
    """Part of a document: at most 131,072 characters, ending at a line end if there is one.

    `name` is the name of the file, with a line number if the file contains several documents. `line` is the line at
    which the piece begins, counted over all files. Pieces of a JSON string are `escaped`: their whole text is on one
    line.
    """

    name: str
    text: str
    line: int = 1
    first: bool = True  # of its document
    last: bool = True
    escaped: bool = False

    def before(self, place: int) -> "Piece":
        """Return the piece before a position, where the document continues."""
        return replace(self, text=self.text[:place], last=False)

    def after(self, place: int) -> "Piece":
        """Return the piece from a position on."""
        line = self.line if self.escaped else self.line + self.text.count("\n", 0, place)
        return replace(self, text=self.text[place:], line=line, first=False)


class Documents(Source):
    """The documents of files, folders or standard input, which can be read repeatedly.

    with Documents("books", DataConfig()) as documents:
        for piece in documents: ...
        print(documents.report)  # of the last complete pass

    A file is one document. In JSON Lines, each line is a document, with its text at the key "text" or at
    `data.source_column`. One piece is in memory at a time. Files in a folder that aren't text are skipped and reported.

    Raises:
        DataError: there's no text, or a named file isn't text.
    """

    def __init__(self, data_or_paths: Any, data: DataConfig | None = None) -> None:
        paths = as_paths(data_or_paths)
        if not paths:
            raise DataError("no text was given", expected="a text file, a folder of them, or - for standard input")
        self._key = tuple((data.source_column if data and data.source_column else _KEY).split("."))
        self._named = {str(path) for path in paths if isinstance(path, Input) or not is_folder(Path(path))}
        self._files = [file for path in paths for file in tree(path)]
        super().__init__(paths, [self._files])
        self._broken = [f"{link} is a broken link" for path in paths for link in broken_links(path)]

    def __iter__(self) -> Iterator[Piece]:
        report, skipped, forms = Report(self.report.paths, most=self.report.most), [*self._broken], set()
        letters = n_documents = n_controls = 0
        for file in self._files:
            before, begun = report.lines, n_documents
            try:
                is_json = _is_json_lines(file, self._key)
                for piece in _from_json(file, self._key, report) if is_json else _from_text(file, report):
                    n_documents, letters = n_documents + piece.first, letters + len(piece.text)
                    n_controls += count_controls(piece.text)
                    yield piece
            except DataError as error:
                if len(self._files) == 1 or file.name in self._named or n_documents > begun:
                    raise
                skipped.append(error.what.splitlines()[0])
                continue
            if not is_json and file.name in self._named and _is_json_array(file):
                report.notes.append(_JSON_ARRAY.format(file.name))
            forms.add(f"JSON lines with {'.'.join(self._key)}" if is_json else "text")
            if len(self._files) > 1:
                report.files.append((file.name, before))
        counts = f"{letters:,} characters in {n_documents:,} document{'s' * (n_documents != 1)}"
        report.form = f"{' and '.join(sorted(forms))}, {counts}"
        if skipped:
            some = "".join(f"\n    {it}" for it in skipped[:_SHOWN])
            some += f"\n    and {len(skipped) - _SHOWN:,} more" if len(skipped) > _SHOWN else ""
            of = len(self._files) + len(self._broken)
            report.notes.append(f"skipped {len(skipped):,} of {of:,} files:{some}")
        if n_controls:
            report.notes.append(controls_note(n_controls, "passages"))
        if not letters:
            name = " and ".join(report.paths)
            raise DataError(f"no text in {name}\n  {report}", name=name)
        self.report = report


def _is_json_array(file: Input) -> bool:
    """Return whether the file begins like an array of objects."""
    head = b"".join(line for line in read_head(file))
    return re.match(rb"\s*\[\s*\{\s*\"", head) is not None


def _is_json_lines(file: Input, key: Sequence[str]) -> bool:
    """Return whether most of the first lines are objects. Raise a DataError if they have no text."""
    head = [line for line in read_head(file) if line.strip()]
    objects = [values for line in head if (values := read_object(line)[0]) is not None]
    if 2 * len(objects) <= len(head):
        return False
    if not any(isinstance(value_at(values, key)[0], str) for values in objects):
        name = ".".join(key)
        what = f"{file.name} has JSON objects without a string in {name!r}\n  the first: {shown(undecodable(head[0]))}"
        expected = f"one on each line: {json.dumps({name: '…'}, ensure_ascii=False)}"
        fix = "name the key of the text: `data.source_column=KEY`"
        raise DataError(what, expected=expected, fix=fix, name=file.name, value=name)
    return True


def _from_json(file: Input, key: Sequence[str], report: Report) -> Iterator[Piece]:
    before = report.lines
    for number, line in enumerate(read_lines(file), 1):
        report.lines += 1
        values, why = read_object(line)
        text, missing = value_at(values, key) if values is not None else ("", why)
        if reason := missing or _unusable(line, text, ".".join(key)):
            report.skip(before + number, reason, undecodable(line))
        else:
            report.used += 1
            yield from pieces_of(f"{file.name} line {number}", [text], before + number, escaped=True)


def _unusable(line: bytes, text: object, key: str) -> str | None:
    """Return the reason why the value at the key isn't usable as a document, or None."""
    if not isinstance(text, str):
        return f"no string in {key}"
    if not text.strip():
        return "empty text"
    return "NUL character" if "\0" in text else half_a_character(line, text)


def _from_text(file: Input, report: Report) -> Iterator[Piece]:
    """Yield the file as one document, without unreadable lines. Raise a DataError if most lines are unreadable."""
    found, is_blank = Report((), lines=report.lines), True
    for lines in read_blocks(file):  # check the whole file first, so that nothing of a binary file is used
        is_blank &= not _readable(lines, found).strip()
    n_lines, n_bad = found.lines - report.lines, sum(found.skipped.values())
    if n_bad > _MOST * n_lines:
        what = f"{file.name} isn't UTF-8 text: {n_bad:,} of its {n_lines:,} lines can't be read"
        raise DataError(what, fix=to_utf8(read_lines(file)), name=file.name)
    parts = (_readable(lines, report) for lines in read_blocks(file))
    if is_blank:
        deque(parts, maxlen=0)  # only count its lines
    else:
        yield from pieces_of(file.name, parts, report.lines + 1)


def _readable(lines: Sequence[bytes], report: Report) -> str:
    """Return the text of readable lines, and count readable and unreadable ones."""
    text = decode(b"".join(lines))
    if text is not None and "\0" not in text:
        report.lines, report.used = report.lines + len(lines), report.used + len(lines)
        return text
    texts = list[str]()
    for line in lines:
        report.lines += 1
        text = decode(line)
        if text is not None and "\0" not in text:
            report.used += 1
            texts.append(text)
        else:
            reason = "NUL character" if b"\0" in line else "not UTF-8"
            report.skip(report.lines, reason, undecodable(line.rstrip(b"\r\n")))
    return "".join(texts)


def pieces_of(name: str, parts: Iterable[str], line: int, *, escaped: bool = False) -> Iterator[Piece]:
    """Split a document into pieces.

    Args:
        name: name of the file, with a line if it has several documents.
        parts: the text of the document, in parts of any size.
        line: the line on which the document starts, counted over all files.
        escaped: True if the whole text is on that line, as a JSON string.
    """
    piece = None
    for text in _sized(parts):
        if piece is not None:
            yield replace(piece, last=False)
            line += 0 if escaped else piece.text.count("\n")
        piece = Piece(name, text, line, first=piece is None, escaped=escaped)
    if piece is not None:
        yield piece


def _sized(parts: Iterable[str]) -> Iterator[str]:
    """Yield the text in parts of the right size, split at line ends if possible."""
    held, size = list[str](), 0
    for part in parts:
        held.append(part)
        size += len(part)
        if size <= _PIECE:
            continue
        text, start = "".join(held), 0
        while len(text) - start > _PIECE:
            end = start + _PIECE
            end = text.rfind("\n", start, end) + 1 or end
            yield text[start:end]
            start = end
        held, size = [text[start:]], len(text) - start
    if size:
        yield "".join(held)
