"""Recordings as samples, with the tokens of their transcripts."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...data.media_encoding import AudioLoader
from ...tokenization.ragged import IntArray
from ..examples import Examples, HeldOut


@dataclass(frozen=True)
class Transcribed(Examples):
    """Recordings as samples; transcripts begin with the decoder's first input, and end with EOS."""

    loader: AudioLoader = field(kw_only=True)

    @property
    def source_sizes(self) -> IntArray:
        """The positions of each recording in the encoder. (N,)"""
        return self.loader.positions(self.sources.lengths)


@dataclass(frozen=True)
class HeldOutRecordings(HeldOut):
    """Held-out recordings; `arrays` has the samples of each source, so that files are read only once."""

    arrays: list[NDArray[np.integer[Any]]]
