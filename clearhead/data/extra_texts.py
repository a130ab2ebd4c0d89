"""Additional plain texts (`data.texts`) that a warm start learns from, together with the data of a task."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from ..config import DataConfig
from ..errors import DataError
from ..readers.documents import Documents
from ..readers.files import tree
from ..readers.skipped import Report
from .forms import SAMPLED_BY, Divided, Form, Source, Texts
from .running_text import Running, in_chunks

_TOGETHER = 4096  # texts in memory together
_TABLES = {".csv", ".tsv"}


@dataclass(frozen=True)
class PlainTexts:
    """Some of the plain texts."""

    texts: Sequence[str]

    def __len__(self) -> int:
        return len(self.texts)


def open_texts(paths: Sequence[str], data: DataConfig, *, whole: bool = False) -> Documents:
    """Open text files.

    Raises:
        DataError: a file is a table. With `whole`, for a language model, tables are text too.
    """
    for file in (file for path in paths if not whole for file in tree(path)):
        if _TABLES & {kind.casefold() for kind in Path(file.name).suffixes[-2:]}:  # texts.tsv.gz
            raise DataError(
                f"data.texts: {file.name} is a table by its name",
                expected="lines of text, or JSON Lines with a text on each line",
                fix="write its column of texts to a text file",
                name="data.texts",
                value=file.name,
            )
    return Documents(paths, data)


def texts_in(documents: Documents) -> Iterator[str]:
    """Yield each line, or each text of JSON Lines. Long texts come in pieces, and blank ones are skipped."""
    for piece in documents:
        found = [piece.text] if piece.escaped else piece.text.split("\n")
        yield from (text for text in found if text.strip())


def plain_texts(documents: Documents) -> Iterator[PlainTexts]:
    """Yield the texts, some at a time."""
    found = texts_in(documents)
    while some := list(itertools.islice(found, _TOGETHER)):
        yield PlainTexts(some)


def running_texts(documents: Documents) -> Iterator[Running]:
    """Yield the documents unchanged, for a language model."""
    yield from in_chunks(documents, documents.report)


Chunks = Callable[[Documents], Iterator[PlainTexts]] | Callable[[Documents], Iterator[Running]]


@dataclass(frozen=True)
class _Both:
    """The files of a task, and those with plain texts."""

    data: Source
    texts: Documents

    @property
    def report(self) -> Report:
        """The report of the data, with that of the texts as a note."""
        report = self.data.report
        return replace(report, notes=[*report.notes, f"with the texts of {self.texts.report}"])

    def __enter__(self) -> Self:
        self.data.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.texts.close()
        self.data.__exit__(*error)

    def digest(self) -> str:
        """Return both digests, one after the other."""
        return self.data.digest() + self.texts.digest()

    def expect_digest(self, digest: str) -> None:
        """Raise a DataError if any of the files no longer have this digest."""
        half = len(digest) // 2
        self.data.expect_digest(digest[:half])
        self.texts.expect_digest(digest[half:])


@dataclass(frozen=True)
class _WithTexts:
    """The data of a task with a part held out, and all of the plain texts."""

    corpus: Divided
    source: _Both
    chunked: Chunks
    count: int

    def __len__(self) -> int:
        return len(self.corpus) + self.count

    @property
    def note(self) -> str:
        """A note on what was held out."""
        return self.corpus.note

    def held_out(self) -> Any:
        """Return the held-out part of the data."""
        return self.corpus.held_out()

    def chunks(self) -> Iterator[Any]:
        """Yield the data, then the texts."""
        yield from self.corpus.chunks()
        yield from self.chunked(self.source.texts)

    def texts(self) -> tuple[Texts, Texts]:
        """Return the texts for the tokenizers: only those of the data, which they'll be used for."""
        return self.corpus.texts()


class FormWithTexts:
    """The form of a task's data, with plain texts added."""

    def __init__(self, form: Form, paths: Sequence[str], chunked: Chunks = plain_texts) -> None:
        self.form, self.paths, self.chunked, self.holds = form, paths, chunked, form.holds
        self.read, self.preview, self.to_notes, self.from_notes = (
            form.read,
            form.preview,
            form.to_notes,
            form.from_notes,
        )

    def open(self, paths: Sequence[str], data: DataConfig) -> _Both:
        """Open all files."""
        return _Both(self.form.open(paths, data), self.open_texts(data))

    def open_texts(self, data: DataConfig) -> Documents:
        """Open the files with plain texts."""
        return open_texts(self.paths, data, whole=self.chunked is running_texts)

    def divide(self, source: Any, share: float, seed: int) -> _WithTexts:
        """Read everything once, and hold out a share of the data."""
        count = sum(map(len, self.chunked(source.texts)))
        return _WithTexts(self.form.divide(source.data, share, seed), source, self.chunked, count)

    def extent(self, data: _WithTexts) -> tuple[int, str]:
        """Return the amount of data without the texts; it decides the shape of the model."""
        return self.form.extent(data.corpus)

    def sample(self, data: Any, most: int, seed: int, by: str = SAMPLED_BY) -> tuple[Any, str]:
        """Return a sample of held-out data."""
        return self.form.sample(data, most, seed, by)


def with_plain_texts(texts: Callable[[Any], Sequence[str]]) -> Callable[[Any], Sequence[str]]:
    """Extend a function that returns the texts of some data, so that it takes plain texts too."""
    return lambda data: data.texts if isinstance(data, PlainTexts) else texts(data)
