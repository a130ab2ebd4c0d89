"""How the data of a task are read, divided and kept, so that preparing a run is the same for all tasks."""

from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import replace
from typing import Any, Protocol, Self

import numpy as np

from ..config import DataConfig
from ..readers.column_roles import SENTENCES, Roles
from ..readers.documents import Documents
from ..readers.pairs import Pair, Pairs, PairSource, read_pairs
from ..readers.skipped import Report
from .corpus import Corpus, LabelledCorpus
from .running_text import Running, TextCorpus

SAMPLED_BY = "train.eval_sentences"  # what says how large a sample is, unless told
_PAIR = 60  # letters of a usual sentence and its translation


class Source(Protocol):
    """Files that are opened, to be read as often as wanted."""

    @property
    def report(self) -> Report:
        """Of the last reading that came to its end."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def digest(self) -> str:
        """SHA-256 of the bytes of all files."""

    def expect_digest(self, digest: str) -> None:
        """A DataError where the files hold other bytes by now."""


class Texts(Sized, Iterable[str], Protocol):
    """Texts that are read anew by every loop over them."""


class Divided(Protocol):
    """The data to train on, told apart from those that are held out."""

    def __len__(self) -> int: ...

    @property
    def source(self) -> Source:
        """What they are read from."""

    @property
    def note(self) -> str:
        """What was held out, in words."""

    def held_out(self) -> Any:
        """What is held out, in memory."""

    def chunks(self) -> Iterator[Any]:
        """What is trained on, as much at a time as may be in memory together."""

    def texts(self) -> tuple[Texts, Texts]:
        """What the tokenizers of both sides learn from; with one side alone the second is empty."""


class Form(Protocol):
    """The data of a task: what is read from files, held out and chosen from."""

    @property
    def holds(self) -> type:
        """What `read` gives."""

    def open(self, paths: Sequence[str], data: DataConfig) -> Source:
        """Files to be read as `data` says."""

    def read(self, paths: Sequence[str], data: DataConfig) -> Any:
        """All of some files, in memory, with a `report`; a DataError where there is nothing to be had."""

    def divide(self, source: Source, share: float, seed: int) -> Divided:
        """Read all once, and tell a share apart to score on."""

    def extent(self, data: Any) -> tuple[int, str]:
        """How much there is to learn from, as a number of sentence pairs, and in words."""

    def sample(self, data: Any, most: int, seed: int, by: str = SAMPLED_BY) -> tuple[Any, str]:
        """At most so many of what is answered, as `by` says, and in words which; nothing is said of all."""

    def to_notes(self, data: Any) -> list[Any]:
        """Plain values, as a store keeps what is held out."""

    def from_notes(self, notes: list[Any], report: Report) -> Any:
        """The inverse."""


def as_pairs(letters: int) -> tuple[int, str]:
    """How many sentence pairs have so many letters."""
    return letters // _PAIR, f"{letters:,} characters"


class PairForm:
    """Pairs of texts, from a table, JSON lines, two aligned files; the `roles` say what the two are."""

    holds: type = Pairs

    def __init__(self, roles: Roles) -> None:
        self.roles = roles

    def open(self, paths: Sequence[str], data: DataConfig) -> PairSource:
        """A table, JSON lines, a folder of such, or two line-aligned files."""
        return PairSource(paths, data, self._looked_for(data))

    def read(self, paths: Sequence[str], data: DataConfig) -> Pairs:
        """All pairs."""
        return read_pairs(paths, data, self._looked_for(data))

    def divide(self, source: Any, share: float, seed: int) -> Corpus:
        """No source stands on both sides."""
        return (LabelledCorpus if self.roles.labels else Corpus).of(source, share, seed)

    def extent(self, data: Corpus) -> tuple[int, str]:
        """Sentence pairs are counted, and of longer texts the letters."""
        if self.roles is SENTENCES:
            return len(data), f"{len(data):,} pairs"
        return as_pairs(data.letters)

    def sample(self, data: Pairs, most: int, seed: int, by: str = SAMPLED_BY) -> tuple[Pairs, str]:
        """All pairs of so many sources, drawn at random: files may be sorted by length."""
        distinct = list(dict.fromkeys(data.sources))
        if len(distinct) <= most:
            return data, ""
        places = np.random.default_rng(seed).choice(len(distinct), most, replace=False)
        sample = {distinct[i] for i in places.tolist()}
        said = f"{most:,} of {len(distinct):,} different {self.roles.plural[0]}, drawn at random ({by})"
        return data.take((i for i, it in enumerate(data.sources) if it in sample), "a sample"), said

    def _looked_for(self, data: DataConfig) -> Roles:
        """The roles, and with labels that a model has learnt those, too."""
        return replace(self.roles, known=frozenset(data.labels)) if data.labels else self.roles

    def to_notes(self, data: Pairs) -> list[Pair]:
        """Line, source and target of each."""
        return list(zip(data.lines, data.sources, data.targets))

    def from_notes(self, notes: list[Any], report: Report) -> Pairs:
        """The inverse."""
        return Pairs.of(((line, source, target) for line, source, target in notes), report)


class TextForm:
    """Running text: a file, a folder of files, JSON lines with a text each."""

    holds: type = Running

    def open(self, paths: Sequence[str], data: DataConfig) -> Documents:
        """Documents, one after the other."""
        return Documents(paths, data)

    def read(self, paths: Sequence[str], data: DataConfig) -> Running:
        """All of them."""
        with Documents(paths, data) as documents:
            found = list(documents)
            return Running.of(found, documents.report)

    def divide(self, source: Any, share: float, seed: int) -> TextCorpus:
        """The end of the text is held out."""
        return TextCorpus.of(source, share)

    def extent(self, data: TextCorpus) -> tuple[int, str]:
        """By its letters."""
        return as_pairs(data.letters)

    def sample(self, data: Running, most: int, seed: int, by: str = SAMPLED_BY) -> tuple[Running, str]:
        """The beginning, so long as if every one of `most` sentences had 256 letters."""
        letters, have = 256 * most, sum(map(len, data.pieces))
        if have <= letters:
            return data, ""
        said = f"the first {letters:,} of {have:,} characters (256 for each of {by})"
        return data.beginning(letters), said

    def to_notes(self, data: Running) -> list[Any]:
        """Every piece with what is known of it."""
        return list(zip(data.pieces, data.first, data.last, data.lines))

    def from_notes(self, notes: list[Any], report: Report) -> Running:
        """The inverse."""
        pieces, first, last, lines = (list(each) for each in zip(*notes)) if notes else ([], [], [], [])
        return Running(pieces, first, last, lines, report)
