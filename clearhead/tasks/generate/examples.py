"""Running text in blocks for a language model, the order of blocks in each epoch, and scores."""

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ...config import SpecialTokens
from ...data.encoding import Encoded
from ...data.running_text import Running
from ...readers.skipped import Skipped
from ...tokenization.ragged import IntArray, Ragged
from ...tokenization.tokenizer import Tokenizer
from ..examples import ExampleEncoder, HeldOut


@dataclass(frozen=True)
class BlockPlan:
    """The batches of each epoch over running text. A row is the position at which a block begins.

    A block has `length` tokens, and the next token as a target for the last one. Every epoch but the first begins at a
    random position within the first block, so that tokens occur at all distances from the start of a block.
    """

    n_tokens: int
    length: int
    together: int  # blocks in a batch
    seed: int

    def epoch(self, epoch: int) -> list[IntArray]:
        rng = np.random.default_rng([self.seed, epoch])
        first = int(rng.integers(min(self.length, self.n_tokens - self.length))) if epoch else 0
        starts = rng.permutation(np.arange(first, self.n_tokens - self.length, self.length))
        return [starts[i : i + self.together] for i in range(0, len(starts), self.together)]

    def predictions(self, rows: IntArray) -> int:
        """Return the number of predicted tokens: every token of a block predicts the next one."""
        return len(rows) * self.length

    def tokens(self, rows: IntArray) -> int:
        return self.predictions(rows)

    def sizes(self) -> list[int]:
        return [self.predictions(rows) for rows in self.epoch(0)]


@dataclass(frozen=True)
class Blocks:
    """The tokens of all documents, joined and read in blocks of `length`.

    With `rest`, the tokens after the last full block form a shorter one, padded with `pad`. Otherwise, they're
    dropped.
    """

    documents: Ragged
    length: int
    pad: int
    rest: bool = False

    def __len__(self) -> int:
        predicted = max(len(self.documents.tokens) - 1, 0)
        return -(-predicted // self.length) if self.rest else predicted // self.length

    @property
    def tokens(self) -> int:
        return len(self.documents.tokens) - 1 if self.rest else len(self) * self.length

    @property
    def starts(self) -> IntArray:
        """The positions at which blocks begin, in ascending order."""
        return np.arange(len(self)) * self.length

    @property
    def sides(self) -> tuple[Ragged, Ragged]:
        """Empty sources, and the documents as targets, as a store keeps them."""
        return Ragged([[]] * len(self.documents)), self.documents

    def batches(self, max_tokens: int, seed: int = 0, max_rows: int | None = None) -> BlockPlan:
        """Return the batches of each epoch, with at least one block per batch.

        Args:
            max_tokens: maximum number of tokens in a batch.
            seed: seed of the order, which is different in each epoch.
            max_rows: maximum number of blocks in a batch (default: no limit).
        """
        together = max(max_tokens // self.length, 1)
        return BlockPlan(len(self.documents.tokens), self.length, min(together, max_rows or together), seed)

    def at(self, starts: IntArray, length: int) -> IntArray:
        """Return blocks and the token after each, padded after the end of the text. (B,) -> (B, length + 1)"""
        places = starts[:, None] + np.arange(length + 1)
        text, behind = self.documents.tokens, places >= len(self.documents.tokens)
        found = np.asarray(text[np.where(behind, 0, places)], np.int64)
        found[behind] = self.pad
        return found


class TextEncoder(ExampleEncoder):
    """Tokenizes pieces of running text. A document begins with BOS and ends with EOS.

    If both are the same token, it appears once between two documents.
    """

    def __init__(self, tokenizer: Tokenizer, special: SpecialTokens) -> None:
        self.tokenizer, self.special = tokenizer, special

    def __call__(self, text: Running) -> Encoded:
        found = self.tokenizer.encode_batch(text.texts)
        unknown = [
            Skipped.with_unknown(piece.line, "pieces of text", self.tokenizer.unknown_words(piece.text))
            for piece, ids in zip(text.pieces, found)
            if self.special.unk in ids
        ]
        begins, ends = [piece.first for piece in text.pieces], [piece.last for piece in text.pieces]
        if self.special.bos == self.special.eos:
            begins = [first and not ended for first, ended in zip(begins, [False, *ends])]
        bos, eos = [self.special.bos], [self.special.eos]
        tokens = [bos * first + ids + eos * last for ids, first, last in zip(found, begins, ends)]
        return Encoded(Ragged([[]] * len(tokens)), Ragged(tokens), [*range(len(tokens))], [], unknown)


@dataclass(frozen=True)
class HeldOutText(HeldOut):
    """Held-out running text for scoring. Its sources are the texts of its blocks.

    Args:
        characters: its length in characters, after normalisation (data.normalise).
        bytes: its length in UTF-8 bytes, after normalisation.
        unknown: the number of tokens that are <unk>.
    """

    characters: int = field(kw_only=True)
    bytes: int = field(kw_only=True)
    unknown: int = field(kw_only=True)


@dataclass(frozen=True)
class TextScores:
    """Scores for predicting text.

    bits per byte = sum of -log2 p(token) / bytes of the text in UTF-8

    `loss` is in nats per token, so it depends on the vocabulary; bits per byte don't. An unknown token counts with the
    probability of <unk>, so bits per byte are too low for a text with many of them.
    """

    characters: int
    bits_per_byte: float
    nats_per_character: float
    loss: float
    perplexity: float
    token_accuracy: float
    unknown: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)
