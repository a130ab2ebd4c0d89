"""Read texts, images and recordings as an encoder does, and copy batches to the device that computes.

`Images` and `Recordings` have the default settings of tasks that read these, and those that the data suggest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..config import Config
from ..config.front_geometry import image_positions, usual_patch_size
from ..config.values import require
from ..data.corpus import SpacedTexts
from ..data.media_encoding import AudioLoader, ImageLoader, Loader, Readable, read_files
from ..errors import DataError, beyond_vocabulary
from ..readers.media.audio import probe_audio
from ..readers.media.images import probe_image
from ..readers.pairs import Pairs
from ..tokenization.ragged import IntArray, Ragged
from ..tokenization.tokenizer import Tokenizer

if TYPE_CHECKING:
    from torch import Tensor


_PROBED = 300  # files that decide the size of all
_LARGEST, _FASTEST = 64, 16_000  # defaults: pixels, and samples per second
_SHIFTED = 28  # pixels of an image from which it is shifted by 2 of them in training
_OF_MEDIA = {"model.pre_norm": True, "model.feed_forward": "gelu"}

Encoded: TypeAlias = list[Any]  # of each source: tokens, pixels or samples


@dataclass(frozen=True)
class TextReader:
    """Reads texts.

    Args:
        longest: maximum number of tokens, without BOS and EOS. Longer texts are truncated.
        begins: True if texts begin with BOS.
    """

    tokenizer: Tokenizer
    longest: int
    begins: bool
    config: Config

    def for_search(self, texts: Sequence[str]) -> tuple[Encoded, list[int]]:
        """Return the tokens of each text without EOS, as a search takes them, and how many tokens were cut off."""
        first = [self.config.model.special.bos] * self.begins
        encoded = self.tokenizer.encode_batch(texts)
        cut = [max(len(ids) - self.longest, 0) for ids in encoded]
        return [[*first, *ids[: self.longest]] for ids in encoded], cut

    def encode(self, texts: Sequence[str]) -> tuple[Encoded, list[int]]:
        """Return each text as an encoder reads it, and how many tokens were cut off."""
        (found, cut), special = self.for_search(texts), self.config.model.special
        return [special.source(ids[self.begins :], begins=self.begins) for ids in found], cut

    def ended(self, source: Sequence[int]) -> list[int]:
        """Return a source with EOS, if the model's sources have it."""
        return self.config.model.special.source(source)

    def joined(self, encoded: Encoded) -> Ragged:
        """Return encoded sources in one array."""
        return Ragged(encoded)

    def positions(self, lengths: IntArray) -> IntArray:
        """Return the positions in the encoder of encoded sources with these lengths. (N,)"""
        return lengths

    def tensor(self, sources: Ragged, rows: IntArray) -> "Tensor":
        """Return what the front end reads of some sources, on the device. (B,) -> (B, S)"""
        model, pad = self.config.model, self.config.model.pad_id
        return tokens_on_device(sources.padded(rows, pad), self.config.train.device, model.src_vocab_size, pad)

    def unknown_words(self, source: str) -> tuple[str, ...]:
        """Return the words of a source that the vocabulary lacks."""
        return tuple(self.tokenizer.unknown_words(source))

    def readable(self, pairs: Pairs) -> Readable:
        encoded, cut = self.encode(pairs.sources)
        return Readable(Ragged(encoded), [*range(len(encoded))], np.array(cut, np.int64), [])


