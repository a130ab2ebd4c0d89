"""Texts that stand for themselves, beside the data of a task: a warm start learns from these (`data.texts`), too."""

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

_TOGETHER = 4096  # texts that are in memory together
_TABLES = {".csv", ".tsv"}


@dataclass(frozen=True)
class Alone:
    """Some of these texts."""

    texts: Sequence[str]

    def __len__(self) -> int:
        return len(self.texts)


def open_texts(paths: Sequence[str], data: DataConfig, *, whole: bool = False) -> Documents:
    """The files, to be read; a DataError where one is a table, of whose lines only a part is text, unless each is read
    as a `whole`, as a language model reads them."""
    for file in (file for path in paths if not whole for file in tree(path)):
        if _TABLES & {kind.casefold() for kind in Path(file.name).suffixes[-2:]}:  # a packed one is called texts.tsv.gz
            raise DataError(
                f"data.texts: {file.name} is a table by its name; expected text, each line for itself, or JSON lines "
                "with a text each: write the column of its texts to a file of its own"
            )
    return Documents(paths, data)


def texts_in(documents: Documents) -> Iterator[str]:
    """Each line, and of JSON the text of each, the longest in pieces; blank ones are passed over."""
    for piece in documents:
        found = [piece.text] if piece.escaped else piece.text.split("\n")
        yield from (text for text in found if text.strip())


def alone(documents: Documents) -> Iterator[Alone]:
    """All texts, some at a time."""
    found = texts_in(documents)
    while some := list(itertools.islice(found, _TOGETHER)):
        yield Alone(some)


def running(documents: Documents) -> Iterator[Running]:
    """The documents as they are, as what a language model learns from."""
    yield from in_chunks(documents, documents.report)


Chunks = Callable[[Documents], Iterator[Alone]] | Callable[[Documents], Iterator[Running]]


@dataclass(frozen=True)
class _Both:
    """The files of a task and those of the texts."""

    data: Source
    texts: Documents

    @property
    def report(self) -> Report:
        """Of the data, and below it of the texts."""
        report = self.data.report
        return replace(report, notes=[*report.notes, f"and texts alone: {self.texts.report}"])

    def __enter__(self) -> Self:
        self.data.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.texts.close()
        self.data.__exit__(*error)

    def digest(self) -> str:
        """That of the one behind that of the other."""
        return self.data.digest() + self.texts.digest()

    def expect_digest(self, digest: str) -> None:
        """A DataError where any of the files hold other bytes by now."""
        half = len(digest) // 2
        self.data.expect_digest(digest[:half])
        self.texts.expect_digest(digest[half:])


@dataclass(frozen=True)
class _WithTexts:
    """The data of a task, of which a part is held out; of the texts none is."""

    corpus: Divided
    source: _Both
    chunked: Chunks
    count: int

    def __len__(self) -> int:
        return len(self.corpus) + self.count

    @property
    def note(self) -> str:
        """What was held out, in words."""
        return self.corpus.note

    def held_out(self) -> Any:
        """What is held out of the data."""
        return self.corpus.held_out()

    def chunks(self) -> Iterator[Any]:
        """The data, then the texts."""
        yield from self.corpus.chunks()
        yield from self.chunked(self.source.texts)

    def texts(self) -> tuple[Texts, Texts]:
        """What the tokenizers learn from: of the data alone, as they are for what comes afterwards."""
        return self.corpus.texts()


class FormWithTexts:
    """The form of a task's data, with the texts of some files to learn from besides."""

    def __init__(self, form: Form, paths: Sequence[str], chunked: Chunks = alone) -> None:
        self.form, self.paths, self.chunked, self.holds = form, paths, chunked, form.holds
        self.read, self.to_notes, self.from_notes = form.read, form.to_notes, form.from_notes

    def open(self, paths: Sequence[str], data: DataConfig) -> _Both:
        """All files."""
        return _Both(self.form.open(paths, data), self.open_texts(data))

    def open_texts(self, data: DataConfig) -> Documents:
        """Those of the texts alone."""
        return open_texts(self.paths, data, whole=self.chunked is running)

    def divide(self, source: Any, share: float, seed: int) -> _WithTexts:
        """Read all once."""
        count = sum(map(len, self.chunked(source.texts)))
        return _WithTexts(self.form.divide(source.data, share, seed), source, self.chunked, count)

    def extent(self, data: _WithTexts) -> tuple[int, str]:
        """That of the data, by which the shape of the model is chosen."""
        return self.form.extent(data.corpus)

    def sample(self, data: Any, most: int, seed: int, by: str = SAMPLED_BY) -> tuple[Any, str]:
        """Of what is held out."""
        return self.form.sample(data, most, seed, by)


def with_alone(texts: Callable[[Any], Sequence[str]]) -> Callable[[Any], Sequence[str]]:
    """What tells the texts of a task's data, for these texts as well."""
    return lambda data: data.texts if isinstance(data, Alone) else texts(data)
