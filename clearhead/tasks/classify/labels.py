"""Texts and their labels as tokens and numbers, and which labels there are."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...config import Config
from ...data.corpus import LabelledCorpus
from ...data.encoding import Encoded
from ...errors import DataError
from ...readers.lines import shown
from ...readers.pairs import Pairs
from ...readers.skipped import Skipped
from ...tokenization.ragged import IntArray, Ragged
from ...tokenization.tokenizer import BOS, EOS, UNK, Tokenizer
from ..examples import Examples

_MOST = 1000  # labels: of more a column holds numbers, or texts
_OWN = 0.9  # labels a text: where there are more, hardly one comes again
_ENOUGH = 20  # texts that tell that
_NAMED = 3  # of them, in a message; and of the words that the vocabulary lacks
UNSEEN = "with a label that no text of the training has"
_OTHERS = "if another column holds the labels: --target-column NAME, and for the texts --source-column NAME"
_LACKS = "texts with words or characters that the vocabulary lacks; these are learnt as <unk>"


@dataclass(frozen=True)
class LabelledTexts(Examples):
    """Texts as tokens, and on the other side the number of the label of each."""

    given: ClassVar[int] = 0
    counts_sources: ClassVar[bool] = True

    @cached_property
    def numbers(self) -> IntArray:
        """The label of each text. (N,)"""
        return np.asarray(self.targets.tokens, np.int64)

    def weights(self, n_labels: int) -> NDArray[np.float32]:
        """What a text of each label counts, so that all labels together weigh the same and the mean text 1. (C,)

        N / (C times the texts with the label)
        """
        counts = np.bincount(self.numbers, minlength=n_labels)
        return (len(self) / (n_labels * counts.clip(min=1))).astype(np.float32)


@dataclass(frozen=True)
class LabelledEncoder:
    """Makes tokens of texts, EOS at the end and, where it `begins`, BOS in front, and numbers of their labels.

    Of a text that has more than `longest` tokens the beginning is kept: what `limit` says. Its label is still right.
    """

    tokenizer: Tokenizer
    labels: Sequence[str]
    longest: int
    limit: str
    begins: bool = False

    def tokens(self, texts: Sequence[str]) -> tuple[list[list[int]], list[int]]:
        """Those of each text, and how many were cut off at its end."""
        encoded, first = self.tokenizer.encode_batch(texts), [BOS] * self.begins
        cut = [max(len(ids) - self.longest, 0) for ids in encoded]
        return [[*first, *ids[: self.longest], EOS] for ids in encoded], cut

    def __call__(self, pairs: Pairs) -> Encoded:
        """All texts, none left out; of those that are cut or have unknown words it is said."""
        numbers = {label: number for number, label in enumerate(self.labels)}
        tokens, cut = self.tokens(pairs.sources)
        reason = f"texts longer than {self.longest} tokens ({self.limit}); only their beginning is read"
        noticed = [Skipped(int(pairs.lines[i]), reason, pairs.sources[i]) for i, count in enumerate(cut) if count]
        for i in (i for i, ids in enumerate(tokens) if UNK in ids):
            words = ", ".join(self.tokenizer.unknown_words(pairs.sources[i])[:_NAMED])
            noticed.append(Skipped(int(pairs.lines[i]), _LACKS, words))
        targets = Ragged([[numbers[label]] for label in pairs.targets])
        return Encoded(Ragged(tokens), targets, [*range(len(tokens))], [], noticed)

    def each(self, chunks: Iterable[Pairs], count: int, processes: int) -> Iterator[Encoded]:
        """Of each chunk; the library itself uses all cores."""
        yield from map(self, chunks)


@dataclass(frozen=True)
class HeldOutTexts:
    """Texts to score on. `labels` are those of the model and behind them the ones that it cannot give; the loss, by the
    `examples`, passes over the texts of these, as it does elsewhere over what is too long."""

    examples: LabelledTexts
    too_long: list[Skipped]
    cut: int
    sources: Sequence[str]
    tokens: Ragged
    labels: tuple[str, ...]
    truth: IntArray  # (N,), of all texts

    @property
    def references(self) -> list[list[str]]:
        """The label of each text."""
        return [[self.labels[number]] for number in self.truth]

    @classmethod
    def of(cls, pairs: Pairs, encoder: LabelledEncoder) -> "HeldOutTexts":
        """All texts, those with a label that training did not have, too: whatever is said of them is wrong."""
        known = set(encoder.labels)
        labels = (*encoder.labels, *sorted({*pairs.targets} - known))
        numbers = {label: number for number, label in enumerate(labels)}
        tokens, cut = encoder.tokens(pairs.sources)
        can_be = [i for i, label in enumerate(pairs.targets) if label in known]
        truth = [numbers[label] for label in pairs.targets]
        unseen = [
            Skipped(line, UNSEEN, f"{label}: {text}")
            for line, text, label in zip(pairs.lines, pairs.sources, pairs.targets)
            if label not in known
        ]
        examples = LabelledTexts(Ragged([tokens[i] for i in can_be]), Ragged([[truth[i]] for i in can_be]))
        places = np.array(truth, np.int64)
        return cls(examples, unseen, sum(map(bool, cut)), pairs.sources, Ragged(tokens), labels, places)


def labels_of(corpus: Any, config: Config) -> dict[str, Any]:
    """The labels of the data as settings; a DataError where they are too few or too many to be labels.

    A model to begin with keeps its own, which must hold all of the data's.
    """
    assert isinstance(corpus, LabelledCorpus)
    labels, source = corpus.labels(), corpus.source
    has = f"{' and '.join(source.report.paths)} {'have' if source.is_aligned else 'has'}"
    form = f"  read as {source.report.form}" + (f"\n  {_OTHERS}" if not source.is_aligned else "")
    if config.train.init_from and config.data.labels:
        if lacking := sorted({*labels} - {*config.data.labels}):
            raise DataError(
                f"{has} {_named(lacking)}, which {config.train.init_from} did not learn; expected some of its "
                f"{_named(config.data.labels)}; or train a new model, without train.init_from"
            )
        return {}
    if not 2 <= len(labels) <= _MOST:
        raise DataError(f"{has} {_named(labels)} to train on; expected 2 to {_MOST:,} labels\n{form}")
    if len(corpus) >= _ENOUGH and len(labels) > _OWN * len(corpus):
        raise DataError(
            f"{has} {_named(labels)} for {len(corpus):,} texts to train on, almost one for each; expected labels "
            f"that come again and again: numbers are not predicted\n{form}"
        )
    return {"data.labels": labels, "model.n_classes": len(labels)}


def _named(labels: Sequence[str]) -> str:
    names = ", ".join(map(shown, labels[:_NAMED]))
    return f"{len(labels):,} label{'s' * (len(labels) != 1)} ({names}{', …' * (len(labels) > _NAMED)})"
