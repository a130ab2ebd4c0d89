"""Running text as tokens in blocks: what a language model reads at once, and the order of it in each epoch."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from ...data.encoding import Encoded
from ...data.running_text import Running
from ...readers.skipped import Skipped
from ...tokenization.ragged import IntArray, Ragged
from ...tokenization.tokenizer import BOS, EOS, PAD, UNK, Tokenizer

_NAMED = 3  # of the characters that the vocabulary lacks
_LACKS = "pieces of text with characters or words that the vocabulary lacks; these are learnt as <unk>"


@dataclass(frozen=True)
class BlockPlan:
    """The batches of any epoch over running text: blocks of `length` tokens one behind the other, and after each the
    token that its last one predicts. The rows are the places where the blocks begin.

    Every epoch but the first begins somewhere in the first block, so that a token is met at all distances from where
    its block begins.
    """

    n_tokens: int
    length: int
    together: int  # blocks in a batch
    seed: int

    def epoch(self, epoch: int) -> list[IntArray]:
        """The places of each batch, in an order that is a function of (seed, epoch)."""
        rng = np.random.default_rng([self.seed, epoch])
        first = int(rng.integers(min(self.length, self.n_tokens - self.length))) if epoch else 0
        starts = rng.permutation(np.arange(first, self.n_tokens - self.length, self.length))
        return [starts[i : i + self.together] for i in range(0, len(starts), self.together)]

    def predictions(self, rows: IntArray) -> int:
        """Every token of a block predicts the next."""
        return len(rows) * self.length

    def tokens(self, rows: IntArray) -> int:
        """The same."""
        return self.predictions(rows)

    def sizes(self) -> list[int]:
        """Tokens of each batch of the first epoch."""
        return [self.predictions(rows) for rows in self.epoch(0)]


@dataclass(frozen=True)
class Blocks:
    """Running text as tokens, all documents one behind the other, to be read in blocks of `length`.

    What is left behind the last whole block is a shorter one, with the `rest`, or is passed over in an epoch.
    """

    documents: Ragged
    length: int
    rest: bool = False

    def __len__(self) -> int:
        predicted = max(len(self.documents.tokens) - 1, 0)
        return -(-predicted // self.length) if self.rest else predicted // self.length

    @property
    def tokens(self) -> int:
        """Those of an epoch."""
        return len(self.documents.tokens) - 1 if self.rest else len(self) * self.length

    @property
    def starts(self) -> IntArray:
        """Where the blocks begin, in the order of the text."""
        return np.arange(len(self)) * self.length

    @property
    def sides(self) -> tuple[Ragged, Ragged]:
        """As a store keeps them: there is nothing but what is predicted."""
        return Ragged([[]] * len(self.documents)), self.documents

    def batches(self, max_tokens: int, seed: int = 0, max_rows: int | None = None) -> BlockPlan:
        """As many blocks together as the tokens allow, one at least."""
        together = max(max_tokens // self.length, 1)
        return BlockPlan(len(self.documents.tokens), self.length, min(together, max_rows or together), seed)

    def at(self, starts: IntArray, length: int) -> IntArray:
        """Blocks and what follows each; behind the end there is padding. (B,) -> (B, length + 1)"""
        places = starts[:, None] + np.arange(length + 1)
        text, behind = self.documents.tokens, places >= len(self.documents.tokens)
        found = np.asarray(text[np.where(behind, 0, places)], np.int64)
        found[behind] = PAD
        return found


class TextEncoder:
    """Cuts pieces of running text into tokens: a document begins with BOS and ends with EOS."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    def __call__(self, text: Running) -> Encoded:
        """All pieces; none is left out."""
        found = self.tokenizer.encode_batch(text.pieces)
        unknown = [
            Skipped(text.lines[i], _LACKS, ", ".join(self.tokenizer.unknown_words(text.pieces[i])[:_NAMED]))
            for i, ids in enumerate(found)
            if UNK in ids
        ]
        tokens = [[BOS] * first + ids + [EOS] * last for ids, first, last in zip(found, text.first, text.last)]
        return Encoded(Ragged([[]] * len(tokens)), Ragged(tokens), [*range(len(tokens))], [], unknown)

    def each(self, chunks: Iterable[Running], count: int, processes: int) -> Iterator[Encoded]:
        """Of each chunk; the library itself uses all cores."""
        yield from map(self, chunks)
