"""A text classifier for scikit-learn: in a Pipeline, in cross_val_score, in GridSearchCV. Needs `clearhead[sklearn]`.

from clearhead.estimator import TextClassifier
model = TextClassifier(steps=300).fit(texts, labels)
model.predict(["The match ended in a draw."])
"""

import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from .api import load, train
from .apps.classifier import Classifier
from .apps.inputs import as_texts
from .config import Config, messages
from .errors import ConfigError, DataError

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, column_or_1d
except ImportError as error:
    raise ConfigError(
        "clearhead.estimator needs scikit-learn, which is not installed; expected it: pip install 'clearhead[sklearn]'"
    ) from error

_SCORED = {"data.split", "data.valid", "train.best", "train.patience", "train.warm_start"}
_FILES = ("config.json", "tokenizer.json", "model.safetensors", "manifest.json")  # of a model folder, to predict with


class TextClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Learns labels of texts: `clearhead train --task classify`, as scikit-learn would have it.

    preset, steps, epochs, budget, seed: the settings `train.*` of the same names; None leaves a choice to the data.
    settings: any others by their dotted names, {"model.dropout": 0.3}; none that is given above.
    out: the model folder to make, and to replace; without one it is kept in memory.
    verbose: say what training says.

    After `fit` there are `classes_`, sorted, and `files_`, those of the model. All texts are learnt from, unless the
    settings ask for something that needs scores (data.split, train.best, train.patience, train.warm_start): then a
    twentieth is held out. Every text gets a label, a blank one, too; but blank ones, and those with a NUL or half of a
    surrogate pair, are not learnt from. What cannot be learnt from is a ClearheadError that says so.
    """

    def __init__(
        self,
        *,
        preset: str | None = None,
        steps: int | None = None,
        epochs: float | None = None,
        budget: str | None = None,
        seed: int = 0,
        settings: Mapping[str, Any] | None = None,
        out: str | Path | None = None,
        verbose: bool = False,
    ) -> None:
        self.preset, self.steps, self.epochs, self.budget, self.seed = preset, steps, epochs, budget, seed
        self.settings, self.out, self.verbose = settings, out, verbose

    def fit(self, X: Sequence[str], y: npt.ArrayLike) -> Self:  # noqa: N803  # as scikit-learn calls it
        """Train on texts (N) and their labels (N), strings or numbers."""
        texts, labels = as_texts(X), column_or_1d(y)
        check_classification_targets(labels)
        if len(texts) != len(labels):
            raise DataError(f"there are {len(texts):,} texts and {len(labels):,} labels; expected one for each")
        _check_labels(texts, labels)
        self.classes_ = np.unique(labels)
        names = _names(self.classes_)
        with TemporaryDirectory() as folder:
            data = Path(folder) / "texts.jsonl"
            with data.open("w", encoding="utf-8") as file:
                for text, number in zip(texts, np.searchsorted(self.classes_, labels)):
                    file.write(json.dumps({"text": text, "label": names[number]}) + "\n")
            out = Path(folder) / "model" if self.out is None else Path(self.out)
            with contextlib.nullcontext() if self.verbose else contextlib.redirect_stderr(None):
                train(self._config(data), out, replace=True, say=messages.say)
            self.files_ = {name: (out / name).read_bytes() for name in _FILES}
        self.__dict__.pop("_app", None)
        return self

    def predict(self, X: Sequence[str]) -> npt.NDArray[Any]:  # noqa: N803
        """The likeliest label of each text. (N)"""
        likeliest = self.predict_proba(X).argmax(1)
        found: npt.NDArray[Any] = self.classes_[likeliest]
        return found

    def predict_proba(self, X: Sequence[str]) -> npt.NDArray[np.float64]:  # noqa: N803
        """The probability of each of `classes_`. (N, C)"""
        found = self._model().results(as_texts(X))
        names = _names(self.classes_)
        rows = [[it.probabilities.get(name, 0.0) for name in names] for it in found]  # 0: held out with all its texts
        return np.array(rows).reshape(len(found), len(names))

    def _config(self, data: Path) -> Config:
        chosen = {"preset": self.preset, "steps": self.steps, "epochs": self.epochs, "budget": self.budget}
        values: dict[str, Any] = {f"train.{name}": value for name, value in chosen.items() if value is not None}
        values |= {"train.seed": self.seed, "train.task": "classify", "data.train": (str(data),)}
        if not isinstance(self.settings, Mapping | None):
            raise ConfigError(
                f"settings = {self.settings!r}; expected settings by their dotted names, {{'model.dropout': 0.3}}"
            )
        if not _SCORED & set(self.settings or ()):
            values["data.split"] = 0.0  # nothing asks for scores, and whoever fits holds out texts of their own
        for name in self.settings or {}:
            if name in values:
                raise ConfigError(f"TextClassifier itself says what {name} is; expected settings without it")
        return Config().override({**(self.settings or {}), **values}, source="TextClassifier")

    def _model(self) -> Classifier:
        """The model in use, made once from the files."""
        check_is_fitted(self, "files_")
        if not hasattr(self, "_app"):
            with TemporaryDirectory() as folder:
                for name, content in self.files_.items():
                    (Path(folder) / name).write_bytes(content)
                app = load(folder, allow_custom_code=True)  # the settings are the caller's own
            assert isinstance(app, Classifier)
            self._app = app
        return self._app

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: the files, not the model that was made of them."""
        return {name: value for name, value in super().__getstate__().items() if name != "_app"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array, tags.input_tags.one_d_array = True, False, True
        return tags


def _check_labels(texts: Sequence[str], labels: npt.NDArray[Any]) -> None:
    """A DataError where those of the texts that can be learnt from have not two labels."""
    usable = np.array([bool(text.strip()) and _is_whole(text) for text in texts], bool)
    distinct = np.unique(labels[usable]).tolist()
    if len(distinct) < 2:
        left = "" if usable.all() else " that are not blank and have no NUL and no half of a surrogate pair"
        found = f"there are no texts{left}"
        if distinct:
            found = f"the {usable.sum():,} texts{left} have one label, {distinct[0]!r}"
        raise DataError(f"{found}; expected texts with two labels at least")


def _is_whole(text: str) -> bool:
    """Whether a file of text can hold it."""
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)


def _names(classes: npt.NDArray[Any]) -> list[str]:
    """How the model calls the classes; a DataError where one has no name that a line of text can hold."""
    names = [str(label) for label in classes.tolist()]
    for name in names:
        if "\n" in name:
            raise DataError(f"the label {name!r} has several lines; expected names of one")
        if not name.strip() or not _is_whole(name):
            raise DataError(f"the label {name!r} is blank, or has a NUL or half of a surrogate pair; expected a name")
    return names
