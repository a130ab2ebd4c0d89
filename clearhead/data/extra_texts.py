"""Additional plain texts (`data.texts`), which a warm start learns from together with a task's data."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..config import DataConfig
from ..errors import DataError
from ..readers.documents import Documents
from ..readers.files import tree
from ..readers.skipped import Report
from ..readers.source import Source
from .forms import Divided, Form, Texts
from .running_text import Running, running_chunks

_TOGETHER = 4096  # texts in a chunk
_TABLES = {".csv", ".tsv"}


@dataclass(frozen=True)
class PlainTexts:
    """A chunk of plain texts."""

    texts: Sequence[str]

    def __len__(self) -> int:
        return len(self.texts)


def open_texts(paths: Sequence[str], data: DataConfig, *, whole: bool = False) -> Documents:
    """Open text files.

    Args:
        paths: files or folders.
        data: settings for reading JSON Lines.
        whole: True to read tables as text, for a language model.

    Raises:
        DataError: a file is a table, and `whole` is False.
    """
    for file in (file for path in paths if not whole for file in tree(path)):
        if _TABLES & {kind.casefold() for kind in Path(file.name).suffixes[-2:]}:  # texts.tsv.gz
            what = f"data.texts: {file.name} is a table, according to its name"
            expected = "lines of text, or JSON Lines with a text on each line"
            fix = "write its text column to a text file"
            raise DataError(what, expected=expected, fix=fix, name="data.texts", value=file.name)
    return Documents(paths, data)


def plain_texts(documents: Documents) -> Iterator[PlainTexts]:
    """Yield each line, or each text of JSON Lines, in chunks. Long texts come in pieces, and blank ones are skipped."""
    parts = ([piece.text] if piece.escaped else piece.text.split("\n") for piece in documents)
    found = filter(str.strip, itertools.chain.from_iterable(parts))
    while some := list(itertools.islice(found, _TOGETHER)):
        yield PlainTexts(some)


def running_texts(documents: Documents) -> Iterator[Running]:
    """Yield the unchanged documents in chunks, for a language model."""
    yield from running_chunks(documents, documents.report)


Chunks = Callable[[Documents], Iterator[PlainTexts]] | Callable[[Documents], Iterator[Running]]


class _Both(Source):
    """The files of a task's data, and the files of plain texts."""

    def __init__(self, data: Source, texts: Documents) -> None:
        self.data, self.texts = data, texts

    @property
    def report(self) -> Report:  # type: ignore[override]
        """The report of the data, with the report of the texts as a note."""
        report = self.data.report
        return replace(report, notes=[*report.notes, f"with the texts of {self.texts.report}"])

    def close(self) -> None:
        self.texts.close()
        self.data.close()

    def digest(self) -> str:
        """Return the concatenated digests of data and texts."""
        return self.data.digest() + self.texts.digest()

    def expect_digest(self, digest: str) -> None:
        half = len(digest) // 2
        self.data.expect_digest(digest[:half])
        self.texts.expect_digest(digest[half:])


@dataclass(frozen=True)
class _WithTexts:
    """A task's data, partly held out, and all of the plain texts."""

    corpus: Divided
    source: _Both
    chunked: Chunks
    count: int

    def __len__(self) -> int:
        return len(self.corpus) + self.count

    @property
    def note(self) -> str:
        return self.corpus.note

    def held_out(self) -> Any:
        return self.corpus.held_out()

    def chunks(self) -> Iterator[Any]:
        """Yield the data, then the texts."""
        yield from self.corpus.chunks()
        yield from self.chunked(self.source.texts)

    def texts(self) -> tuple[Texts, Texts]:
        """Return the texts that tokenizers learn from: only those of the task's data."""
        return self.corpus.texts()


class FormWithTexts:
    """The form of a task's data, with plain texts added."""

    def __init__(self, form: Form, paths: Sequence[str], chunked: Chunks = plain_texts) -> None:
        self.form, self.paths, self.chunked, self.holds = form, paths, chunked, form.holds
        self.read, self.preview = form.read, form.preview
        self.sample, self.to_notes, self.from_notes = form.sample, form.to_notes, form.from_notes

    def open(self, paths: Sequence[str], data: DataConfig) -> _Both:
        return _Both(self.form.open(paths, data), self.open_texts(data))

    def open_texts(self, data: DataConfig) -> Documents:
        return open_texts(self.paths, data, whole=self.chunked is running_texts)

    def divide(self, source: Any, share: float, seed: int) -> _WithTexts:
        """Read everything once, and hold out a share of the data, but no plain texts.

        Args:
            source: what `open` returned.
            share: fraction of the task's data to hold out.
            seed: decides which part is held out.
        """
        count = sum(map(len, self.chunked(source.texts)))
        return _WithTexts(self.form.divide(source.data, share, seed), source, self.chunked, count)

    def extent(self, data: _WithTexts) -> tuple[int, str]:
        """Return the amount of data without the plain texts, since it decides the size of the model."""
        return self.form.extent(data.corpus)


def with_plain_texts(texts: Callable[[Any], Sequence[str]]) -> Callable[[Any], Sequence[str]]:
    """Extend a function that returns the texts of a chunk of data, so that it accepts `PlainTexts` too."""
    return lambda data: data.texts if isinstance(data, PlainTexts) else texts(data)
