"""Data sets of images and audio: where their files are, and what is held out."""

from pathlib import Path
from typing import Any, cast

from ..config import DataConfig
from ..errors import DataError
from ..readers.column_roles import LABELLED, Roles
from ..readers.media.media_files import content_digest
from ..readers.media.media_source import MediaSource
from ..readers.pairs import Pair, Pairs
from ..readers.skipped import Report
from .corpus import Corpus, LabelledCorpus, Texts
from .forms import PairForm

_PATHS = ("path", "file", "filename", "file name", "filepath", "file path")
IMAGES = Roles(
    "image",
    "label",
    "images labels",
    "line n of the labels is that of image n",
    source_names=(*_PATHS, "image", "img", "picture", "image path"),
    target_names=LABELLED.target_names,
    plural=("images", "labels"),
    labels=True,
    item="image",
)
RECORDINGS = Roles(
    "recording",
    "label",
    "recordings labels",
    "line n of the labels is that of recording n",
    source_names=(*_PATHS, "audio", "wav", "recording", "sound", "clip", "audio path", "audio filepath"),
    target_names=LABELLED.target_names,
    plural=("recordings", "labels"),
    labels=True,
    item="recording",
)
TRANSCRIPTS = Roles(
    "recording",
    "transcript",
    "recordings transcripts",
    "line n of the transcripts is that of recording n",
    source_names=RECORDINGS.source_names,
    target_names=("text", "transcript", "transcription", "sentence", "normalized text", "target", "words"),
    plural=("recordings", "transcripts"),
    item="recording",
)


class LabelledMedia(LabelledCorpus):
    """Images or recordings with labels. They have no text to learn a tokenizer from."""

    def texts(self, most: int = 0) -> tuple[Any, Any]:
        """Return no texts."""
        return (), ()

    def _identity(self, name: str) -> str:
        """Return a key that's equal for copies."""
        found: str = cast(Any, self.source).content_key(name)
        return found


class TranscribedMedia(Corpus):
    """Recordings with transcripts, from which the tokenizer learns."""

    def texts(self, most: int = 2_000_000) -> tuple[Texts, tuple[()]]:
        """Return the transcripts."""
        return Texts(self, 2, most), ()


class MediaForm(PairForm):
    """Images or recordings with a label or a transcript, named by their paths until they're encoded."""

    def __init__(self, roles: Roles, modality: str) -> None:
        super().__init__(roles)
        self.modality = modality

    def open(self, paths: Any, data: DataConfig) -> MediaSource:  # type: ignore[override]
        """Open a folder for each label, a manifest, or arrays."""
        return MediaSource(paths, data, self._roles(data), self.modality)

    def read(self, paths: Any, data: DataConfig) -> Pairs:
        """Return the names of all images or recordings, with their targets."""
        with self.open(paths, data) as source:
            pairs = Pairs.of(source, source.report)
            return Pairs(pairs.sources, pairs.targets, pairs.lines, source.report)

    def divide(self, source: Any, share: float, seed: int) -> Corpus:
        """Hold out a share of the images or recordings; copies of one stay together."""
        kind = LabelledMedia if self.roles.labels else TranscribedMedia
        return kind.of(source, share, seed, key=source.content_key)

    def extent(self, data: Corpus) -> tuple[int, str]:
        """Return their number."""
        return len(data), f"{len(data):,} {self.roles.plural[0]}"

    def to_notes(self, data: Pairs) -> list[Pair]:
        """Return line, name and target of each. Names are relative to the data, which may be moved before a resume."""
        folder = data.report.folder
        return [(line, _within(folder, name), to) for line, name, to in zip(data.lines, data.sources, data.targets)]

    def from_notes(self, notes: list[Any], report: Report) -> Pairs:
        """Restore what `to_notes` converted."""
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
