"""A family of models: its settings and weights next to ours, in tables that serve import and export."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from ...config import Config, ModelConfig
from ...config.model_settings import AUGMENTATION, DROPOUT, ModelSettings
from ...config.values import spell
from ...errors import ModelError
from ..resolved import resolved
from ..weight_names import Name

# Settings of a config.json that say nothing about what the model computes.
_WITHOUT_EFFECT = (
    *("architectures", "model_type", "transformers_version", "torch_dtype", "dtype", "use_cache", "id2label"),
    *("label2id", "task_specific_params", "_name_or_path", "return_dict", "output_hidden_states", "output_attentions"),
    *("initializer_range", "pruned_heads", "problem_type", "finetuning_task", "tokenizer_class", "prefix"),
    *("attn_implementation", "chunk_size_feed_forward", "gradient_checkpointing", "pretraining_tp", "num_labels"),
)
# Settings of ours that change no output of a trained model, or that the tokenizer file carries.
_OURS_WITHOUT_EFFECT = frozenset((*DROPOUT, *AUGMENTATION, "model.unk_id", "model.mask_id", "model.begin"))

ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
"""Our name of each activation function."""


class Given:
    """The settings of a config.json. It keeps account of those that were read.

    Args:
        path: the file.
        values: its content.
        roles: the ids of the special tokens that the tokenizer's files name, by role, such as "cls".
        generation: the content of generation_config.json.
        weights: the names of the weights.

    Attributes:
        notes: what the user should know, such as what was left out.
    """

    def __init__(
        self,
        path: Path,
        values: Mapping[str, Any],
        roles: Mapping[str, int] | None = None,
        generation: Mapping[str, Any] | None = None,
        weights: Collection[str] = (),
    ) -> None:
        self.path, self.values, self.roles = path, dict(values), roles or {}
        self.generation, self.weights = dict(generation or {}), weights
        self.notes: list[str] = []
        self._read = set(_WITHOUT_EFFECT)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a setting. Absent ones have the default of their family."""
        self._read.add(name)
        found = self.values.get(name)
        return default if found is None else found

    def nullable(self, name: str, default: Any) -> Any:
        """Return a setting, for which null is a value of its own. Absent ones have the default of their family."""
        self._read.add(name)
        return self.values.get(name, default)

    def token(self, role: str, default: int | None = None) -> int | None:
        """Return the id of a special token: as config.json says, else as the tokenizer says, else the default."""
        found: int | None = self.get(f"{role}_token_id", self.roles.get(role, default))
        return found

    def known_token(self, role: str, default: int | None = None) -> int:
        """Return the id of a special token that the model can't do without. Raise ModelError if there is none."""
        found = self.token(role, default)
        if found is None:
            name = f"{role}_token_id"
            expected = f"{name}, or a tokenizer that names its {role} token"
            raise ModelError(f"{self.path} has no {name}", expected=expected, name=name)
        return found

    def generating(self, name: str, default: Any = None) -> Any:
        """Return a setting for generating text. Older folders have it in config.json."""
        found, older = self.generation.get(name), self.get(name, default)
        return older if found is None else found

    def expect(self, name: str, *values: Any) -> None:
        """Raise ModelError unless a setting is absent or has one of these values, the only supported ones."""
        self._read.add(name)
        found = self.values.get(name)
        if found is not None and found not in values:
            raise self.unsupported(name, expected=" or ".join(map(spell, values)))

    def unsupported(self, name: str, *, expected: str = "", fix: str = "") -> ModelError:
        """Return the error for a setting that our parts can't express."""
        found = self.values.get(name, self.generation.get(name))
        what = f"{self.path} has {name}={spell(found)}, which isn't supported"
        return ModelError(what, expected=expected, fix=fix, name=name, value=found)

    @property
    def unread(self) -> list[str]:
        """The settings that nothing has read, except those without a value."""
        return sorted({name for name, it in self.values.items() if it is not None} - self._read)


@dataclass(frozen=True)
class Same:
    """A setting of ours, with the name and values that it has in a config.json.

    Args:
        ours: its dotted name.
        theirs: their name. More names mean more settings for what is one of ours; the first one counts.
        default: the value that the family has if config.json doesn't say.
        values: our value for each of theirs, if they differ.
    """

    ours: str
    theirs: tuple[str, ...]
    default: Any
    values: Mapping[Any, Any] | None = None

    def read(self, given: Given) -> Any:
        """Return our value. Raise ModelError if we have none for theirs."""
        found, *_ = (given.get(name, self.default) for name in self.theirs)
        if self.values is None:
            return found
        if found not in self.values:
            raise given.unsupported(self.theirs[0], expected=" or ".join(map(spell, self.values)))
        return self.values[found]

    def write(self, value: Any) -> dict[str, Any]:
        """Return their settings."""
        if self.values is not None:
            value = next(it for it, ours in self.values.items() if ours == value)
        return dict.fromkeys(self.theirs, value)


