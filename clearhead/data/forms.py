"""Data forms: a common interface for reading, splitting and storing the data of all tasks."""

from collections.abc import Iterable, Iterator, Sized
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..config import DataConfig
from ..config.values import counted
from ..errors import DataError
from ..readers.column_roles import LABELLED, SENTENCES, Roles, labelled
from ..readers.documents import Documents, Piece
from ..readers.media.media_files import content_digest
from ..readers.media.media_source import MediaSource
from ..readers.pairs import Pair, Pairs, PairSource, read_pairs
from ..readers.skipped import Report
from ..readers.source import Source
from .corpus import Corpus, LabelledCorpus
from .running_text import Running, TextCorpus, beginning

SAMPLED_BY = "train.eval_sentences"  # the setting that gives the size of a sample
_PAIR = 60  # characters of a typical sentence and its translation
_PATHS = ("path", "file", "filename", "file name", "filepath", "file path")
IMAGES = replace(
    LABELLED,
    source="image",
    files="images labels",
    aligned="line n of the labels is that of image n",
    source_names=(*_PATHS, "image", "img", "picture", "image path"),
    plural=("images", "labels"),
    item="image",
)
RECORDINGS = replace(
    LABELLED,
    source="recording",
    files="recordings labels",
    aligned="line n of the labels is that of recording n",
    source_names=(*_PATHS, "audio", "wav", "recording", "sound", "clip", "audio path", "audio filepath"),
    plural=("recordings", "labels"),
    item="recording",
)
TRANSCRIPTS = replace(
    RECORDINGS,
    target="transcript",
    files="recordings transcripts",
    aligned="line n of the transcripts is that of recording n",
    target_names=("text", "transcript", "transcription", "sentence", "normalized text", "target", "words"),
    plural=("recordings", "transcripts"),
    labels=False,
)


class Texts(Sized, Iterable[str], Protocol):
    """Texts that can be read repeatedly."""


class Divided(Protocol):
    """Training data, with a part held out."""

    def __len__(self) -> int: ...

    @property
    def source(self) -> Source:
        """The files that the data is read from."""

    @property
    def note(self) -> str:
        """A note on what was held out."""

    def held_out(self) -> Any:
        """Return the held-out part, in memory."""

    def chunks(self) -> Iterator[Any]:
        """Yield the training data in chunks that fit into memory."""

    def texts(self) -> tuple[Texts, Texts]:
        """Return the texts that the tokenizers learn from, for source and target. Without targets, those are empty."""


class Form(Protocol):
    """Reads, splits and samples the data of a task."""

    @property
    def holds(self) -> type:
        """The type that `read` returns."""

    def open(self, paths: Any, data: DataConfig) -> Source:
        """Open files, or rows in memory (see `as_paths`), to be read according to the settings."""

    def read(self, paths: Any, data: DataConfig) -> Any:
        """Read all files into memory, with a `report`. Raise a DataError if there's nothing usable."""

    def divide(self, source: Source, share: float, seed: int) -> Divided:
        """Read everything once, and hold out a share for scoring.

        Args:
            source: what `open` returned.
            share: fraction to hold out; 0 for none.
            seed: decides which part is held out.
        """

    def extent(self, data: Any) -> tuple[int, str]:
        """Return the amount of data as a number of sentence pairs, and as a phrase."""

    def sample(self, data: Any, most: int, seed: int, by: str = SAMPLED_BY) -> tuple[Any, str]:
        """Return some of the sources, and a note on the selection ("" for all).

        Args:
            data: what `read` returned.
            most: maximum number of sources.
            seed: decides which ones are drawn.
            by: the setting or argument that gives `most`, for the note.
        """

    def preview(self, data: Any) -> Iterator[dict[str, str]]:
        """Yield each example as a mapping from field names to texts."""

    def to_notes(self, data: Any) -> list[Any]:
        """Convert held-out data to JSON values for a store."""

    def from_notes(self, notes: list[Any], report: Report) -> Any:
        """Restore data converted by `to_notes`."""


def as_pairs(letters: int) -> tuple[int, str]:
    """Return a number of characters as a number of sentence pairs, and as a phrase."""
    return letters // _PAIR, f"{letters:,} characters"


