"""A model ready to decode: many sequences in any order go in, answers in the same order come out."""

from collections.abc import Iterator, Sequence

import numpy as np

from ..config import DecodeConfig
from ..errors import DataError
from ..text.tokenizer import BOS, EOS, PAD, UNK
from .search import Engine, Hypothesis, Rules, beam_search

SHORTEST = 8  # tokens that a shorter source counts as in a batch: what a row costs does not shrink with its source


class Session:
    """Sorts sequences by length, decodes them in batches, and gives the answers in the order of the sequences.

    A batch holds at most `config.batch_tokens` tokens: sources times beams times the longest source. Which sequences
    share a batch changes no answer, but for the rounding of the engine.
    """

    def __init__(self, engine: Engine, config: DecodeConfig, *, max_len: int | None = None) -> None:
        """`max_len`: the most positions that the model has, where its positions are a table."""
        self.engine, self.config, self.max_len = engine, config, max_len
        self.rules = Rules(end=EOS, never=(PAD, BOS, UNK), beam=config.beam, alpha=config.alpha)

    def answers(self, sources: Sequence[Sequence[int]]) -> list[list[Hypothesis]]:
        """The hypotheses for every source, best first. Sources are ids without special tokens, and may be empty."""
        found = dict(self.stream(sources))
        return [found[place] for place in range(len(sources))]

    def stream(self, sources: Sequence[Sequence[int]]) -> Iterator[tuple[int, list[Hypothesis]]]:
        """(place, hypotheses) of every source as soon as its batch is done, longest sources first.

        A source that needs more positions than the model has is a DataError, before anything is decoded.
        """
        for place, source in enumerate(sources):
            if self.max_len is not None and len(source) >= self.max_len:
                raise DataError(
                    f"sequence {place + 1} has {len(source)} tokens; expected at most {self.max_len - 1}, "
                    "since the model has no positions beyond: split it"
                )
        for places in self._batches([len(source) for source in sources]):
            yield from zip(places, self._decode([sources[place] for place in places]))

    def _decode(self, sources: list[Sequence[int]]) -> list[list[Hypothesis]]:
        limits = np.array([len(source) + self.config.max_extra for source in sources], np.int64)
        if self.max_len is not None:
            limits = limits.clip(max=self.max_len)
        with self.engine.prefill([[*source, EOS] for source in sources], int(limits.max())) as decoding:
            return beam_search(decoding, np.full(len(sources), BOS, np.int64), limits, self.rules)

    def _batches(self, lengths: list[int]) -> Iterator[list[int]]:
        """Places, longest first, so that a machine with too little memory fails at once and not in the end."""
        batch: list[int] = []
        for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
            longest = max(lengths[batch[0] if batch else place] + 1, SHORTEST)
            tokens = (len(batch) + 1) * self.config.beam * longest
            if batch and tokens > self.config.batch_tokens:
                yield batch
                batch = []
            batch.append(place)
        if batch:
            yield batch