class Family(ABC):
    """Base class of families. Every setting of ours that differs from its default is in one of the three tables."""

    title: ClassVar[str]
    """The name of the family, for messages."""
    model_type: ClassVar[str]
    """The value of model_type in config.json."""
    architectures: ClassVar[Mapping[str, str]]
    """The classes whose weights are read, and the task of each. The first class of a task is the one exported."""
    prefix: ClassVar[str] = ""
    """What the names of weights begin with in a model with a head."""
    reads_text: ClassVar[bool] = True
    """Whether the model has a tokenizer."""
    unused: ClassVar[Sequence[str]] = ()
    """Weights that change no output, such as tables that are computed. {} stands for a number."""
    without_effect: ClassVar[Sequence[str]] = ()
    """Settings of theirs that change no output."""

    fixed: ClassVar[Mapping[str, Any]]
    """Settings of ours that all models of the family have."""
    same: ClassVar[Sequence[Same]]
    """Settings that both sides have."""
    derived: ClassVar[Sequence[str]] = ()
    """Settings of ours that `more` sets and `their_config` reads."""

    @property
    def tasks(self) -> Sequence[str]:
        """The tasks that models of the family can be used for."""
        return list(dict.fromkeys(self.architectures.values()))

    def settings(self, given: Given, tokens: Mapping[str, int]) -> dict[str, Any]:
        """Return our settings.

        Args:
            given: theirs.
            tokens: the id of each token in the vocabulary.

        Raises:
            ModelError: one of their settings isn't supported.
        """
        for name in self.without_effect:
            given.get(name)
        found = dict(self.fixed) | {it.ours: it.read(given) for it in self.same}
        return found | self.more(given, found, tokens)

    @abstractmethod
    def more(self, given: Given, found: Mapping[str, Any], tokens: Mapping[str, int]) -> dict[str, Any]:
        """Return settings of ours that follow from several of theirs, and reject what isn't supported."""

    def head(self, given: Given, task: str) -> dict[str, Any]:
        """Return our settings for the head of a task, and for the data that it reads."""
        return {}

    def adjusted(self, weights: dict[str, Tensor], given: Given) -> dict[str, Tensor]:
        """Return our weights, changed as other files of the folder say."""
        return weights

    @abstractmethod
    def names(self, model: ModelConfig) -> list[Name]:
        """Return the names of all weights."""

    def arranged(self, model: ModelConfig, weights: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return our weights with the dimensions of hidden states in the order that the family needs."""
        return weights

    def config(self, config: Config) -> dict[str, Any]:
        """Return the content of config.json. Raise ModelError if a setting has no counterpart."""
        ours, lacking = resolved(config.model), self.lacks(config.model)
        if lacking:
            raise no_counterpart({name: ours[name] for name in lacking}, self.title, lacking)
        found: dict[str, Any] = {"model_type": self.model_type, "architectures": [self.architecture(config)]}
        for it in self.same:
            found |= it.write(ours[it.ours] if it.ours in ours else config.value(it.ours))
        return found | self.their_config(config)

    def their_config(self, config: Config) -> dict[str, Any]:
        """Return settings of theirs that follow from several of ours."""
        return {}

    def files(self, config: Config) -> dict[str, bytes]:
        """Return more files of an exported folder, by name."""
        return {}

    def architecture(self, config: Config) -> str:
        """Return the class that the weights are exported for."""
        task = config.train.task or "translate"
        fitting = [name for name, it in self.architectures.items() if it == task]
        if not fitting:
            tasks = " or ".join(dict.fromkeys(self.architectures.values()))
            raise no_counterpart({"train.task": task}, self.title, {"train.task": tasks})
        return fitting[0]

    def lacks(self, model: ModelSettings) -> dict[str, str]:
        """Return the settings of a model that have no counterpart, and for each the values that have one."""
        known = {it.ours for it in self.same} | {*self.derived} | _OURS_WITHOUT_EFFECT
        needed = {
            field.name: getattr(model, field.name) if name in known else self.fixed.get(name, field.default)
            for field in fields(ModelSettings)
            for name in (f"model.{field.name}",)
        }
        ours, theirs = resolved(model), resolved(ModelSettings(**needed))
        found = {name: spell(value) for name, value in theirs.items() if ours[name] != value}
        choices = {it.ours: it.values.values() for it in self.same if it.values is not None}
        wrong = {name: values for name, values in choices.items() if name in ours and ours[name] not in values}
        return found | {name: " or ".join(map(spell, dict.fromkeys(values))) for name, values in wrong.items()}


def no_counterpart(values: Mapping[str, Any], family: str, expected: Mapping[str, str]) -> ModelError:
    """Return the error for settings that a family doesn't have.

    Args:
        values: their values.
        family: the title of the family.
        expected: the values that have a counterpart, spelled.
    """
    found = ", ".join(f"{name}={spell(value)}" for name, value in values.items())
    what = f"{found} {'has' if len(values) == 1 else 'have'} no counterpart in {family}"
    name, value = next(iter(values.items()))
    needed = ", ".join(f"{name}={it}" for name, it in expected.items())
    return ModelError(what, expected=needed, name=name, value=value)
