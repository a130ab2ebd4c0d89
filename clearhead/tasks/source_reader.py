"""Read texts, images and recordings as an encoder does, and copy batches to the device that computes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..config import Config
from ..data.media_encoding import Loader, Readable, read_files
from ..errors import beyond_vocabulary
from ..readers.pairs import Pairs
from ..tokenization.ragged import IntArray, Ragged
from ..tokenization.tokenizer import Tokenizer

if TYPE_CHECKING:
    from torch import Tensor

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
    """Return the positions of an encoded source before `cut` of them were cut off."""
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

    Raises:
        ModelError: a token is beyond the vocabulary. A GPU would end the process, so it's checked here; on a CPU, the
            embedding raises the same error.
    """
    if device != "cpu" and tokens.size:
        found = int(tokens.max(where=tokens != pad, initial=0))
        if found >= vocab_size:
            raise beyond_vocabulary(found, vocab_size)
    return on_device(tokens, device)