class PairForm:
    """Pairs of texts. `roles` defines source and target."""

    holds: type = Pairs

    def __init__(self, roles: Roles) -> None:
        self.roles = roles

    def open(self, paths: Any, data: DataConfig) -> PairSource:
        """Open a table, JSON Lines, a folder of these, two line-aligned files, or rows in memory."""
        return PairSource(paths, data, self._roles(data))

    def read(self, paths: Any, data: DataConfig) -> Pairs:
        return read_pairs(paths, data, self._roles(data))

    def divide(self, source: Any, share: float, seed: int) -> Corpus:
        """Hold out a share of the distinct sources, with all their pairs.

        Args:
            source: pairs that can be read repeatedly.
            share: fraction of the distinct sources.
            seed: decides which ones.
        """
        return (LabelledCorpus if self.roles.labels else Corpus).of(source, share, seed)

    def extent(self, data: Corpus) -> tuple[int, str]:
        """Return the number of pairs. For texts longer than sentences, it's estimated from their characters."""
        if self.roles is SENTENCES:
            return len(data), counted(len(data), "pairs")
        return as_pairs(data.letters)

    def sample(self, data: Pairs, most: int, seed: int, by: str = SAMPLED_BY) -> tuple[Pairs, str]:
        """Return all pairs of some sources, drawn at random because files may be sorted.

        Args:
            data: the pairs to draw from.
            most: maximum number of distinct sources.
            seed: decides which ones.
            by: the setting or argument that gives `most`, for the note.
        """
        distinct = list(dict.fromkeys(data.sources))
        if len(distinct) <= most:
            return data, ""
        places = np.random.default_rng(seed).choice(len(distinct), most, replace=False)
        sample = {distinct[i] for i in places.tolist()}
        said = f"{most:,} of {len(distinct):,} different {self.roles.plural[0]}, drawn at random ({by})"
        return data.take((i for i, it in enumerate(data.sources) if it in sample), "a sample"), said

    def preview(self, data: Pairs) -> Iterator[dict[str, str]]:
        between = " | " if self.roles.labels else "\n"  # a target may have several labels, one per line
        for it, to in zip(data.sources, data.targets):
            yield {self.roles.source: it, self.roles.target: to.replace("\n", between)}

    def _roles(self, data: DataConfig) -> Roles:
        """Return the roles, with the labels of a trained model."""
        roles = labelled(data) if self.roles is LABELLED else self.roles
        return replace(roles, known=frozenset(data.labels)) if data.labels else roles

    def to_notes(self, data: Pairs) -> list[Pair]:
        """Return line, source and target of each pair."""
        return list(zip(data.lines, data.sources, data.targets))

    def from_notes(self, notes: list[Any], report: Report) -> Pairs:
        return Pairs.of(((line, source, target) for line, source, target in notes), report)


class TextForm:
    """Running text: files, folders, or JSON Lines with a text on each line."""

    holds: type = Running

    def open(self, paths: Any, data: DataConfig) -> Documents:
        return Documents(paths, data)

    def read(self, paths: Any, data: DataConfig) -> Running:
        with Documents(paths, data) as documents:
            return Running(list(documents), documents.report)

    def divide(self, source: Any, share: float, seed: int) -> TextCorpus:
        """Hold out the end of the text.

        Args:
            source: documents that can be read repeatedly.
            share: fraction of the characters.
            seed: has no effect, because the held-out part is always the end.
        """
        return TextCorpus.of(source, share)

    def extent(self, data: TextCorpus) -> tuple[int, str]:
        return as_pairs(data.letters)

    def sample(self, data: Running, most: int, seed: int, by: str = SAMPLED_BY) -> tuple[Running, str]:
        """Return the beginning of the text.

        Args:
            data: the text.
            most: the number of sentences, each of which counts as 256 characters.
            seed: has no effect, because the sample is always the beginning.
            by: the setting or argument that gives `most`, for the note.
        """
        letters, have = 256 * most, sum(map(len, data.texts))
        if have <= letters:
            return data, ""
        said = f"the first {letters:,} of {have:,} characters (256 for each of {by})"
        return Running(list(beginning(data.pieces, letters)), data.report), said

    def preview(self, data: Running) -> Iterator[dict[str, str]]:
        yield from ({"text": text} for text in data.texts)

    def to_notes(self, data: Running) -> list[Any]:
        """Return each piece with its position."""
        return [(piece.text, piece.first, piece.last, piece.line) for piece in data.pieces]

    def from_notes(self, notes: list[Any], report: Report) -> Running:
        return Running([Piece("", text, line, first, last) for text, first, last, line in notes], report)


class MediaForm(PairForm):
    """Images or recordings with a label or a transcript, named by their paths until they're encoded."""

    def __init__(self, roles: Roles, modality: str) -> None:
        super().__init__(roles)
        self.modality = modality

    def open(self, paths: Any, data: DataConfig) -> MediaSource:  # type: ignore[override]
        return MediaSource(paths, data, self._roles(data), self.modality)

    def read(self, paths: Any, data: DataConfig) -> Pairs:
        with self.open(paths, data) as source:
            return Pairs.read(source)

    def divide(self, source: Any, share: float, seed: int) -> Corpus:
        """Hold out a share of the images or recordings; copies of one stay together.

        Args:
            source: names of files with their targets.
            share: fraction of the distinct images or recordings, by their content.
            seed: decides which ones.
        """
        kind, sides = (LabelledCorpus, ()) if self.roles.labels else (Corpus, (2,))
        return kind.of(source, share, seed, source.content_key, sides)

    def extent(self, data: Corpus) -> tuple[int, str]:
        return len(data), f"{len(data):,} {self.roles.plural[0]}"

    def to_notes(self, data: Pairs) -> list[Pair]:
        """Return line, name and target of each. Names are relative to the data, which may be moved before a resume."""
        folder = data.report.folder
        return [(line, _within(folder, name), to) for line, name, to in zip(data.lines, data.sources, data.targets)]

    def from_notes(self, notes: list[Any], report: Report) -> Pairs:
        return Pairs.of(((line, str(Path(report.folder, name)), to) for line, name, to in notes), report)

    def contents(self, data: Pairs) -> list[str]:
        """Return a digest of the content of each file, or its name if it can't be read."""
        return list(map(_content, data.sources))


def _content(name: str) -> str:
    try:
        return content_digest(name).hex()
    except DataError:
        return name


def _within(folder: str, name: str) -> str:
    return str(Path(name).relative_to(folder)) if Path(name).is_relative_to(folder) else name
