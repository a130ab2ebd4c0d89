"""Texts with recordings of them: the data of transcription, with its sides exchanged."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..config import DataConfig
from ..errors import DataError
from ..readers.media.media_source import MediaSource
from ..readers.pairs import Pair, Pairs
from ..readers.skipped import Report
from ..tokenization.codebook import Codebook, Samples
from .corpus import Corpus, SpacedTexts
from .encoding import Encoded
from .forms import TRANSCRIPTS, MediaForm
from .media_encoding import AudioLoader, MediaEncoder

_READ = replace(TRANSCRIPTS, target="text", plural=("recordings", "texts"), voices=True)
_VOICES = ("voice", "speaker")  # names of the column with the name of each text's voice
_SPOKEN = replace(_READ, source="text", target="recording", plural=("texts", "recordings"), item="pair")
_LEARN = 2_000  # recordings that a codebook learns from


class SpokenSource(MediaSource):
    """Texts with the names of their recordings, from a table of both.

    If the table has a column `voice` or `speaker`, each text begins with what's in it.
    """

    def __init__(self, data_or_paths: Any, data: DataConfig) -> None:
        columns = replace(data, source_column=data.target_column, target_column=data.source_column)
        super().__init__(data_or_paths, columns, _READ, "audio")
        if not columns.target_column and (voice := _named(_VOICES, self.columns)):
            text = _named(_READ.target_names, self.columns)
            if text is None:
                what, fix = (
                    f"the table has the column {voice!r}, but no column named text",
                    "name it with --text COLUMN",
                )
                raise DataError(what, expected="a text next to each voice", fix=fix, name="data.source_column")
            self.close()
            columns = replace(columns, target_column=f"{voice},{text}")
            super().__init__(data_or_paths, columns, _READ, "audio")
        self.has_voices = "," in columns.target_column
        self.roles = _SPOKEN

    def __iter__(self) -> Iterator[Pair]:
        """Yield number, text and name of each recording whose file exists."""
        for number, name, text in self.rows():
            yield number, text, name

    @property
    def _expected(self) -> str:
        return "a table of texts and paths of recordings"


def _named(names: Sequence[str], columns: Sequence[str]) -> str | None:
    """Return the first column with one of some names, or None."""
    return next((it.strip() for it in columns if it.strip().casefold() in names), None)


class SpokenForm(MediaForm):
    """Texts with a recording each, which are named by their paths until they're encoded."""

    def __init__(self) -> None:
        super().__init__(_SPOKEN, "audio")

    def open(self, paths: Any, data: DataConfig) -> SpokenSource:  # type: ignore[override]
        return SpokenSource(paths, data)

    def divide(self, source: Any, share: float, seed: int) -> Corpus:
        """Hold out a share of the texts, with all their recordings.

        Args:
            source: texts with the names of their recordings.
            share: fraction of the distinct texts.
            seed: decides which ones.
        """
        return Corpus.of(source, share, seed, sides=(1,))

    def to_notes(self, data: Pairs) -> list[Pair]:
        return [(line, text, name) for line, name, text in super().to_notes(exchanged(data))]

    def from_notes(self, notes: list[Any], report: Report) -> Pairs:
        return exchanged(super().from_notes([(line, name, text) for line, text, name in notes], report))

    def contents(self, data: Pairs) -> list[str]:
        return super().contents(exchanged(data))


@dataclass(frozen=True)
class CodeReader:
    """Reads recordings as target tokens: the decoder's first input, the codes, and EOS."""

    audio: AudioLoader
    codebook: Codebook
    dtype: str

    def __call__(self, source: Any) -> tuple[NDArray[Any], int]:
        samples, cut = self.audio(source)
        return np.array(self.codebook.special.target(self.codebook.codes(samples)), self.dtype), cut


@dataclass(frozen=True)
class SpokenEncoder:
    """Encodes texts and recordings: a `MediaEncoder` with its sides exchanged."""

    media: MediaEncoder

    def __call__(self, pairs: Pairs) -> Encoded:
        return _sides_exchanged(self.media(exchanged(pairs)))

    def each(self, chunks: Iterable[Pairs], count: int, processes: int) -> Iterator[Encoded]:
        """Yield the texts and the codes of each chunk, in order.

        Args:
            chunks: texts with the names of their recordings.
            count: number of pairs in all chunks.
            processes: number of threads.
        """
        return map(_sides_exchanged, self.media.each(map(exchanged, chunks), count, processes))


def exchanged(pairs: Pairs) -> Pairs:
    """Return pairs with sources as targets and targets as sources."""
    return replace(pairs, sources=pairs.targets, targets=pairs.sources)


def _sides_exchanged(found: Encoded) -> Encoded:
    return replace(found, sources=found.targets, targets=found.sources)


def learn_codebook(corpus: Corpus, audio: AudioLoader, n_mels: int, size: int) -> Codebook:
    """Learn codes from recordings that are spread evenly over the data. Those that can't be read are left out.

    Args:
        corpus: texts with the names of their recordings, of which up to 2,000 are read.
        audio: reads a recording at the model's sample rate.
        n_mels: number of mel bands of a spectrogram.
        size: number of codes.

    Raises:
        DataError: none can be read.
    """
    return Codebook.learn(_readable(corpus, audio), audio.sample_rate, n_mels, size)


def _readable(corpus: Corpus, audio: AudioLoader) -> Iterator[Samples]:
    last, count = None, 0
    for name in SpacedTexts(corpus, _LEARN, itemgetter(2)):
        try:
            samples, _ = audio(name)
        except DataError as error:
            last = error
        else:
            count += 1
            yield samples
    if not count:
        raise last or DataError("there are no recordings to learn from")
