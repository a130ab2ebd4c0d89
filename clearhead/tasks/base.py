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

from ..config import TASKS, Config, DecodeConfig, SpecialTokens, settings
from ..config.custom_code import custom_parts
from ..config.task_spec import Column
from ..data.forms import Divided, Form
from ..data.store import token_type
from ..errors import ConfigError, DataError
from ..tokenization.ragged import IntArray, Ragged
from ..tokenization.source_and_target import Tokenizers, train_tokenizers
from ..tokenization.tokenizer import Tokenizer
from .examples import Dataset, EvaluationResult, ExampleEncoder, Examples, HeldOut, TaskScores, Units
from .settling import settle

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ..inspection.views.explanation import Explanation
    from ..scoring.bootstrap import Comparison


__all__ = ["Dataset", "EvaluationResult", "ExampleEncoder", "HeldOut", "Task", "TaskScores", "Units"]


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
        return settle(cls, config)

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
