"""Running text, for language models: files and folders of text, or JSON lines with a text each.

Nothing is changed in it: white space and line ends stay. A line that is no UTF-8 is left out, counted and shown; of a
folder, so is a file that is no text.
"""

import io
import itertools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from ..config import DataConfig
from ..errors import DataError
from .files import STDIN, Input, bytes_digest, dangling, expect_digest, is_folder, tree
from .json_lines import half_a_character, read_object, value_at
from .lines import LOOK, decode, read_lines, read_whole, shown, undecodable
from .report import Report

_KEY = "text"  # of an object that is a document
_MOST = 0.5  # of the lines of a file are unreadable; where more are, it is no text
_SHOWN = 3  # files that are passed over
_LEARNT_AS_IT_STANDS = "{} is a list of JSON, learnt as it stands; for the texts in it: jq -c '.[]' FILE"


@dataclass(frozen=True)
class Document:
    """A text and what it is called: its file, and the line if it is one of many.

    `line` is where it begins, counted over all files; of a text that is a JSON string all stands there, `escaped`.
    """

    name: str
    text: str
    line: int = 1
    escaped: bool = False

    def behind(self, place: int) -> "Document":
        """The rest from a place on."""
        line = self.line if self.escaped else self.line + self.text.count("\n", 0, place)
        return Document(self.name, self.text[place:], line, self.escaped)


class Documents:
    """The documents of files, of folders with all that is in them, or of standard input; each as often as wanted.

    with Documents(["books"], DataConfig()) as documents:
        for document in documents: ...
        print(documents.report)  # of the last reading that came to its end

    A file is one document, or many where it holds JSON lines: then the text is at the key "text", or at that which
    `data.source_column` names. One document is in memory at a time. A DataError where there is no text to be had, and
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

    def __iter__(self) -> Iterator[Document]:
        report, passed_over, forms = Report(self.report.paths), [*self._nowhere], set()
        letters = n_documents = 0
        for file in self._files:
            before, begun = report.lines, n_documents
            try:
                is_json = _is_json_lines(file, self._key)
                for document in _from_json(file, self._key, report) if is_json else _from_text(file, report):
                    n_documents, letters = n_documents + 1, letters + len(document.text)
                    yield document
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


def _from_json(file: Input, key: Sequence[str], report: Report) -> Iterator[Document]:
    before = report.lines
    for number, line in enumerate(read_lines(file), 1):
        report.lines += 1
        values, why = read_object(line)
        text, missing = value_at(values, key) if values is not None else ("", why)
        if reason := missing or _unusable(line, text, ".".join(key)):
            report.skip(before + number, reason, undecodable(line))
        else:
            report.used += 1
            yield Document(f"{file.name} line {number}", text, before + number, escaped=True)


def _unusable(line: bytes, text: object, key: str) -> str | None:
    """Why what stands at the key is no document, or None."""
    if not isinstance(text, str):
        return f"no string in {key}"
    if not text.strip():
        return "empty text"
    return "NUL character" if "\0" in text else half_a_character(line, text)


def _from_text(file: Input, report: Report) -> Iterator[Document]:
    """The file as one document, without the lines that cannot be read."""
    content = read_whole(file)
    n_lines = content.count(b"\n") + (not content.endswith(b"\n"))
    text = None if b"\0" in content else decode(content)
    if text is None:
        text = _readable(file.name, io.BytesIO(content).readlines(), report)
    else:
        report.used += n_lines
    begin = report.lines + 1
    report.lines += n_lines
    if text.strip():
        yield Document(file.name, text, begin)


def _readable(name: str, lines: Sequence[bytes], report: Report) -> str:
    """The lines that are text; the others are counted. A DataError where these are the most."""
    texts = [None if b"\0" in line else decode(line) for line in lines]
    bad = [number for number, text in enumerate(texts) if text is None]
    if len(bad) > _MOST * len(lines):
        raise DataError(
            f"{name} is no text in UTF-8: {len(bad):,} of its {len(lines):,} lines cannot be read; "
            "to convert: iconv -f LATIN1 -t UTF-8"
        )
    for number in bad:
        reason = "NUL character" if b"\0" in lines[number] else "not UTF-8"
        report.skip(report.lines + number + 1, reason, undecodable(lines[number].rstrip(b"\r\n")))
    report.used += len(lines) - len(bad)
    return "".join(text for text in texts if text is not None)


@dataclass(frozen=True)
class TextSplit:
    """Documents to train on, and those that are held out; how many letters the latter have, and that in words."""

    train: list[Document]
    held_out: list[Document]
    note: str


def split_documents(documents: Sequence[Document], share: float) -> TextSplit:
    """Hold out the last `share` of all code points, from the next line on.

    By position, and not by chance: neighbours in a text are alike. Where no line begins in the last part, it begins
    with the last line before; a text of one line is cut in its middle.
    """
    total = sum(len(document.text) for document in documents)
    if not share or total < 2:
        why = "no share is asked for" if not share else f"the text has {total} character{'s' * (total != 1)}"
        return TextSplit([*documents], [], f"nothing held out: {why}")
    number, place = _cut(documents, min(max(1, total - round(share * total)), total - 1))
    cut = documents[number]
    train = [*documents[:number], *([replace(cut, text=cut.text[:place])] if place else [])]
    held_out = [cut.behind(place), *documents[number + 1 :]]
    size = sum(len(document.text) for document in held_out)
    line = cut.text.count("\n", 0, place) + 1
    where = f"{cut.name} line {line:,}" if place else cut.name
    return TextSplit(train, held_out, f"held out the last {size:,} of {total:,} characters, from {where} on")


def _cut(documents: Sequence[Document], place: int) -> tuple[int, int]:
    """The document, and the place in it, where a line begins at a place of the whole text or soon after."""
    number = 0
    while place >= len(documents[number].text):
        place -= len(documents[number].text)
        number += 1
    text = documents[number].text
    if place == 0:
        return number, 0
    begin = text.find("\n", place - 1) + 1
    if 0 < begin < len(text):
        return number, begin
    if number + 1 < len(documents):
        return number + 1, 0
    begin = text.rfind("\n", 0, place) + 1
    return number, begin if begin or number else place
