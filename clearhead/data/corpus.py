"""Training pairs, re-read from files as needed, so they don't have to fit into memory."""

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import Any, Self, TypeVar

import numpy as np

from ..config import Config
from ..errors import DataError
from ..readers.column_roles import label_list
from ..readers.lines import shown
from ..readers.pairs import Pair, Pairs, PairSource
from .split import Split, n_repeated, split

_CHUNK, _LETTERS = 16_384, 1 << 22  # maximum number of pairs in memory, and of their characters
_SEPARATORS = "|;,"  # characters that may join labels
_SHOWN = 3  # groups of labels listed in a note
LEARN = 2_000_000  # pairs that a tokenizer learns from; more wouldn't change the vocabulary

T = TypeVar("T")


@dataclass(frozen=True)
class Corpus:
    """The training pairs of a source. The held-out pairs are separate."""

    source: PairSource
    split: Split
    letters: int = 0  # characters in all pairs, both sides
    key: Callable[[str], str] | None = None
    sides: Sequence[int] = ()  # those with texts that tokenizers learn from: 1 for sources, 2 for targets

    @classmethod
    def of(
        cls,
        source: Any,
        share: float,
        seed: int,
        key: Callable[[str], str] | None = None,
        sides: Sequence[int] | None = None,
    ) -> Self:
        """Read everything once, and hold out a share (see `split`).

        Args:
            share: fraction to hold out.
            seed: decides which ones are held out.
            key: returns a key that's equal for copies of a source, which stay together (default: the source).
            sides: those to learn tokenizers from: 1 for sources, 2 for targets (default: those that aren't labels).
        """
        letters = 0

        def counted() -> Iterator[str]:
            nonlocal letters
            for _, text, other in source:
                letters += len(text) + len(other)
                yield key(text) if key else text

        found = split(counted(), share, seed, source.roles.plural, source.roles.item)
        texts = (1,) if source.roles.labels else (1, 2)
        return cls(source, found, letters, key, texts if sides is None else sides)

    def __len__(self) -> int:
        return len(self.split.held) - self._n_held

    @property
    def note(self) -> str:
        return self.split.note

    @property
    def _n_held(self) -> int:
        return int(self.split.held.sum())

    def __iter__(self) -> Iterator[Pair]:
        return self._read(held=False)

    def held_out(self) -> Pairs:
        return Pairs.of(self._read(held=True) if self._n_held else (), self.source.report)

    def chunks(self) -> Iterator[Pairs]:
        """Yield the training pairs, 16,384 at a time, or fewer if they're long."""
        for chunk in in_chunks(self, lambda pair: len(pair[1]) + len(pair[2]), _LETTERS):
            yield Pairs.of(chunk, self.source.report)

    def texts(self, most: int = LEARN) -> tuple["SpacedTexts | tuple[()]", "SpacedTexts | tuple[()]"]:
        """Return the texts of each side that tokenizers learn from: all, or `most` evenly spaced ones."""
        first, second, *_ = [*(SpacedTexts(self, most, itemgetter(side)) for side in self.sides), (), ()]
        return first, second

    def repeats(self, data: Pairs, what: str) -> str:
        """Return a note on the sources of other data that are also training sources, or ""."""
        count, plural = n_repeated(data.sources, (text for _, text, _ in self)), self.source.roles.plural[0]
        note = f"{count:,} of {len(data):,} {what} {plural} are also in the training data"
        return f"{note}, so their scores don't show how it does on new ones" if count else ""

    def _read(self, *, held: bool) -> Iterator[Pair]:
        """Yield the held-out pairs, or the others. Raise a DataError if the data has changed."""
        apart, count = self.split.held.tobytes(), 0
        for pair in self.source:
            if count < len(apart) and apart[count] == held:
                yield pair
            count += 1
        if count != len(apart):
            name = " and ".join(self.source.report.paths)
            what = f"{name} changed while being read: {len(apart):,} pairs first, then {count:,}"
            raise DataError(what, fix="run the command again", name=name, value=count)


