"""Sounds as samples, with the tokens of their transcripts."""

from dataclasses import dataclass, field

from ...data.media_encoding import SoundLoader
from ...tokenization.ragged import IntArray
from ..examples import Examples


@dataclass(frozen=True)
class Transcribed(Examples):
    """Sounds as samples; transcripts begin with BOS and end with EOS."""

    loader: SoundLoader = field(kw_only=True)

    @property
    def source_sizes(self) -> IntArray:
        """The positions of each sound in the encoder. (N,)"""
        return self.loader.positions(self.sources.lengths)
