"""Text classifier for scikit-learn.

from clearhead.estimator import TextClassifier
model = TextClassifier(steps=300).fit(texts, labels)
model.predict(["The match ended in a draw."])
"""

import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt

from .api import load, train
from .apps.classifier import Classifier
from .apps.inputs import as_texts
from .config import Config, messages
from .errors import ConfigError, DataError
from .exchange.targets import export_merged
from .folder.adapters import is_adapter
from .readers.lines import has_surrogate
from .tasks.classify.records import Labelled

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, column_or_1d
except ImportError as error:
    what = "clearhead.estimator needs scikit-learn, which isn't installed"
    raise ConfigError(what, fix="install it: pip install scikit-learn", name="scikit-learn") from error

_SCORED = {"data.split", "data.valid", "train.best", "train.patience", "train.warm_start"}
_FILES = ("config.json", "tokenizer.json", "model.safetensors", "manifest.json")  # the files needed for prediction


class TextClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Text classifier with the scikit-learn interface. It trains like `clearhead train --task classify`.

    Training uses all texts except blank ones and those with a NUL or an unpaired surrogate. If `settings` sets
    data.split, train.best, train.patience or train.warm_start, some texts are held out (default: 5%).

    Args:
        preset: train.preset (None: depends on the amount of data). The same goes for `steps` and `epochs`.
        budget: train.budget (None: no time limit).
        seed: train.seed.
        settings: other settings by dotted name, such as {"model.dropout": 0.3}.
        out: the model folder to write or replace (None: keep the model in memory).
        verbose: print training messages.

    Attributes:
        classes_: the labels, sorted.
        files_: the contents of the model's files, keyed by name.
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

    def fit(self, X: Sequence[str], y: npt.ArrayLike) -> Self:  # noqa: N803  # scikit-learn's name
        """Train on texts (N) and their labels (N). Labels are strings or numbers."""
        texts, labels = as_texts(X), column_or_1d(y)
        check_classification_targets(labels)
        if len(texts) != len(labels):
            what = f"there are {len(texts):,} texts and {len(labels):,} labels"
            raise DataError(what, expected="a label for each text", name="y")
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
            if is_adapter(out):  # the files are kept without those of its base
                export_merged(load(out, allow_custom_code=True).loaded, out := Path(folder) / "merged")
            self.files_ = {name: (out / name).read_bytes() for name in _FILES}
        self.__dict__.pop("_app", None)
        return self

    def predict(self, X: Sequence[str]) -> npt.NDArray[Any]:  # noqa: N803
        """Return the most likely label of each text. (N)"""
        best = self.predict_proba(X).argmax(1)
        return self.classes_[best]

    def predict_proba(self, X: Sequence[str]) -> npt.NDArray[np.float64]:  # noqa: N803
        """Return the probability of each of `classes_`. (N, C)"""
        found = cast("list[Labelled]", self._model().results(as_texts(X)))
        names = _names(self.classes_)
        rows = [
            [it.probabilities.get(name, 0.0) for name in names] for it in found
        ]  # 0 if all texts with the label were held out
        return np.array(rows).reshape(len(found), len(names))

    def _config(self, data: Path) -> Config:
        chosen = {"preset": self.preset, "steps": self.steps, "epochs": self.epochs, "budget": self.budget}
        values: dict[str, Any] = {f"train.{name}": value for name, value in chosen.items() if value is not None}
        values |= {"train.seed": self.seed, "train.task": "classify", "data.train": (str(data),)}
        values["data.label_kind"] = ""  # one label per text
        if not isinstance(self.settings, Mapping | None):
            what = f"settings={self.settings!r} isn't a mapping"
            expected = "settings by dotted name, such as {'model.dropout': 0.3}"
            raise ConfigError(what, expected=expected, name="settings", value=self.settings)
        if not _SCORED & set(self.settings or ()):
            values["data.split"] = 0.0  # nothing needs scores, and scikit-learn does its own splitting
        for name in self.settings or {}:
            if name in values:
                raise ConfigError(f"TextClassifier sets {name} itself", fix=f"leave {name} out of settings", name=name)
        return Config().override({**(self.settings or {}), **values}, source="TextClassifier")

    def _model(self) -> Classifier:
        """Return the model. The first call loads it from the files."""
        check_is_fitted(self, "files_")
        if not hasattr(self, "_app"):
            with TemporaryDirectory() as folder:
                for name, content in self.files_.items():
                    (Path(folder) / name).write_bytes(content)
                app = load(folder, allow_custom_code=True)  # the settings are the caller's own
                assert (
                    isinstance(app, Classifier) and app.model is not None
                )  # reads the weights before the folder is deleted
            self._app = app
        return self._app

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the files, not the model loaded from them."""
        return {name: value for name, value in super().__getstate__().items() if name != "_app"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array, tags.input_tags.one_d_array = True, False, True
        return tags


def _check_labels(texts: Sequence[str], labels: npt.NDArray[Any]) -> None:
    """Raise DataError unless the usable texts have at least two distinct labels."""
    usable = np.array([bool(text.strip()) and _is_whole(text) for text in texts], bool)
    distinct = np.unique(labels[usable]).tolist()
    if len(distinct) < 2:
        what = f"all {usable.sum():,} usable texts have the label {distinct[0]!r}" if distinct else "no text is usable"
        raise DataError(what, expected="at least two labels, on texts that aren't blank and have no NUL", name="y")


def _is_whole(text: str) -> bool:
    """Return whether a text can be stored in a text file: it has no NUL and no unpaired surrogate."""
    return "\0" not in text and not has_surrogate(text)


def _names(classes: npt.NDArray[Any]) -> list[str]:
    """Return the model's label for each class. Raise DataError if one is blank, invalid or has several lines."""
    names = [str(label) for label in classes.tolist()]
    for name in names:
        if "\n" in name:
            raise DataError(
                f"the label {name!r} has several lines", expected="labels on a single line", name="y", value=name
            )
        if not name.strip() or not _is_whole(name):
            what = f"the label {name!r} is blank or isn't valid text"
            raise DataError(what, expected="labels without NUL or surrogates", name="y", value=name)
    return names
