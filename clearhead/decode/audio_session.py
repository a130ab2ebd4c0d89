"""A session whose sources are recordings."""

import hashlib
from collections.abc import Sequence

import numpy as np

from ..config.front_geometry import audio_positions
from .session import Session


class AudioSession(Session):
    """A session whose sources are 16-bit samples (N,). Their length counts in positions of the encoder."""

    sample_rate: int

    def _inputs(self, sources: Sequence[Sequence[int]]) -> list[list[int]]:
        return list(sources)  # type: ignore[arg-type]

    def _length(self, source: Sequence[int]) -> int:
        return audio_positions(len(source), self.sample_rate)

    def _key(self, source: Sequence[int]) -> Sequence[int]:
        return [*hashlib.blake2b(np.asarray(source, "<i2").tobytes(), digest_size=16).digest()]
