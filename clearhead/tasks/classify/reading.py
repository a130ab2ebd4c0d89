"""The labels of training data."""

from collections.abc import Mapping, Sequence
from typing import Any

from ...config import Config
from ...data.corpus import LabelledCorpus
from ...errors import DataError
from ...readers.lines import shown

_MOST = 1000  # maximum number of labels; a column with more has numbers or texts
_REPEATED = 0.9  # maximum labels per text; above this, hardly any label is repeated
_ENOUGH = 20  # minimum number of texts to apply this limit
_NAMED = 3  # labels in a message
_OTHER_COLUMN = (
    "if another column has the labels, use `data.target_column=NAME`, and `data.source_column=NAME` for the "
)


def label_settings(corpus: Any, config: Config) -> Mapping[str, Any]:
    """Return the settings for the labels in the data.

    A model that continues from another (train.init_from) keeps its labels if they include all labels of the data.

    Raises:
        DataError: there are too few or too many labels.
    """
    assert isinstance(corpus, LabelledCorpus)
    labels = corpus.labels()
    if config.train.init_from and {*labels} <= {*config.data.labels}:
        return {}
    if not 2 <= len(labels) <= _MOST:
        raise _unusable(corpus, f"{_named(labels)} to train on", f"2 to {_MOST:,} labels", len(labels))
    if len(corpus) >= _ENOUGH and len(labels) > _REPEATED * len(corpus):
        found = f"{_named(labels)} for {len(corpus):,} {corpus.source.roles.plural[0]} to train on, almost one for each"
        raise _unusable(corpus, found, "labels that are repeated; numbers can't be predicted", len(labels))
    return {"data.labels": labels, "model.n_classes": len(labels)}


def _unusable(corpus: LabelledCorpus, found: str, expected: str, value: int) -> DataError:
    source = corpus.source
    return DataError(
        f"{_files(corpus)} {found} (read as {source.report.form})",
        expected=expected,
        fix=_OTHER_COLUMN + source.roles.plural[0] if source.has_columns else "",
        name="data.labels",
        value=value,
    )


def _files(corpus: LabelledCorpus) -> str:
    source = corpus.source
    return f"{' and '.join(source.report.paths)} {'have' if source.is_aligned else 'has'}"


def _named(labels: Sequence[str]) -> str:
    names = ", ".join(map(shown, labels[:_NAMED]))
    return f"{len(labels):,} label{'s' * (len(labels) != 1)} ({names}{', …' * (len(labels) > _NAMED)})"
