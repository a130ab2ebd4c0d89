"""A vocabulary of sounds, for models that speak: vector quantisation of spectrograms (van den Oord et al. 2017).

Each code stands for a patch of a log-mel spectrogram, 40 ms long. A recording becomes the numbers of the patches that
are most similar to its own, such as "17 17 203", and these are tokens like the words of a text.
"""

import base64
import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from ..config import SpecialTokens
from ..config.front_geometry import SUBSAMPLING
from .learning import SPECIALS, word_vocabulary
from .tokenizer import Tokenizer

if TYPE_CHECKING:
    from torch import Tensor

    from ..model.fronts.frames import Frames

KEY = "codebook"  # in a tokenizer file, next to a target vocabulary of the words "0", "1", "2"...
_STORED = "<f2"
_ROUNDS = 12  # of k-means
_EACH, _MOST = 100, 30_000  # patches to learn from, of each recording and in all
_SEEDS = 10_000  # those that the first means are drawn from

Samples = NDArray[np.int16]


class Codebook(Tokenizer):
    """The codes of recordings with one sample rate.

    Args:
        patches: the patch of each code, (C, 4, M).
        sample_rate: samples per second.
    """

    def __init__(self, patches: NDArray[np.float32], sample_rate: int) -> None:
        super().__init__(word_vocabulary(map(str, range(len(patches)))), SpecialTokens())
        self.patches, self.sample_rate = patches.astype(_STORED).astype(np.float32), sample_rate

    @classmethod
    def learn(cls, recordings: Iterable[Samples], sample_rate: int, n_mels: int, size: int) -> Self:
        """Learn codes from recordings by k-means. The same recordings give the same codes.

        Args:
            recordings: at least one.
            sample_rate: their samples per second.
            n_mels: bands of the spectrograms.
            size: maximum number of tokens, special tokens included.
        """
        empty, random = cls(np.zeros((1, SUBSAMPLING, n_mels), np.float32), sample_rate), np.random.default_rng(0)
        some = [random.permutation(empty.patches_of(it))[:_EACH] for it in recordings]
        found = random.permutation(np.concatenate(some))[:_MOST].reshape(-1, SUBSAMPLING * n_mels)
        return cls(_means(found, size - len(SPECIALS)).reshape(-1, SUBSAMPLING, n_mels), sample_rate)

    def patches_of(self, samples: Samples) -> NDArray[np.float32]:
        """Return the patches of a recording. The last one is filled up with silence. (N,) -> (P, 4, M)"""
        import torch

        padding = -len(samples) % (SUBSAMPLING * self._front.hop)
        whole = torch.from_numpy(np.pad(samples, (0, padding)))
        found: NDArray[np.float32] = self._front.spectrogram(whole[None])[0].numpy()
        return found.reshape(-1, SUBSAMPLING, found.shape[1])

    def codes(self, samples: Samples) -> list[int]:
        """Return the token ids of a recording. (N,) -> (P,)"""
        patches = self.patches_of(samples)
        nearest = _nearest(patches.reshape(len(patches), -1), self.patches.reshape(len(self.patches), -1))
        return (nearest + len(SPECIALS)).tolist()

    def spectrogram(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """Return the patches of token ids, without special tokens. (P,) -> (P, 4, M)"""
        return self.patches[[i - len(SPECIALS) for i in ids if i >= len(SPECIALS)]]

    def samples(self, ids: Sequence[int]) -> Samples:
        """Return the sound of token ids. (P,) -> (N,)"""
        import torch

        from ..model.fronts.frames import waveform

        frames = torch.from_numpy(self.spectrogram(ids)).flatten(0, 1)
        wave: Tensor = waveform(self._front, frames) * 32767
        return wave.round().clamp(-32767, 32767).to(torch.int16).numpy()

    @cached_property
    def _front(self) -> "Frames":
        from ..model.fronts.frames import Frames

        return Frames(1, self.sample_rate, self.patches.shape[2])

    def patches_json(self) -> str:
        """Return the member "codebook" of a tokenizer file, with the patches in base64."""
        patches = base64.b64encode(self.patches.astype(_STORED).tobytes()).decode()
        about = {"sample_rate": self.sample_rate, "n_mels": self.patches.shape[2], "patches": patches}
        return f'"{KEY}": {json.dumps(about)}'

    @classmethod
    def from_content(cls, content: Any) -> Self:
        """Read the value of that member, as parsed JSON. Raise an exception if it's damaged."""
        patches = np.frombuffer(base64.b64decode(content["patches"]), _STORED).astype(np.float32)
        return cls(patches.reshape(-1, SUBSAMPLING, int(content["n_mels"])), int(content["sample_rate"]))


def _nearest(vectors: NDArray[np.float32], means: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return the index of the mean that is nearest to each vector. (N, D), (C, D) -> (N,)"""
    return np.argmin(np.square(means).sum(1) - 2 * vectors @ means.T, 1)


def _means(vectors: NDArray[np.float32], most: int) -> NDArray[np.float32]:
    """Return the means of clusters of vectors (Lloyd's algorithm). (N, D) -> (C, D), with C <= most

    A cluster that becomes empty keeps its mean.
    """
    means = _first_means(vectors[:_SEEDS], most)
    for _ in range(_ROUNDS):
        nearest = _nearest(vectors, means)
        counts = np.bincount(nearest, minlength=len(means))
        filled, starts = np.flatnonzero(counts), counts.cumsum() - counts
        sums = np.add.reduceat(vectors[np.argsort(nearest, kind="stable")], starts[filled], axis=0)
        means[filled] = sums / counts[filled, None]
    return means


def _first_means(vectors: NDArray[np.float32], most: int) -> NDArray[np.float32]:
    """Draw different vectors, each with a probability proportional to its squared distance from those drawn before.

    This is k-means++ (Arthur & Vassilvitskii 2007).
    """
    random, drawn = np.random.default_rng(0), [0]
    distance = np.square(vectors - vectors[0]).sum(1)
    while len(drawn) < most and (total := distance.sum(dtype=np.float64)) > 0:
        place = int(np.searchsorted(distance.cumsum(dtype=np.float64), random.random() * total, side="right"))
        drawn.append(min(place, len(vectors) - 1))
        distance = np.minimum(distance, np.square(vectors - vectors[drawn[-1]]).sum(1))
    return vectors[drawn]