def origin_of(corpus: Any, config: Config) -> dict[str, Any]:
    """Return the licence and source stated in the data, as settings, unless the user set them."""
    report = corpus.source.report
    stated = {"data.licence": report.licence, "data.source": report.source}
    return {name: value for name, value in stated.items() if value and not config.value(name)}


class LabelledCorpus(Corpus):
    """Texts with labels; tokenizers don't learn from the labels."""

    @property
    def note(self) -> str:
        """A note on what was held out, and on likely mistakes in the training texts."""
        return "\n".join([super().note, *self._counted[1]])

    def labels(self) -> tuple[str, ...]:
        """Return the labels of the training texts, sorted."""
        return self._counted[0]

    @cached_property
    def _counted(self) -> tuple[tuple[str, ...], list[str]]:
        """Read the data once, and return the labels and notes on them."""
        labels, hashes, identity = set[str](), array("q"), self.key or _folded
        for _, text, label in self:
            labels.update(label_list(label))
            hashes.extend((hash(identity(text)), hash(label)))
        what = self.source.roles.plural[0]
        notes, distinct = [], np.unique(np.asarray(hashes, np.int64).reshape(-1, 2), axis=0)
        if several := int((np.unique(distinct[:, 0], return_counts=True)[1] > 1).sum()):
            have = f"{several:,} {what} have" if several > 1 else f"1 {what.removesuffix('s')} has"
            why = "several labels: the model learns each of them, but can predict only one"
            if self.source.roles.separator:
                why = f"different labels in different {self.source.report.unit}: the model learns all of them"
            notes.append(f"  {have} {why}")
        alike = [", ".join(map(shown, group)) for group in almost_alike(labels)[:_SHOWN]]
        notes += [f"  different labels with almost the same spelling: {group}" for group in alike]
        if mark := "" if self.source.roles.separator else _separator_in(labels):
            joined = shown(next(it for it in sorted(labels) if mark in it))
            notes.append(f"  {joined} is one label; if a text can have several, pass --as several:'{mark}'")
        return tuple(sorted(labels)), notes


def _separator_in(labels: Collection[str]) -> str:
    """Return the character that joins several of these labels into others, or ""."""
    for mark in _SEPARATORS:
        joined = [it for it in labels if mark in it]
        if len(joined) > 1 and all({part.strip() for part in it.split(mark)} <= {*labels} for it in joined):
            return mark
    return ""


def almost_alike(labels: Iterable[str]) -> list[list[str]]:
    """Return groups of labels that differ only in case or whitespace."""
    alike = groupby(sorted(labels, key=lambda it: (_folded(it), it)), key=_folded)
    return [named for _, it in alike if len(named := [*it]) > 1]


def _folded(text: str) -> str:
    """Fold case and whitespace."""
    return " ".join(text.casefold().split())


def in_chunks(examples: Iterable[T], length: Callable[[T], int], letters: int) -> Iterator[list[T]]:
    """Yield the examples in chunks of 16,384, or fewer if they're long.

    Args:
        examples: any examples.
        length: returns the number of characters of an example.
        letters: number of characters at which a chunk ends.
    """
    chunk, have = list[T](), 0
    for example in examples:
        chunk.append(example)
        have += length(example)
        if len(chunk) == _CHUNK or have >= letters:
            yield chunk
            chunk, have = [], 0
    if chunk:
        yield chunk


@dataclass(frozen=True)
class SpacedTexts(Iterable[str]):
    """The texts of evenly spaced examples, `most` at most, which are read again on each iteration."""

    examples: Any  # a sized iterable
    most: int
    text: Callable[[Any], str]  # returns the text of an example

    def __len__(self) -> int:
        return min(len(self.examples), self.most)

    def __iter__(self) -> Iterator[str]:
        total, most = len(self.examples), len(self)
        for i, example in enumerate(self.examples):
            if (i + 1) * most // total > i * most // total:
                yield self.text(example)
