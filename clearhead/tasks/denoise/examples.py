"""Pieces of text as examples for denoising, and scores."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from ...data.batches import Batches
from ...data.encoding import Encoded
from ...readers.skipped import Skipped
from ...tokenization.ragged import Ragged
from ...tokenization.tokenizer import Tokenizer
from ..examples import ExampleEncoder, Examples, HeldOut
from .masking import count_to_find


@dataclass(frozen=True)
class PieceEncoder(ExampleEncoder):
    """Tokenizes texts and cuts them into pieces.

    Args:
        tokenizer: the tokenizer of the texts.
        longest: maximum number of tokens in a piece, not counting special tokens.
        texts: function that returns all texts in a chunk of data.
        sides: function that returns the sources and targets for tokenized pieces.
    """

    tokenizer: Tokenizer
    longest: int
    texts: Callable[[Any], Sequence[str]]
    sides: Callable[[Ragged], tuple[Ragged, Ragged]]

    def __call__(self, data: Any) -> Encoded:
        """Cut every text into pieces. A text without tokens gives none."""
        size, found = self.longest, self.tokenizer.encode_batch(self.texts(data))
        pieces = [ids[i : i + size] for ids in found for i in range(0, len(ids), size)]
        pieces = [ids for ids in pieces if count_to_find(ids, self.tokenizer.special)]
        return Encoded(*self.sides(Ragged(pieces)), [*range(len(pieces))], [], list[Skipped]())

    def hold_out(self, data: Any, examples: Callable[[Ragged, Ragged], Examples]) -> HeldOut:
        """Prepare texts for scoring."""
        found = self(data)
        return HeldOut(examples(found.sources, found.targets), [], 0, list(self.texts(data)), [])


@dataclass(frozen=True)
class MaskedTexts(Examples):
    """Tokenized texts. The target of each text is its number of tokens to mask."""

    given: ClassVar[int] = 0
    counts_sources: ClassVar[bool] = True

    def batches(self, max_tokens: int, seed: int = 0, max_rows: int | None = None) -> Batches:
        """Return batches of texts of similar length. They count masked tokens as predictions."""
        counts = np.asarray(self.targets.tokens, np.int64)
        return Batches(self.sources.lengths, counts, max_tokens, seed, max_rows, self.counts_sources)


@dataclass(frozen=True)
class DenoisingScores:
    """Scores for recovering masked tokens."""

    texts: int
    hidden_accuracy: float
    hidden_perplexity: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)
