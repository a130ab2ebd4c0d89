"""The base class of every task.

A task is a class. Its class attributes define how its data is read, which settings it needs and which scores it has.
An instance has the tokenizers and the configuration of one model. It makes examples, computes the loss, answers and
scores.

To add a task, derive from `Task` and declare it in `config.task_spec`, or train with `--task package.module:Class`.
"""

import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ..config import FAMILIES, NEWEST, TASKS, Config, DecodeConfig, PublishedModel, SpecialTokens, settings
from ..config.custom_code import custom_parts
from ..config.notations import AUDIO, IMAGES
from ..config.presets import check_fits
from ..config.task_spec import Column
from ..config.values import invalid, require, spell
from ..data.forms import Divided, Form
from ..data.store import token_type
from ..errors import ConfigError, DataError, suggestion
from ..tokenization.ragged import IntArray, Ragged
from ..tokenization.source_and_target import Tokenizers, train_tokenizers
from ..tokenization.tokenizer import Tokenizer
from .examples import Dataset, EvaluationResult, ExampleEncoder, Examples, HeldOut, TaskScores, Units

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ..inspection.views.explanation import Explanation
    from ..scoring.bootstrap import Comparison


__all__ = ["Dataset", "EvaluationResult", "ExampleEncoder", "HeldOut", "Task", "TaskScores", "Units"]

_READS = {"tokens": "text", "patches": "image", "frames": "audio"}  # the modality that a front end is for
_OWN = {  # settings of a front end that no other uses
    "patches": ("image_size", "image_channels", "patch_size"),
    "frames": ("sample_rate", "n_mels"),
}
_AUGMENTATIONS = {"patches": IMAGES, "frames": AUDIO}


def _learn(corpus: Divided, config: Config) -> Tokenizers:
    """Learn vocabularies from the texts of both sides. Without texts, they have the special tokens only."""
    sources, targets = corpus.texts()
    if len(sources) or len(targets):
        return train_tokenizers(sources, targets, config.data)
    none = Tokenizer.without_text()
    return Tokenizers(none, none)


