"""The pairs to train on, in as many readings as it takes, so that they need not fit into memory."""

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, islice
from typing import Self

import numpy as np

from ..errors import DataError
from ..readers.lines import shown
from ..readers.pairs import Pair, Pairs, PairSource
from .split import Split, split

_CHUNK, _LETTERS = 16_384, 1 << 22  # pairs that are in memory together, and about their letters
_SHOWN = 3  # groups of labels
_LEARN = 2_000_000  # pairs that a tokenizer learns from: more of them change a vocabulary no more


@dataclass(frozen=True)
class Corpus:
    """The pairs of a source without those that are held out, which one reading has told apart."""

    source: PairSource
    split: Split
    letters: int = 0  # of all pairs, both sides

    @classmethod
    def of(cls, source: PairSource, share: float, seed: int) -> Self:
        """Read all of it once; `share` and `seed` as `split` takes them."""
        letters = 0

        def counted() -> Iterator[str]:
            nonlocal letters
            for _, text, other in source:
                letters += len(text) + len(other)
                yield text

        return cls(source, split(counted(), share, seed, source.roles.plural), letters)

    def __len__(self) -> int:
        return len(self.split.held) - self._n_held

    @property
    def note(self) -> str:
        """What was held out, in words."""
        return self.split.note

    @property
    def _n_held(self) -> int:
        return int(self.split.held.sum())

    def __iter__(self) -> Iterator[Pair]:
        return self._read(held=False)

    def held_out(self) -> Pairs:
        """The pairs held out, in memory."""
        return Pairs.of(self._read(held=True) if self._n_held else (), self.source.report)

    def chunks(self) -> Iterator[Pairs]:
        """The pairs to train on, 16,384 at a time, or fewer where they are long."""
        pairs = iter(self)
        while len(chunk := Pairs.of(_some(pairs), self.source.report)):
            yield chunk

    def texts(self, most: int = _LEARN) -> tuple["Texts", "Texts | tuple[()]"]:
        """Sources and targets for a tokenizer to learn from: of all pairs, or of `most` spread evenly over them."""
        return Texts(self, 1, most), Texts(self, 2, most)

    def _read(self, *, held: bool) -> Iterator[Pair]:
        """One side of the split. That the data change meanwhile is a DataError."""
        apart, count = self.split.held.tobytes(), 0
        for pair in self.source:
            if count < len(apart) and apart[count] == held:
                yield pair
            count += 1
        if count != len(apart):
            paths = " and ".join(self.source.report.paths)
            raise DataError(f"{paths} changed while being read: {len(apart):,} pairs first, then {count:,}; read again")


class LabelledCorpus(Corpus):
    """Texts with labels: no tokenizer learns from the labels, which are names and not text."""

    @property
    def note(self) -> str:
        """What was held out, and what looks like a slip among the texts to train on, in words."""
        return "\n".join([super().note, *self._counted[1]])

    def texts(self, most: int = _LEARN) -> tuple["Texts", tuple[()]]:
        """The texts to train on."""
        return Texts(self, 1, most), ()

    def labels(self) -> tuple[str, ...]:
        """All that are trained on, sorted."""
        return self._counted[0]

    @cached_property
    def _counted(self) -> tuple[tuple[str, ...], list[str]]:
        """The labels, and what is to be known of them, from one reading."""
        labels, hashes = set[str](), array("q")
        for _, text, label in self:
            labels.add(label)
            hashes.extend((hash(_folded(text)), hash(label)))
        notes, distinct = [], np.unique(np.asarray(hashes, np.int64).reshape(-1, 2), axis=0)
        if several := int((np.unique(distinct[:, 0], return_counts=True)[1] > 1).sum()):
            have = f"{several:,} texts have" if several > 1 else "1 text has"
            notes.append(f"  {have} several labels: each of these is learnt, though only one can be answered")
        alike = groupby(sorted(labels, key=lambda it: (_folded(it), it)), key=_folded)
        for group in [named for _, it in alike if len(named := [*it]) > 1][:_SHOWN]:
            notes.append(f"  labels of their own, though they are spelt almost alike: {', '.join(map(shown, group))}")
        return tuple(sorted(labels)), notes


def _folded(text: str) -> str:
    """Without what a slip of the hand changes: case and white space."""
    return " ".join(text.casefold().split())


def _some(pairs: Iterator[Pair]) -> Iterator[Pair]:
    """The next pairs, as many as may be in memory together."""
    letters = 0
    for pair in islice(pairs, _CHUNK):
        yield pair
        letters += len(pair[1]) + len(pair[2])
        if letters >= _LETTERS:
            return


@dataclass(frozen=True)
class Texts(Iterable[str]):
    """One side of the pairs to train on, read anew by every loop over it."""

    corpus: Corpus
    side: int
    most: int

    def __len__(self) -> int:
        return min(len(self.corpus), self.most)

    def __iter__(self) -> Iterator[str]:
        total, most = len(self.corpus), len(self)
        for i, pair in enumerate(self.corpus):
            if (i + 1) * most // total > i * most // total:
                yield pair[self.side]  # type: ignore[misc]  # a text, the side being 1 or 2
