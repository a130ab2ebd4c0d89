"""Read images and audio into arrays that a store can keep, and make batches of them."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..config.front_geometry import PAD_SAMPLE, audio_positions, image_positions, position_samples
from ..errors import DataError
from ..readers.media.audio import read_audio
from ..readers.media.images import read_image
from ..readers.pairs import Pairs
from ..readers.skipped import UNREADABLE, Skipped
from ..tokenization.ragged import IntArray, Ragged
from .encoding import Encoded

_TOGETHER, _BYTES = 256, 1 << 25  # maximum files in memory at once, and their bytes
_AHEAD = 4  # files that each thread may be ahead

Read = tuple[NDArray[Any], int] | DataError  # the array of a file and how many positions were cut, or why not


class FileReader(Protocol):
    """Reads one kind of file into flat arrays."""

    @property
    def dtype(self) -> str:
        """The type of the numbers, as a store spells it."""

    def __call__(self, source: Any) -> tuple[NDArray[Any], int]:
        """Read a file. -> its numbers (N,), and how many positions were cut. Raise a DataError if it can't be read."""


class Loader(FileReader, Protocol):
    """Reads one kind of file into flat arrays, and puts these together into batches."""

    def positions(self, lengths: IntArray) -> IntArray:
        """Return the positions in the encoder of arrays with these lengths."""

    def batch(self, sources: Ragged, rows: IntArray) -> NDArray[Any]:
        """Return the input of the front end for some rows."""


@dataclass(frozen=True)
class ImageLoader:
    """Reads images as (C, size, size) bytes."""

    size: int
    channels: int
    patch_size: int
    class_token: bool
    dtype: str = "u1"

    def __call__(self, source: Any) -> tuple[NDArray[Any], int]:
        return read_image(source, self.size, self.channels).reshape(-1), 0

    def positions(self, lengths: IntArray) -> IntArray:
        """Return the positions of each image: its patches, and the class token."""
        return np.full(len(lengths), image_positions(self.size, self.patch_size, class_token=self.class_token))

    def batch(self, sources: Ragged, rows: IntArray) -> NDArray[Any]:
        """-> (B, C, H, W)"""
        return sources.padded(rows, 0, np.uint8).reshape(len(rows), self.channels, self.size, self.size)


@dataclass(frozen=True)
class AudioLoader:
    """Reads recordings as 16-bit samples, up to a number of positions."""

    sample_rate: int
    longest: int
    dtype: str = "<i2"

    def __call__(self, source: Any) -> tuple[NDArray[Any], int]:
        samples, cut = read_audio(source, self.sample_rate, position_samples(self.longest, self.sample_rate))
        return samples, audio_positions(cut, self.sample_rate)

    def positions(self, lengths: IntArray) -> IntArray:
        """Return the number of positions of recordings with these numbers of samples."""
        return np.array([audio_positions(int(it), self.sample_rate) for it in lengths], np.int64)

    def batch(self, sources: Ragged, rows: IntArray) -> NDArray[Any]:
        """-> (B, N), padded with PAD_SAMPLE"""
        return sources.padded(rows, PAD_SAMPLE, np.int16)


@dataclass(frozen=True)
class Readable:
    """Held-out sources that could be read.

    Args:
        arrays: their numbers.
        places: their places in the data.
        cut: how many positions of each were cut. (N,)
        unread: the other sources, with the reasons.
    """

    arrays: Ragged
    places: list[int]
    cut: IntArray
    unread: list[Skipped]


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

    loader: FileReader
    targets: Callable[[Sequence[str]], list[list[int] | None]]
    why_not: str = ""
    limit: str = ""
    cuts: bool = True

    def __call__(self, pairs: Pairs) -> Encoded:
        """Read all files. Those that can't be used are skipped and reported."""
        return self._encoded(pairs, 0, [_read(self.loader, source) for source in pairs.sources])

    def each(self, chunks: Iterable[Pairs], count: int, processes: int) -> Iterator[Encoded]:
        """Read the files of each chunk with several threads, a few at a time: at most 256, or about 32 MB.

        Args:
            chunks: names of files with their targets.
            count: has no effect; other encoders start processes if there are many examples.
            processes: number of threads.
        """
        with ThreadPoolExecutor(processes) as pool:
            for chunk in chunks:
                found, start, size = list[Read](), 0, 0
                for result in _in_order(pool, self.loader, chunk.sources, _AHEAD * processes):
                    found.append(result)
                    size += 0 if isinstance(result, DataError) else result[0].nbytes
                    if len(found) == _TOGETHER or size > _BYTES:
                        yield self._encoded(chunk, start, found)
                        found, start, size = [], start + len(found), 0
                if found:
                    yield self._encoded(chunk, start, found)

    def _encoded(self, pairs: Pairs, start: int, found: Sequence[Read]) -> Encoded:
        targets = self.targets(pairs.targets[start : start + len(found)])
        arrays, numbers, kept = list[NDArray[Any]](), list[list[int]](), list[int]()
        skipped, cut = list[Skipped](), list[Skipped]()
        for place, (result, target) in enumerate(zip(found, targets), start):
            line, name = int(pairs.lines[place]), str(pairs.sources[place])
            if isinstance(result, DataError):
                skipped.append(Skipped(line, UNREADABLE, result.what))
            elif target is None:
                skipped.append(Skipped(line, self.why_not, f"{pairs.targets[place]}: {name}"))
            elif result[1] and not self.cuts:
                skipped.append(Skipped(line, self.limit, name))
            else:
                arrays.append(result[0])
                numbers.append(target)
                kept.append(place)
                cut += [Skipped(line, self.limit, name)] if result[1] else []
        return Encoded(Ragged.joined(arrays, self.loader.dtype), Ragged(numbers), kept, skipped, [], cut)


def read_files(loader: Loader, pairs: Pairs, threads: int = 1) -> Readable:
    """Read the files of pairs for scoring.

    Args:
        loader: reads one file.
        pairs: names of files with their targets, or arrays in memory.
        threads: number of threads. Each may be four files ahead.
    """
    arrays, places, unread, cut = list[NDArray[Any]](), list[int](), list[Skipped](), list[int]()
    with ThreadPoolExecutor(threads) as pool:
        for place, result in enumerate(_in_order(pool, loader, pairs.sources, _AHEAD * threads)):
            if isinstance(result, DataError):
                unread.append(Skipped(int(pairs.lines[place]), UNREADABLE, result.what))
            else:
                arrays.append(result[0])
                places.append(place)
                cut.append(result[1])
    return Readable(Ragged.joined(arrays, loader.dtype), places, np.array(cut, np.int64), unread)


def _read(loader: FileReader, source: Any) -> Read:
    try:
        return loader(source)
    except DataError as error:
        return error


def _in_order(pool: ThreadPoolExecutor, loader: FileReader, sources: Sequence[Any], ahead: int) -> Iterator[Read]:
    """Yield the result for each source, with at most `ahead` more of them in memory."""
    waiting = deque[Future[Read]]()
    for source in sources:
        waiting.append(pool.submit(_read, loader, source))
        if len(waiting) > ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