class Task(ABC):
    """Base class of tasks, which define how data is read, trained on, answered and scored.

    A subclass sets the class attributes without a default and implements the abstract methods.
    """

    # --- required in every subclass

    verb: ClassVar[str]
    """The name of the task: the CLI verb, if it has one."""
    form: ClassVar[Form]
    """The form of the data, which reads and splits it."""
    units: ClassVar[Units]
    """Nouns for messages."""

    # --- text for messages

    modalities: ClassVar[Sequence[str]] = ("text",)
    """The values of data.modality that the task reads."""

    title: ClassVar[str] = "A Transformer"
    """The heading of the model card."""
    training_data: ClassVar[str] = "examples"
    """What the model card calls the training data."""
    usage: ClassVar[str] = ""
    """Arguments after `clearhead VERB DIR` in an example; "" for a task without a CLI verb."""

    # --- settings

    required: ClassVar[Mapping[str, Any]] = {}
    """Settings with a fixed value, such as model.topology."""
    defaults: ClassVar[Mapping[str, Any]] = {}
    """Default settings of the task, which the user can change."""
    unused: ClassVar[Sequence[str]] = ()
    """Settings that have no effect on the task. Setting one is an error."""

    # --- scores

    scores: ClassVar[Sequence[str]] = ("loss",)
    """Scores that train.best can choose weights by."""
    compared_by: ClassVar[Sequence[str]] = ()
    """Scores that models are compared by, the most important first."""

    # --- what the task supports

    subword_dropout: ClassVar[bool] = False
    """True if data.subword_dropout is supported."""
    has_labels: ClassVar[bool] = False
    """True if train.balance and train.r_drop are supported."""
    has_prompts: ClassVar[bool] = False
    """True if train.loss_on and data.template are supported."""
    answers_text: ClassVar[bool] = True
    """True if a text alone is enough to get an answer; train.watch needs that."""
    is_tuned: ClassVar[bool] = False
    """True if settings are chosen on the validation data after training; see `EvaluationResult.tuned`."""
    searches: ClassVar[bool] = True
    """True if the scores depend on the decoding settings."""
    learn: ClassVar["staticmethod[[Any, Config], Tokenizers]"] = staticmethod(_learn)
    """Function that learns the vocabularies from training data; by default, from its texts."""

    def __init__(self, tokenizers: Tokenizers, config: Config) -> None:
        self.tokenizers, self.config = tokenizers, config

    @property
    def special(self) -> SpecialTokens:
        """The ids of the special tokens."""
        return self.config.model.special

    # --- settings of a run

    @classmethod
    def settle(cls, config: Config) -> Config:
        """Return `config` with the required, default and derived settings of this task.

        Raises:
            ConfigError: a setting that the user gave doesn't work with this task.
        """
        _check_given(cls, config)
        _check_support(cls, config)
        family = FAMILIES.get(config.train.preset or "")
        _check_family(cls, config, family)
        if config.train.task is None:
            config = config.assign({"train.task": cls.verb}, "data")
        parts = family.settings(cls.required.get("model.head", config.model.head)) if family else {}
        parts = {name: value for name, value in parts.items() if config.accepts(name, "family")}
        config = config.assign({**parts, **cls.required}, "task").assign(parts, "family")  # a head needs its parts
        config = config.choose({name: it for name, it in cls.defaults.items() if name not in cls.required}, "task")
        check_patience(config, cls.scores)
        if name := _without_effect(cls, config):
            why = f" and model.front={spell(config.model.front)}"
            raise _misfit(cls, name, config, why=why, fix=f"leave out {name}")
        config = config.choose(cls.derived(config), "task")
        if "data.max_len" not in cls.unused:
            longest = config.data.max_len
            config.data.expect_room(longest + 1, f"an example of data.max_len={longest} tokens")  # and the end token
        return config

    @classmethod
    def derived(cls, config: Config) -> Mapping[str, Any]:
        """Return defaults that depend on other settings; what the user sets takes precedence."""
        return {}

    @classmethod
    def from_data(cls, data: Any, config: Config) -> Mapping[str, Any]:
        """Return settings that depend on the training data, such as the labels."""
        return {}

    @classmethod
    def texts(cls, data: Any) -> Sequence[str]:
        """Return all texts in a chunk of data. A warm start trains on them."""
        return [*data.sources, *data.targets]

    # --- examples

    @property
    def longest(self) -> tuple[int, str]:
        """Maximum number of tokens per side in training, and the setting that it comes from."""
        return min((self.config.data.max_len, "data.max_len"), (self.config.model.max_len, "model.max_len"))

    @property
    def stored_as(self) -> tuple[str, str]:
        """The types of the numbers that a store keeps on both sides."""
        type_of_tokens = token_type(max(self.tokenizers.source.vocab_size, self.tokenizers.target.vocab_size))
        return type_of_tokens, type_of_tokens

    @property
    @abstractmethod
    def encoder(self) -> ExampleEncoder:
        """The encoder that tokenizes training data."""

    @abstractmethod
    def examples(self, sides: tuple[Ragged, Ragged]) -> Dataset:
        """Return the examples of a store. They may stay on disk."""

    def each_epoch(self, examples: Examples) -> Callable[[int], Examples] | None:
        """Return a function that makes the examples of an epoch, or None if all epochs have the same ones."""
        return None

    @abstractmethod
    def hold_out(self, data: Any) -> HeldOut:
        """Prepare the data that `form` has read for scoring."""

    # --- training and scores

    @abstractmethod
    def loss(self, model: "nn.Module", examples: Any, rows: IntArray, *, smoothing: float) -> "Tensor":
        """Return the loss of the examples in these rows, summed over all predictions.

        Args:
            model: the torch module to train, in training or evaluation mode.
            examples: the result of `examples`, or of a function from `each_epoch`.
            rows: indices of the batch's examples (B,).
            smoothing: amount of label smoothing: at least 0, less than 1.
        """

    @abstractmethod
    def evaluate(self, model: Any, held_out: Any, decode: DecodeConfig) -> EvaluationResult:
        """Answer held-out data and score the answers.

        Args:
            model: a torch module or a handle of a loaded model. `decode.model_handle` converts between them.
            held_out: what `hold_out` returned.
        """

    @abstractmethod
    def numbers(self, scores: Any) -> dict[str, float]:
        """Return the scores for the training log, keyed by the names in `scores`, with a "loss" if there is one."""

    def compare(self, systems: Sequence[tuple[str, EvaluationResult]]) -> "Comparison":
        """Compare several models with the first one on the same data, by their mean `compared_by` scores."""
        from ..scoring.bootstrap import Comparison, compare_means

        singly = [(system, it.singly()) for system, it in systems]
        names = [name for name in singly[0][1] if name in self.compared_by]
        return Comparison({it: compare_means([(system, values[it]) for system, values in singly]) for it in names}, {})

    @classmethod
    def main_score(cls) -> str:
        """Return the default score for comparing models. Raise ConfigError if the task has none."""
        if not cls.compared_by:
            what, fix = f"task {cls.verb!r} has no score to compare models by", "name one in compared_by of its class"
            raise ConfigError(what, fix=fix, name="train.task", value=cls.verb)
        return cls.compared_by[0]

    # --- use

    def answers(self, model: Any, texts: Sequence[str], decode: DecodeConfig) -> list[str]:
        """Return the best answer to each text.

        Args:
            model: a torch module or a handle of a loaded model.
            texts: raw texts, not tokenized.
            decode: settings of the search and of the batches.

        Raises:
            ConfigError: the task needs more than a text.
        """
        raise needs_more(self.verb)

    def explain(self, model: Any, text: str, decode: DecodeConfig) -> "Explanation":
        """Answer one text and record every step.

        Args:
            model: a torch module.
            text: a raw text, or the path of an image or recording.
            decode: settings of the search.

        Raises:
            ConfigError: the task needs more than a text, or has no explanation.
        """
        raise needs_more(self.verb)

    @property
    def columns(self) -> Mapping[str, Column]:
        """The new columns of an answered table."""
        spec = TASKS.get(self.config.train.task or "translate")
        return spec.columns if spec and spec.columns else {self.units.answer: Column("text")}

    def check_search(self, model: Any) -> None:
        """Raise an error if the decoding settings don't fit the model and its vocabulary."""
        return


