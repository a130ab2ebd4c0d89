"""Running text, for language models: files and folders of text, or JSON lines with a text each.

Nothing is changed in it: white space and line ends stay. A line that is no UTF-8 is left out, counted and shown; of a
folder, so is a file that is no text.
"""

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from ..config import DataConfig
from ..errors import DataError
from .files import STDIN, Input, bytes_digest, dangling, expect_digest, is_folder, tree
from .json_lines import half_a_character, read_object, value_at
from .lines import LOOK, decode, read_blocks, read_lines, shown, undecodable
from .skipped import Report

_KEY = "text"  # of an object that is a document
_MOST = 0.5  # of the lines of a file are unreadable; where more are, it is no text
_SHOWN = 20  # files that are passed over
_PIECE = 1 << 17  # letters that are cut into tokens together
_LEARNT_AS_IT_STANDS = "{} is a list of JSON, learnt as it stands; for the texts in it: jq -c '.[]' FILE"


@dataclass(frozen=True)
class Piece:
    """Some of a document: 131,072 letters at most, which end with a line where one ends in them.

    `name` is that of its file, with the line if the document is one of many. `line` is where the piece begins, counted
    over all files; of a text that is a JSON string all stands there, `escaped`.
    """

    name: str
    text: str
    line: int = 1
    first: bool = True  # of its document
    last: bool = True
    escaped: bool = False

    def before(self, place: int) -> "Piece":
        """The letters before a place in it, where the document goes on."""
        return replace(self, text=self.text[:place], last=False)

    def behind(self, place: int) -> "Piece":
        """The rest from that place on."""
        line = self.line if self.escaped else self.line + self.text.count("\n", 0, place)
        return replace(self, text=self.text[place:], line=line, first=False)


class Documents:
    """The documents of files, of folders with all that is in them, or of standard input; each as often as wanted.

    with Documents(["books"], DataConfig()) as documents:
        for piece in documents: ...
        print(documents.report)  # of the last reading that came to its end

    A file is one document, or many where it holds JSON lines: then the text is at the key "text", or at that which
    `data.source_column` names. One piece is in memory at a time. A DataError where there is no text to be had, and
    where a file that is named is none; a file in a folder is passed over then, which the report says.
    """

    def __init__(self, paths: Sequence[str | Path | Input], data: DataConfig | None = None) -> None:
        if not paths:
            raise DataError("no text is named; expected a file of text, a folder of such, or - for standard input")
        if [str(path) for path in paths].count(STDIN) > 1:
            raise DataError("standard input, -, was named twice; it is read to its end by the first of them")
        self._key = tuple((data.source_column if data and data.source_column else _KEY).split("."))
        self._named = {str(path) for path in paths if isinstance(path, Input) or not is_folder(Path(path))}
        self._files = [file for path in paths for file in tree(path)]
        self._nowhere = [f"{link} is a link to nothing" for path in paths for link in dangling(path)]
        self.report = Report(tuple(path.name if isinstance(path, Input) else Input(path).name for path in paths))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of what was copied."""
        for file in self._files:
            file.close()

    def digest(self) -> str:
        """SHA-256 of the bytes of all files."""
        return bytes_digest([self._files])

    def expect_digest(self, digest: str) -> None:
        """A DataError where the files hold other bytes by now than those of an earlier `digest`."""
        expect_digest([self._files], digest, self.report.paths)

    def __iter__(self) -> Iterator[Piece]:
        report, passed_over, forms = Report(self.report.paths), [*self._nowhere], set()
        letters = n_documents = 0
        for file in self._files:
            before, begun = report.lines, n_documents
            try:
                is_json = _is_json_lines(file, self._key)
                for piece in _from_json(file, self._key, report) if is_json else _from_text(file, report):
                    n_documents, letters = n_documents + piece.first, letters + len(piece.text)
                    yield piece
            except DataError as error:
                if len(self._files) == 1 or file.name in self._named or n_documents > begun:
                    raise
                passed_over.append(str(error).splitlines()[0])
                continue
            if not is_json and file.name in self._named and _is_json_array(file):
                report.notes.append(_LEARNT_AS_IT_STANDS.format(file.name))
            forms.add(f"JSON lines with {'.'.join(self._key)}" if is_json else "text")
            if len(self._files) > 1:
                report.files.append((file.name, before))
        counts = f"{letters:,} characters in {n_documents:,} document{'s' * (n_documents != 1)}"
        report.form = f"{' and '.join(sorted(forms))}, {counts}"
        if passed_over:
            some = "".join(f"\n    {said}" for said in passed_over[:_SHOWN])
            some += f"\n    and {len(passed_over) - _SHOWN:,} more" if len(passed_over) > _SHOWN else ""
            of = len(self._files) + len(self._nowhere)
            report.notes.append(f"passed over {len(passed_over):,} of {of:,} files:{some}")
        if not letters:
            raise DataError(f"no text in {' and '.join(report.paths)}\n  {report}")
        self.report = report


def _is_json_array(file: Input) -> bool:
    """Whether it begins as a list of objects does, in one line or in several."""
    head = b"".join(line for line in itertools.islice(read_lines(file), LOOK))
    return re.match(rb"\s*\[\s*\{\s*\"", head) is not None


def _is_json_lines(file: Input, key: Sequence[str]) -> bool:
    """Whether most of the first lines are objects; a DataError where these have no text."""
    head = [line for line in itertools.islice(read_lines(file), LOOK) if line.strip()]
    objects = [values for line in head if (values := read_object(line)[0]) is not None]
    if 2 * len(objects) <= len(head):
        return False
    if not any(isinstance(value_at(values, key)[0], str) for values in objects):
        name = ".".join(key)
        raise DataError(
            f"{file.name} has JSON objects without a string in {name}; expected one on each line, "
            f"{json.dumps({name: '…'}, ensure_ascii=False)}, or: --source-column KEY\n  the first: "
            f"{shown(undecodable(head[0]))}"
        )
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
    """Why what stands at the key is no document, or None."""
    if not isinstance(text, str):
        return f"no string in {key}"
    if not text.strip():
        return "empty text"
    return "NUL character" if "\0" in text else half_a_character(line, text)


def _from_text(file: Input, report: Report) -> Iterator[Piece]:
    """The file as one document, without the lines that cannot be read. A DataError where these are the most."""
    found, is_blank = Report((), lines=report.lines), True
    for lines in read_blocks(file):  # once to the end: of a file that is no text, nothing is learnt
        is_blank &= not _readable(lines, found).strip()
    n_lines, n_bad = found.lines - report.lines, sum(found.skipped.values())
    if n_bad > _MOST * n_lines:
        raise DataError(
            f"{file.name} is no text in UTF-8: {n_bad:,} of its {n_lines:,} lines cannot be read; "
            "to convert: iconv -f LATIN1 -t UTF-8"
        )
    begin = report.lines + 1
    report.add(found)
    if not is_blank:
        yield from pieces_of(file.name, (_readable(lines, Report(())) for lines in read_blocks(file)), begin)


def _readable(lines: Sequence[bytes], report: Report) -> str:
    """The lines that are text, which are counted, and so are the others."""
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
    """The pieces of a document whose text comes in parts, and begins in a line."""
    piece = None
    for text in _sized(parts):
        if piece is not None:
            yield replace(piece, last=False)
            line += 0 if escaped else piece.text.count("\n")
        piece = Piece(name, text, line, first=piece is None, escaped=escaped)
    if piece is not None:
        yield piece


def _sized(parts: Iterable[str]) -> Iterator[str]:
    """A text in other parts: cut at line ends, or where there is none for long, anywhere."""
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
