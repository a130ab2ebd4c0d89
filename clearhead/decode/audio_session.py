"""A session whose sources are recordings."""

import hashlib
from collections.abc import Callable, Sequence

import numpy as np

from ..config import DecodeConfig, SpecialTokens
from ..config.front_geometry import audio_positions
from .engine import Engine
from .session import Session


class AudioSession(Session):
    """A session whose sources are 16-bit samples (N,). Their length counts in positions of the encoder.

    Args:
        sample_rate: samples per second. See `Session` for the others.
    """

    def __init__(
        self,
        engine: Engine,
        config: DecodeConfig,
        special: SpecialTokens,
        *,
        sample_rate: int,
        max_len: int | None = None,
        suppress: Sequence[int] | None = None,
        detokenize: Callable[[Sequence[int]], str] | None = None,
    ) -> None:
        super().__init__(engine, config, special, max_len=max_len, suppress=suppress, detokenize=detokenize)
        self.sample_rate = sample_rate

    def _inputs(self, sources: Sequence[Sequence[int]]) -> list[list[int]]:
        return list(sources)  # type: ignore[arg-type]

    def length(self, source: Sequence[int]) -> int:
        return audio_positions(len(source), self.sample_rate)

    def _key(self, source: Sequence[int]) -> Sequence[int]:
        return [*hashlib.blake2b(np.asarray(source, "<i2").tobytes(), digest_size=16).digest()]