def example_of(task: Task | type[Task], folder: str, config: Config | None = None) -> str:
    """Return a command, or a line of Python, that uses a model of a task with these settings.

    Args:
        task: the task, or its class.
        folder: the model folder that the command names.
        config: the model's settings. With custom parts, the command allows custom code (default: no custom parts).
    """
    custom = config is not None and bool(custom_parts(config))
    if task.usage:
        return f"clearhead {task.verb} {shlex.quote(folder)} {task.usage}{' --allow-custom-code' * custom}"
    return f'clearhead.load({folder!r}{", allow_custom_code=True" * custom})("a text")'


def needs_more(verb: str) -> ConfigError:
    """Return the error for a task that needs more than a text."""
    return ConfigError(f"task {verb!r} needs more than a text", name="train.task", value=verb)


def check_filled(source: Any, verb: str = "explain") -> None:
    """Raise DataError if a source to explain, or to do something else with, is a blank text."""
    if isinstance(source, str) and not source.strip():
        raise DataError("the text is blank", expected=f"a text to {verb}", name="text", value=source)


def rotary_positions(config: Config) -> dict[str, str]:
    """Return the setting for rotary positions if the width of a head is even, as they need."""
    even = config.model.head_width % 2 == 0
    return {"model.positions": "rotary"} if even else {}


def search_settings_but(*used: str) -> tuple[str, ...]:
    """Return the names of all decoding settings except those that a task uses."""
    return tuple(it for it in settings() if it.startswith("decode.") and it.removeprefix("decode.") not in used)


# --- the settings of a run --------------------------------------------------------------------------------------------


