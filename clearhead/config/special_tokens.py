"""Special tokens: the ids that frame and mask texts. They're data, since every vocabulary has its own."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, kw_only=True)
class SpecialTokens:
    """Ids of the special tokens. The defaults are those of the vocabularies that training learns.

    Args:
        pad: padding, which is masked and never predicted. A vocabulary without padding has it one past its last id.
        bos: begins a text.
        eos: ends a text. Some vocabularies have one token for both.
        more_eos: more tokens that end an answer.
        unk: stands for words missing from the vocabulary, or None if there is no such token.
        mask: replaces tokens that the model learns to recover, or None if there is no such token.
        start: the decoder's first input.
        ends: whether the sources of an encoder-decoder end with EOS.
    """

    pad: int = 0
    bos: int = 1
    eos: int = 2
    more_eos: tuple[int, ...] = ()
    unk: int | None = 3
    mask: int | None = 3
    start: int = 1
    ends: bool = True

    @cached_property
    def ids(self) -> frozenset[int]:
        """All ids."""
        found = (self.pad, self.bos, self.eos, self.unk, self.mask, self.start, *self.more_eos)
        return frozenset(i for i in found if i is not None)

    @property
    def never_generated(self) -> tuple[int, ...]:
        """The ids that aren't part of an answer: padding, BOS and UNK, unless one of them is also EOS."""
        return tuple(i for i in (self.pad, self.bos, self.unk) if i not in (None, self.eos))

    def source(self, ids: Sequence[int], *, begins: bool = False) -> list[int]:
        """Return the ids of a text as an encoder reads them: with EOS, and with BOS if it begins with that.

        If sources don't end with EOS, an empty one still has it, since an encoder has to read something.
        """
        return [*([self.bos] * begins), *ids, *([self.eos] * (self.ends or not ids))]

    def target(self, ids: Sequence[int]) -> list[int]:
        """Return the ids of a text as a decoder learns it: after the decoder's first input, and with EOS."""
        return [self.start, *ids, self.eos]

    def ordinary(self, vocab_size: int) -> list[int]:
        """Return the ids of a vocabulary that aren't special, or its last id if all are."""
        return [i for i in range(vocab_size) if i not in self.ids] or [vocab_size - 1]
