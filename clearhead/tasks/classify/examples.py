"""Labelled sources: their numbers, the labels of training data, and scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...config import Config
from ...data.corpus import LabelledCorpus
from ...data.encoding import Encoded
from ...data.media_encoding import Readable
from ...errors import DataError
from ...readers.column_roles import by_target, label_list
from ...readers.columns import is_number
from ...readers.lines import shown
from ...readers.pairs import Pairs
from ...readers.skipped import Report, Skipped
from ...scoring.class_scores import ClassScores, LabelSetScores
from ...tokenization.ragged import IntArray, Ragged
from ..examples import ExampleEncoder, Examples, HeldOut
from ..source_reader import SourceReader, TextReader

_NAMED = 3  # labels in a message
UNSEEN = "with a label that isn't in the training data"
_MOST = 1000  # maximum number of labels; a column with more has numbers or texts
_REPEATED = 0.9  # maximum labels per text; above this, hardly any label is repeated
_ENOUGH = 20  # minimum number of texts to apply this limit


@dataclass(frozen=True)
class LabelledExamples(Examples):
    """Texts as tokens, or images or recordings as numbers. The target of each is its label number."""

    given: ClassVar[int] = 0
    counts_sources: ClassVar[bool] = True

    @cached_property
    def numbers(self) -> IntArray:
        """The label of each source. (N,)"""
        return np.asarray(self.targets.tokens, np.int64)

    def weights(self, n_labels: int) -> NDArray[np.float32]:
        """Return a weight for each label. All labels have the same total weight, and the mean weight is 1. (C,)

        w_c = N / (C * number of sources with label c)
        """
        counts = np.bincount(self.numbers, minlength=n_labels)
        return (len(self) / (n_labels * counts.clip(min=1))).astype(np.float32)


@dataclass(frozen=True)
class LabelledEncoder(ExampleEncoder):
    """Tokenizes texts and numbers their labels.

    Args:
        reader: reads the texts.
        labels: all labels, in the order of their numbers.
        limit: name of the setting that limits the length of a text.
    """

    reader: TextReader
    labels: Sequence[str]
    limit: str

    def __call__(self, pairs: Pairs) -> Encoded:
        """Tokenize all texts. Truncated texts and unknown words are reported."""
        numbers = {label: number for number, label in enumerate(self.labels)}
        (tokens, cut), unk = self.reader.encode(pairs.sources), self.reader.tokenizer.special.unk
        reason = f"texts longer than {self.reader.longest} tokens ({self.limit}); only their beginning is read"
        noticed = [Skipped(int(pairs.lines[i]), reason, pairs.sources[i]) for i, count in enumerate(cut) if count]
        for i in (i for i, ids in enumerate(tokens) if unk in ids):
            words = self.reader.unknown_words(pairs.sources[i])
            noticed.append(Skipped.with_unknown(int(pairs.lines[i]), "texts", words))
        targets = Ragged([[numbers[label] for label in label_list(target)] for target in pairs.targets])
        return Encoded(Ragged(tokens), targets, [*range(len(tokens))], [], noticed)


@dataclass(frozen=True)
class HeldOutLabelled(HeldOut):
    """Held-out texts, images or recordings. Those that can't be read, or with an unknown label, have no loss.

    Args:
        labels: the labels of the model, followed by the ones it doesn't know.
        truth: the label number of each source (N,).
    """

    labels: tuple[str, ...] = field(kw_only=True)
    truth: IntArray = field(kw_only=True)

    @classmethod
    def of(cls, pairs: Pairs, found: Readable, reader: SourceReader, known: Sequence[str]) -> "HeldOutLabelled":
        """Prepare sources for scoring. Every answer to one with an unknown label counts as wrong.

        Args:
            pairs: the sources with their labels.
            found: what `reader` read of them. Those that it couldn't read are left out.
            reader: reads the sources.
            known: the labels of the model, in the order of their numbers.
        """
        labels = (*known, *sorted({*pairs.targets} - {*known}))
        numbers = {label: number for number, label in enumerate(labels)}
        truth = np.array([numbers[pairs.targets[i]] for i in found.places], np.int64)
        usable = truth < len(known)
        unseen = [
            Skipped(int(pairs.lines[i]), UNSEEN, f"{pairs.targets[i]}: {pairs.sources[i]}")
            for i, is_known in zip(found.places, usable)
            if not is_known
        ]
        encoded = found.arrays if usable.all() else found.arrays.take(np.flatnonzero(usable))
        examples = LabelledExamples(
            encoded, Ragged([[number] for number in truth[usable].tolist()]), positions=reader.positions
        )
        names, right = ([side[i] for i in found.places] for side in (pairs.sources, pairs.targets))
        too_long, n_cut, references = [*found.unread, *unseen], int((found.cut > 0).sum()), [[it] for it in right]
        return cls(examples, too_long, n_cut, names, references, found.arrays, labels=labels, truth=truth)


def label_settings(corpus: Any, config: Config) -> Mapping[str, Any]:
    """Return the settings for the labels in the data.

    A model that continues from another (train.init_from) keeps its labels if they include all labels of the data.

    Raises:
        DataError: there are too few or too many labels, or only some of the targets of that model.
    """
    assert isinstance(corpus, LabelledCorpus)
    labels, kind = corpus.labels(), config.data.label_kind
    named = [*by_target(label_list(next(iter(corpus))[2]))] if kind == "targets" else []  # in the order of the columns
    if config.train.init_from and {*labels} <= {*config.data.labels}:
        if named:
            expect_targets(named, [*by_target(config.data.labels)], corpus.source.report)
        return {}
    if named:
        each = by_target(labels)
        labels = tuple(f"{name}={label}" for name in named for label in each[name])
        for name in named:
            _expect_usable(corpus, each[name], f" in {name}", are_single=True)
    else:
        _expect_usable(corpus, labels, are_single=not kind)
    return {"data.labels": labels, "model.n_classes": len(labels)}


def expect_targets(given: Sequence[str], names: Sequence[str], report: Report) -> None:
    """Raise a DataError if the data has other targets than the model.

    Args:
        given: names of the label columns in the data.
        names: names of the model's targets.
        report: names the files in the message.
    """
    if {*given} != {*names}:
        raise DataError(
            f"{' and '.join(report.paths)} has the label columns {', '.join(given)}",
            expected=f"those that the model was trained on: {', '.join(names)}",
            fix=f"give the columns these names, and pass `data.target_column={','.join(names)}`",
            name="data.target_column",
            value=tuple(given),
        )


def _expect_usable(corpus: LabelledCorpus, labels: Sequence[str], where: str = "", *, are_single: bool) -> None:
    found = f"{_named(labels)}{where}"
    are_numbers = len(labels) > 1 and all(map(is_number, labels))
    fix = "if they're numbers to predict, use `data.label_kind=number`" if are_numbers else ""
    if not 2 <= len(labels) <= _MOST:
        raise unusable(corpus, f"{found} to train on", f"2 to {_MOST:,} labels", len(labels), fix)
    if are_single and len(corpus) >= _ENOUGH and len(labels) > _REPEATED * len(corpus):
        found += f" for {len(corpus):,} {corpus.source.roles.plural[0]} to train on, almost one for each"
        raise unusable(corpus, found, "labels that are repeated", len(labels), fix)


def unusable(corpus: LabelledCorpus, found: str, expected: str, value: float, fix: str = "") -> DataError:
    """Return the error for labels that can't be trained on.

    Args:
        corpus: names the files and columns in the message.
        found: what is wrong with the labels.
        expected: what would be right.
        value: the number at fault, a field of the error.
        fix: a suggestion next to that of other columns (default: none).
    """
    source, (texts, labels) = corpus.source, corpus.source.roles.plural
    option = "`data.target_column=NAME`, and `data.source_column=NAME`"
    other = f"if another column has the {labels}, use {option} for the {texts}" if source.has_columns else ""
    files = f"{' and '.join(source.report.paths)} {'have' if source.is_aligned else 'has'}"
    return DataError(
        f"{files} {found} (read as {source.report.form})",
        expected=expected,
        fix="\n  ".join(filter(None, [fix, other])),
        name="data.labels",
        value=value,
    )


def _named(labels: Sequence[str]) -> str:
    names = ", ".join(map(shown, labels[:_NAMED]))
    return f"{len(labels):,} label{'s' * (len(labels) != 1)} ({names}{', …' * (len(labels) > _NAMED)})"


Scored = TypeVar("Scored", ClassScores, LabelSetScores)


@dataclass(frozen=True)
class LabelScores(Generic[Scored]):
    """The scores of a classifier, including texts with a label that it doesn't know, which count as wrong or missed.

    Args:
        scores: accuracy, F1, calibration and so on.
        loss: the mean -log p of the correct labels in nats, over texts with known labels; None without any.
        n_unseen: the number of texts with an unknown label.
        what: the noun for what is labelled.
    """

    scores: Scored
    loss: float | None
    n_unseen: int
    what: str = "texts"

    def to_dict(self) -> dict[str, Any]:
        values = self.scores.to_dict()
        values.pop("negative_log_likelihood", None)  # infinite if a label is unknown
        found = {self.what: values.pop("examples"), **values, "unseen_labels": self.n_unseen}
        return found | ({} if self.loss is None else {"negative_log_likelihood": self.loss})