def _check_given(task: type[Task], config: Config) -> None:
    for name, value in task.required.items():
        if config.is_users(name) and config.value(name) != value:
            raise _misfit(task, name, config, expected=spell(value))
    for name in task.unused:
        if config.is_users(name) and config.value(name) != settings()[name].default:
            raise _misfit(task, name, config, fix=f"leave out {name}")
    if config.is_users("model.front") and not _reads(config.model.front, task.modalities):
        raise _misfit(task, "model.front", config, fix="leave out model.front")


def _check_family(task: type[Task], config: Config, family: PublishedModel | None) -> None:
    """Raise ConfigError if the published model that the user chose doesn't fit the task or its data."""
    check_fits(config.train.preset, task.verb, task.required)
    fits = family is None or _reads(family.parts.get("model.front", ""), task.modalities)
    what = f"can't read data.modality={config.data.modality!r}"
    expected, fix = f"a preset for {task.units.sources}, such as bert-base", "choose another preset, or leave it out"
    require(fits, "train.preset", config.train.preset, expected, what=what, fix=fix)


def _check_support(task: type[Task], config: Config) -> None:
    check_best(config, task.scores, repr(task.verb))
    for name, supported, why, off in (
        ("data.subword_dropout", task.subword_dropout, "", "0"),
        ("train.warm_start", "text" in task.modalities, ", which aren't texts", ""),
        ("train.watch", task.answers_text, ", which needs more than a text", ""),
        ("data.label_kind", task.has_labels, ", which has no labels", ""),
        ("train.balance", task.has_labels, ", which has no labels", "false"),
        ("train.loss_on", task.has_prompts, ", which has no prompts with answers", ""),
        ("data.template", task.has_prompts, ", which isn't a language model", ""),
        ("train.r_drop", task.has_labels, ", which has no labels", "0"),
    ):
        if config.value(name) and not supported:
            raise _misfit(task, name, config, why=why, expected=off, fix="" if off else f"leave out {name}")


def _misfit(
    task: type[Task], name: str, config: Config, *, why: str = "", expected: str = "", fix: str = ""
) -> ConfigError:
    on = "" if "text" in task.modalities else f" on {task.units.sources}"
    what = f"doesn't work with task {task.verb!r}{on}{why}"
    return invalid(name, config.value(name), what, expected=expected, fix=fix)


def _reads(front: str, modalities: Sequence[str]) -> bool:
    """Return whether a front end reads one of these modalities. A custom class is assumed to do so."""
    return _READS.get(front, modalities[0]) in modalities


def _without_effect(task: type[Task], config: Config) -> str:
    """Return a setting of the user's that neither the front end nor the task uses, or ""."""
    front = config.model.front
    if front not in _READS:  # a custom class may use any of them
        return ""
    others = (f"model.{name}" for kind, names in _OWN.items() if kind != front for name in names)
    fitting = _AUGMENTATIONS.get(front, ())
    if config.is_users("model.augment") and any(it.partition("=")[0] not in fitting for it in config.model.augment):
        return "model.augment"
    others = (it for it in others if it not in task.defaults)
    given = (it for it in others if config.is_users(it) and config.value(it) != settings()[it].default)
    return next(given, "")


def check_best(config: Config, scores: Sequence[str], of: str) -> None:
    """Raise ConfigError if train.best is none of the scores.

    Args:
        config: the settings of the run.
        scores: the names of the scores.
        of: what has these scores, for the message.
    """
    best, known = config.train.best, [*dict.fromkeys((*scores, NEWEST))]
    what, fix = f"isn't a score for {of}", suggestion(best, known)
    require(best in known, "train.best", best, _listed(known), what=what, fix=fix)


def check_patience(config: Config, scores: Sequence[str]) -> None:
    """Raise ConfigError if train.patience has no score to watch."""
    if config.train.best == NEWEST and (patience := config.train.patience):
        what = f"needs a score to watch, but train.best={NEWEST!r} has none"
        expected = f"train.patience=0, or train.best set to {_listed(scores)}"
        raise invalid("train.patience", patience, what, expected=expected)


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last