@dataclass(frozen=True)
class MediaReader:
    """Reads images or recordings; see `TextReader` for the methods. There's no BOS or EOS.

    Args:
        loader: reads one file. It cuts what is too long.
    """

    loader: Loader
    config: Config

    def for_search(self, sources: Sequence[Any]) -> tuple[Encoded, list[int]]:
        """Return the numbers of each file, and how many positions were cut off.

        Raises:
            DataError: a file can't be read.
        """
        found = [self.loader(source) for source in sources]
        return [array for array, _ in found], [cut for _, cut in found]

    encode = for_search

    def ended(self, source: Sequence[int]) -> Sequence[int]:
        return source

    def joined(self, encoded: Encoded) -> Ragged:
        return Ragged.joined(encoded, self.loader.dtype)

    def positions(self, lengths: IntArray) -> IntArray:
        return self.loader.positions(lengths)

    def tensor(self, sources: Ragged, rows: IntArray) -> "Tensor":
        """-> (B, C, H, W) or (B, N)"""
        return on_device(self.loader.batch(sources, rows), self.config.train.device)

    def unknown_words(self, source: Any) -> tuple[str, ...]:
        return ()

    def readable(self, pairs: Pairs) -> Readable:
        return read_files(self.loader, pairs, self.config.train.threads or 1)


SourceReader: TypeAlias = TextReader | MediaReader


def longest_text(config: Config) -> tuple[int, str]:
    """Return the maximum number of tokens in a text, without BOS and EOS, and the setting that it comes from."""
    readable = config.model.max_len - 1 - config.model.begins
    return min((config.data.max_len, "data.max_len"), (readable, "model.max_len"))


def whole_length(reader: SourceReader, source: Sequence[Any], cut: int) -> int:
    """Return the positions of an encoded source before `cut` of them were cut off.

    Args:
        reader: the reader that encoded it.
        source: tokens, pixels or samples.
        cut: number of positions that were cut off.
    """
    return int(reader.positions(np.array([len(source)]))[0]) + cut


def on_device(numbers: "NDArray[Any]", device: str) -> "Tensor":
    """Copy numbers to a device, without waiting for it. On a CPU, they aren't copied."""
    import torch

    tensor = torch.from_numpy(numbers)
    if device.startswith("cuda"):
        tensor = tensor.pin_memory()  # a GPU reads such memory by itself, while Python prepares the next operation
    return tensor.to(device, non_blocking=True)


def tokens_on_device(tokens: "NDArray[Any]", device: str, vocab_size: int, pad: int) -> "Tensor":
    """Copy token ids to a device. Padding may be beyond the vocabulary.

    Args:
        tokens: ids (B, T), with padding.
        device: a name such as "cpu" or "cuda:0".
        vocab_size: the number of ids in the vocabulary.
        pad: the id of padding.

    Raises:
        ModelError: a token is beyond the vocabulary. A GPU would end the process, so it's checked here; on a CPU, the
            embedding raises the same error.
    """
    if device != "cpu" and tokens.size:
        found = int(tokens.max(where=tokens != pad, initial=0))
        if found >= vocab_size:
            raise beyond_vocabulary(found, vocab_size)
    return on_device(tokens, device)


# --- kinds of media --------------------------------------------------------------------------------------------------


class Recordings:
    """Recordings, which the front end `frames` reads. Their positions are 40 ms long.

    Args:
        side: where a pair has the recording: 1 for its source, 2 for its target.
    """

    def __init__(self, side: int = 1) -> None:
        self.side = side

    defaults: ClassVar[Mapping[str, Any]] = {
        **_OF_MEDIA,
        "model.front": "frames",
        "model.augment": ("spec_augment=0.2", "speed=0.1"),
    }

    def derived(self, config: Config) -> dict[str, Any]:
        """Return model.max_len for the longest recording at its slowest.

        Raises:
            ConfigError: the user's model.max_len is too small for any recording.
        """
        usual, fits = _slowest(config.data.max_len, config), self.longest(config)[0] >= 1
        expected, what = f"at least {_slowest(1, config)}, and by default {usual}", "is too small for a recording"
        given = config.is_users("model.max_len")
        require(fits or not given, "model.max_len", config.model.max_len, expected, what=what)
        return {"model.max_len": usual}

    def from_data(self, data: Any, config: Config) -> dict[str, Any]:
        """Return the most frequent sample rate of some recordings, at most 16,000, unless it's set already."""
        if config.model.sample_rate is not None:
            return {}
        rates = [info.sample_rate for info in _probed(data, probe_audio, self.side)]
        return {"model.sample_rate": min(max(set(rates), key=lambda it: (rates.count(it), it)), _FASTEST)}

    def seconds(self, data: Any) -> float:
        """Return the length of the longest of some recordings."""
        return max(info.n_samples / info.sample_rate for info in _probed(data, probe_audio, self.side))

    def longest(self, config: Config) -> tuple[int, str]:
        """Return the maximum positions of a recording that fits into the model even at its slowest, and the setting."""
        most = int((config.model.max_len - 1) * (1 - config.model.augmentation["speed"]) + 1e-6)
        fitting = most if _slowest(most, config) <= config.model.max_len else most - 1
        return min((config.data.max_len, "data.max_len"), (fitting, "model.max_len"))

    def loader(self, config: Config) -> AudioLoader:
        return AudioLoader(config.model.size("sample_rate"), self.longest(config)[0])


