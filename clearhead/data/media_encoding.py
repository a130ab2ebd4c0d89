"""Read pictures and sounds into arrays that a store can keep, and make batches of them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..config.front_geometry import PAD_SAMPLE, picture_positions, position_samples, sound_positions
from ..errors import DataError
from ..readers.media.images import read_image
from ..readers.media.sounds import read_sound
from ..readers.pairs import Pairs
from ..readers.skipped import Skipped
from ..tokenization.ragged import IntArray, Ragged
from .encoding import Encoded

_TOGETHER = 256  # files in memory at once
UNREADABLE = "that can't be read"


class Loader(Protocol):
    """Reads one kind of file into flat arrays, and puts these together into batches."""

    @property
    def dtype(self) -> str:
        """The type of the numbers, as a store spells it."""

    def __call__(self, source: Any) -> tuple[NDArray[Any], int]:
        """Read a file. -> its numbers (N,), and how many positions were cut. Raise a DataError if it can't be read."""

    def positions(self, lengths: IntArray) -> IntArray:
        """Return the positions in the encoder of arrays with these lengths."""

    def batch(self, sources: Ragged, rows: IntArray) -> NDArray[Any]:
        """Return the input of the front end for some rows."""


@dataclass(frozen=True)
class ImageLoader:
    """Reads pictures as (C, size, size) bytes."""

    size: int
    channels: int
    patch_size: int
    class_token: bool
    dtype: str = "u1"

    def __call__(self, source: Any) -> tuple[NDArray[Any], int]:
        """Read a picture."""
        return read_image(source, self.size, self.channels).reshape(-1), 0

    def positions(self, lengths: IntArray) -> IntArray:
        """Return the positions of each picture: its patches, and the class token."""
        return np.full(len(lengths), picture_positions(self.size, self.patch_size, class_token=self.class_token))

    def batch(self, sources: Ragged, rows: IntArray) -> NDArray[Any]:
        """-> (B, C, H, W)"""
        return sources.padded(rows, 0, np.uint8).reshape(len(rows), self.channels, self.size, self.size)


@dataclass(frozen=True)
class SoundLoader:
    """Reads sounds as 16-bit samples, up to a number of positions."""

    sample_rate: int
    longest: int
    dtype: str = "<i2"

    def __call__(self, source: Any) -> tuple[NDArray[Any], int]:
        """Read a sound."""
        samples, cut = read_sound(source, self.sample_rate, position_samples(self.longest, self.sample_rate))
        return samples, sound_positions(cut, self.sample_rate)

    def positions(self, lengths: IntArray) -> IntArray:
        """Return the positions of sounds with so many samples."""
        return np.array([sound_positions(int(it), self.sample_rate) for it in lengths], np.int64)

    def batch(self, sources: Ragged, rows: IntArray) -> NDArray[Any]:
        """-> (B, N), padded with PAD_SAMPLE"""
        return sources.padded(rows, PAD_SAMPLE, np.int16)


@dataclass(frozen=True)
class MediaEncoder:
    """Reads the files of examples, and encodes their targets.

    Args:
        loader: reads one file.
        targets: encodes labels or transcripts; None for a target that can't be trained on.
        why_not: the reason in that case.
        limit: the maximum length, for a message.
        cuts: whether to keep the beginning of files that are too long, instead of dropping them.
    """

    loader: Loader
    targets: Callable[[Sequence[str]], list[list[int] | None]]
    why_not: str = ""
    limit: str = ""
    cuts: bool = True

    def tokens(self, sources: Sequence[Any]) -> tuple[list[NDArray[Any]], list[int]]:
        """Return the array of each file, and how many of its positions were cut.

        Raises:
            DataError: a file can't be read.
        """
        found = [self.loader(source) for source in sources]
        return [array for array, _ in found], [cut for _, cut in found]

    def __call__(self, pairs: Pairs) -> Encoded:
        """Read all files. Those that can't be used are skipped and reported."""
        return self._encoded(pairs, 0, map(self._read, pairs.sources))

    def each(self, chunks: Iterable[Pairs], count: int, processes: int) -> Iterator[Encoded]:
        """Read the files of each chunk with several threads, a few hundred at a time."""
        with ThreadPoolExecutor(processes) as pool:
            for chunk in chunks:
                for start in range(0, len(chunk), _TOGETHER):
                    yield self._encoded(chunk, start, pool.map(self._read, chunk.sources[start : start + _TOGETHER]))

    def _read(self, source: Any) -> tuple[NDArray[Any], int] | DataError:
        try:
            return self.loader(source)
        except DataError as error:
            return error

    def _encoded(self, pairs: Pairs, start: int, read: Iterable[Any]) -> Encoded:
        found = list(read)
        stop = start + len(found)
        targets = self.targets(list(islice(pairs.targets, start, stop)))
        kept, skipped, cut = list[int](), list[Skipped](), list[Skipped]()
        for i, (result, target) in enumerate(zip(found, targets)):
            line, name = int(pairs.lines[start + i]), str(pairs.sources[start + i])
            if isinstance(result, DataError):
                skipped.append(Skipped(line, UNREADABLE, result.what))
            elif target is None:
                skipped.append(Skipped(line, self.why_not, pairs.targets[start + i]))
            elif result[1] and not self.cuts:
                skipped.append(Skipped(line, self.limit, name))
            else:
                kept.append(i)
                if result[1]:
                    cut.append(Skipped(line, self.limit, name))
        sources = Ragged.joined([found[i][0] for i in kept], self.loader.dtype)
        return Encoded(sources, Ragged([targets[i] or [] for i in kept]), kept, skipped, [], cut)
