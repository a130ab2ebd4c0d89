"""Base class of all apps, with the methods common to all tasks."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ..config import Config, DecodeConfig
from ..config.values import finite
from ..errors import ConfigError, DataError, TrainingError
from ..loading import LoadedModel, check_stored_engine
from ..scoring.confidence import Confidence
from ..tokenization.source_and_target import Tokenizers
from .annotation.row_answers import RowAnswers
from .answers import PlainAnswer, Reading
from .inputs import as_sources, as_text, as_texts, check_type, check_whole, reading_data

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..inspection.ablation import Ablation, Watch
    from ..inspection.promises.check import Verification
    from ..inspection.views.explanation import Explanation
    from ..tasks.base import Task
    from .evaluation import Evaluation

_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "seed")  # these only matter when tokens are sampled
ONE = {"n_best": 1}  # for a single answer, regardless of the model's settings


class App(RowAnswers):
    """A model with its tokenizer and settings, ready for raw text.

    The weights are read on first use. A pickled app contains the path of its model folder, not the weights, so the
    folder must still exist when the unpickled app is used.
    """

    task: "Task"
    without_effect: ClassVar[Mapping[str, str]] = MappingProxyType({"unknown": "only `generate` uses it"})
    """Search settings that never have an effect here, with the reasons, or that always have one, with ""."""

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = loaded
        self.task = loaded.task

    @property
    def path(self) -> Path:
        """The model folder."""
        return self.loaded.path

    @property
    def config(self) -> Config:
        """The settings of the model."""
        return self.loaded.config

    @property
    def confidence(self) -> Confidence | None:
        """The calibration of the model's confidence; None if these weights weren't calibrated.

        `app.confidence.threshold(0.02)` is the lowest confidence of answers with an error rate of at most 2%.
        """
        return self.loaded.confidence

    @property
    def tokenizers(self) -> Tokenizers:
        """The source and target tokenizers."""
        return self.loaded.tokenizers

    @property
    def model(self) -> Any:
        """The torch module. The first access reads the weights."""
        return self.loaded.model

    def override(self, values: dict[str, Any]) -> Self:
        """Return an app that shares the weights but has different settings: `app.override({"decode.beam": 1})`."""
        return type(self)(self.loaded.override(values))

    def __call__(self, *inputs: Any, **decode: Any) -> Any:
        """Answer one text or a list of texts. Keyword arguments override search settings, such as `beam=1`.

        Apps for tasks with different inputs override this method.
        """
        texts = _only(inputs)
        found = [it.text for it in self.results([texts] if isinstance(texts, str) else texts, **decode)]
        return found[0] if isinstance(texts, str) else found

    def results(self, texts: Sequence[Any], **decode: Any) -> Sequence[Any]:
        """Return a record of the answer to each text, in order. Apps of other tasks have records with more fields."""
        sources = as_texts(texts)
        found = self.task.answers(self.loaded.handle, sources, self.decode_config(**(ONE | decode)))
        return list(map(PlainAnswer, found, sources))

    def explain(self, *inputs: Any, **decode: Any) -> "Explanation":
        """Answer one text and record the model's computation."""
        return self.task.explain(self.model, as_text(_only(inputs)), self.decode_config(**(ONE | decode)))

    def embed(
        self,
        texts: Sequence[Any],
        *,
        pooling: str | None = None,
        normalize: bool | None = None,
        batch_tokens: int | None = None,
    ) -> "NDArray[np.float32]":
        """Embed texts, images or recordings with the model's encoder, and return their vectors in order. (N, D)

        Args:
            texts: what the model reads. Long texts are truncated.
            pooling: "mean" of all positions but padding, or the "first" one (default: model.pooling).
            normalize: scale every vector to length 1 (default: model.normalize).
            batch_tokens: maximum number of tokens per batch (default: decode.batch_tokens).

        Raises:
            ConfigError: the model has no encoder.
        """
        from ..tasks.embed import embed_sources

        given = {"model.pooling": pooling, "model.normalize": normalize, "decode.batch_tokens": batch_tokens}
        asked = {name: value for name, value in given.items() if value is not None}
        config = self.config.override(asked, source="the call")
        return embed_sources(self.task, self.loaded.handle, as_sources(texts, self.task.modalities), config)

    def evaluate(self, data: Any, **decode: Any) -> "Evaluation":
        """Answer every example of a data set and score the answers.

        Args:
            data: a path or several paths, a list of pairs or dicts, a pandas or polars DataFrame, or the result of
                `read_pairs`.
            decode: search settings that override the model's.
        """
        from .evaluation import evaluate

        with reading_data(self.task, self.config, data) as read:
            return evaluate(self.loaded, read, self.decode_config(**(ONE | decode)))

    def reading(self, source: Any) -> Reading:
        """Return the problems with an input, such as unknown words. By default, none are looked for."""
        return Reading()

    def verify(self, data: Any = None, *, seed: int = 0) -> "Verification":
        """Check the model's guarantees, such as causal masking. `data` can be anything that `evaluate` accepts."""
        from ..inspection.promises.verification import verify
        from .checks.promise_subjects import subject_of

        check_whole("seed", seed, 0)
        if data is None:
            return verify(subject_of(self.loaded, self.decode_config(), seed=seed))
        with reading_data(self.task, self.config, data) as read:
            return verify(subject_of(self.loaded, self.decode_config(), read, seed))

    def calibrate(self, evaluation: "Evaluation") -> Path:
        """Write `confidence.json` into the model folder, which calibrates confidence on this data. Return its path.

        Raises:
            DataError: there are fewer than 20 answers, or they have no probabilities.
            TrainingError: see `save_evaluation`.
        """
        from ..folder.model_folder import CONFIDENCE, model_files
        from .evaluation import Evaluation

        check_type("evaluation", evaluation, Evaluation)
        if (found := evaluation.judged.confidence()) is None:
            what = f"the confidence of {self.path} can't be measured on {' + '.join(evaluation.data)}"
            raise DataError(what, expected="at least 20 answers, with probabilities", name="calibrate")
        self._save(model_files(confidence={"weights": evaluation.weights, **found.to_dict()}))
        self.loaded.__dict__.pop("confidence", None)  # it's read again when it's needed
        return self.path / CONFIDENCE

    def save_evaluation(self, evaluation: "Evaluation") -> Path:
        """Write `evaluation.json` into the model folder and return its path.

        Raises:
            TrainingError: the folder no longer exists, is in use by a run, or can't be written to.
        """
        from .evaluation import Evaluation

        check_type("evaluation", evaluation, Evaluation)
        content = json.dumps(finite(evaluation.to_dict()), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        self._save({"evaluation.json": content.encode()})
        return self.path / "evaluation.json"

    def _save(self, files: Mapping[str, bytes]) -> None:
        """Write files into the model folder. Raise TrainingError if it's gone."""
        from ..folder.model_folder import save_files

        if not self.path.is_dir():
            raise TrainingError(f"{self.path} was moved or removed after it was loaded", name=str(self.path))
        save_files(self.path, files)

    @contextmanager
    def without(self, *names: str) -> Iterator[None]:
        """Disable components of the model inside the `with` block: `app.without("decoder.1.self.head.3")`.

        Raises:
            ConfigError: the model has no component of that name. The message lists all names.
        """
        from ..inspection.record.switches import without

        with without(self.model, *names):
            yield

    def ablate(
        self,
        data: Any,
        *,
        parts: str = "all",
        limit: int | None = 200,
        score: str | None = None,
        keep: bool = True,
        watch: "Watch" = lambda *_: None,
        **decode: Any,
    ) -> "Ablation":
        """Score data with the whole model, then without each of its components, to find out which ones matter.

        Args:
            data: as for `evaluate`.
            parts: the components to disable in turn: heads, attentions, feed-forwards or all.
            limit: score at most this many texts, always the same random sample (None: all).
            score: the score to compare (default: the task's main score).
            keep: store each result in the model folder and reuse it next time.
            watch: called before each measurement with the component's name, the number done and the total.
            decode: search settings that override the model's.
        """
        from .checks.part_ablation import AblationOptions, ablate

        options = AblationOptions(parts, limit, score, keep)
        with reading_data(self.task, self.config, data) as read:
            return ablate(self.loaded, read, options, self.decode_config(**(ONE | decode)), watch)

    def decode_config(self, **changes: Any) -> DecodeConfig:
        """Return the model's search settings with some changes.

        Raises:
            ConfigError: a setting is unknown, is invalid, or has no effect.
            ModelError: the model folder names an unknown engine, and `changes` doesn't replace it.
        """
        search = self.config.decode
        values = {f"decode.{name}": it for name, it in changes.items() if not _is_set(search, name, it)}
        if values:  # as a rule, nothing differs from the model's settings
            search = self.config.override(values, source="the call").decode
        if search.engine == self.loaded.stored.decode.engine:
            check_stored_engine(self.path, self.loaded.stored)
        for name, value in changes.items():
            needed = "" if name in self.without_effect else _needed(name, search)
            if reason := self.without_effect.get(name) or (needed and f"it needs {needed}"):
                what = f"decode.{name}={value} would have no effect: {reason}"
                fix = f"leave `decode.{name}` out" + f", or add `{needed}`" * bool(needed)
                if name == "beam" and "sample" in changes:
                    what, fix = "`decode.beam` can't be combined with `decode.sample`", "leave one of them out"
                expected = "settings that have an effect together"
                raise ConfigError(what, expected=expected, fix=fix, name=f"decode.{name}", value=value)
        _check_lengths(self.config, search)
        return search

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.loaded,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the task, sizes, known scores, and the parameters of every component."""
        from .pages import summary

        return summary(self.loaded, type(self).__name__)


def all_settings_but(*used: str, reason: str) -> Mapping[str, str]:
    """Return every search setting with the reason why it has no effect, or with "" if it's `used`."""
    return MappingProxyType({field.name: "" if field.name in used else reason for field in fields(DecodeConfig)})


def _is_set(search: DecodeConfig, name: str, value: Any) -> bool:
    """Return whether a setting has this value already, of this type."""
    known = vars(search)
    return name in known and type(known[name]) is type(value) and known[name] == value


def _needed(name: str, search: DecodeConfig) -> str:
    """Return what a setting needs to have an effect on this search, or "" if it has one."""
    if search.sample and name == "beam":
        return "decode.sample=false"
    if not search.sample and name in _SAMPLING:
        return "decode.sample=true"
    return "decode.n_best=2" if name == "diverse" and search.diverse and search.n_best == 1 else ""


def _only(inputs: tuple[Any, ...]) -> Any:
    if len(inputs) != 1:
        what = f"got {len(inputs)} inputs"
        raise DataError(what, expected="one text, or one list of texts", name="inputs", value=len(inputs))
    return inputs[0]


def _check_lengths(config: Config, search: DecodeConfig) -> None:
    """Raise ConfigError if a minimum length is beyond the model's positions."""
    most, name = config.model.max_len, "min_len" if search.min_len else "min_ratio"
    if config.model.topology == "encoder-decoder" and getattr(search, name) >= most:
        what = f"decode.{name}={getattr(search, name):,} is more than the model can generate"
        expected = f"less than model.max_len={most:,}"
        raise ConfigError(what, expected=expected, name=f"decode.{name}", value=getattr(search, name))