class Images:
    """Images, which the front end `patches` reads. Their positions follow from their size."""

    defaults: ClassVar[Mapping[str, Any]] = {
        **_OF_MEDIA,
        "model.front": "patches",
        "model.positions": "sinusoidal_2d",
        "model.augment": ("shift=2",),
    }

    def derived(self, config: Config) -> dict[str, Any]:
        """Return nothing: the sizes depend on the data."""
        return {}

    def from_data(self, data: Any, config: Config) -> dict[str, Any]:
        """Return the size, channels and augmentation of images, the size of a patch, and the positions that these make.

        Raises:
            ConfigError: the user's data.batch_tokens is too small for one image.
        """
        model = config.model
        size, channels, begins = model.image_size, model.image_channels, model.pooling == "first"
        if size is None or channels is None:
            usual, colours = _image_size(data)
            size, channels = size or usual, channels or colours
        patch = model.patch_size or usual_patch_size(size)
        longest = image_positions(size, patch, class_token=begins)
        n_patches, more = image_positions(size, patch, class_token=False), " and a class token" * begins
        what = f"an image of {size} x {size} pixels, which is {n_patches:,} patches of {patch} x {patch}{more}"
        config.data.expect_room(longest, what, "set a larger model.patch_size to make fewer patches")
        found: dict[str, Any] = {"image_size": size, "image_channels": channels}
        found |= {"patch_size": patch, "max_len": longest}
        if size < _SHIFTED and not config.is_users("model.augment"):  # 2 pixels are a lot in digits of 8 x 8
            found["augment"] = ("shift=1",)
        return {f"model.{name}": value for name, value in found.items()} | {"data.max_len": longest}

    def longest(self, config: Config) -> tuple[int, str]:
        """Return the positions of every image, and the setting."""
        return config.model.max_len, "model.max_len"

    def loader(self, config: Config) -> ImageLoader:
        size, channels, patch = map(config.model.size, ("image_size", "image_channels", "patch_size"))
        return ImageLoader(size, channels, patch, config.model.pooling == "first")


def _slowest(n_positions: int, config: Config) -> int:
    """Return the positions that a recording may take once it's slowed down, which may be rounded up twice."""
    return int(n_positions / (1 - config.model.augmentation["speed"])) + 2


def _image_size(data: Any) -> tuple[int, int]:
    """Return the size of all images, if they're small squares of one size, or 64; and whether any has colours."""
    found = _probed(data, probe_image)
    shapes = {(it.height, it.width) for it in found}
    height, width = next(iter(shapes))
    same = len(shapes) == 1 and height == width and height <= _LARGEST
    return height if same else _LARGEST, max(it.channels for it in found)


def _probed(data: Any, probe: Any, side: int = 1) -> list[Any]:
    """Return the sizes of some files, spread evenly over the data. Raise the last error if none can be read."""
    found, last = list[Any](), None
    for name in SpacedTexts(data, _PROBED, itemgetter(side)):
        try:
            found.append(probe(name))
        except DataError as error:
            last = error
    if not found:
        raise last or DataError("there are no files to train on")
    return found
