"""A family of models: its settings and weights next to ours, in tables that serve import and export."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from torch import Tensor

from ...config import Config, ModelConfig
from ...config.model_settings import DROPOUT, ModelSettings
from ...config.values import spell
from ...errors import ModelError
from ..weight_names import Name
from .hf_config import HfConfig

# Settings of ours that change no output of a trained model, or that other files carry.
_OURS_WITHOUT_EFFECT = frozenset(
    (*DROPOUT, "model.augment", "model.unk_id", "model.mask_id", "model.begin", "model.more_eos_ids")
)

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

    def read(self, hf_config: HfConfig) -> Any:
        """Return our value. Raise ModelError if we have none for theirs."""
        found, *_ = (hf_config.get(name, self.default) for name in self.theirs)
        if self.values is None:
            return found
        if isinstance(found, list | dict) or found not in self.values:
            raise hf_config.unsupported(self.theirs[0], expected=" or ".join(map(spell, self.values)))
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

    def tasks_of(self, task: str) -> Sequence[str]:
        """Return the tasks that a model can be used for if its class is for this one."""
        return (task,)

    def settings(self, hf_config: HfConfig) -> dict[str, Any]:
        """Return our settings for theirs. Raise ModelError if one of theirs isn't supported."""
        for name in self.without_effect:
            hf_config.get(name)
        found = dict(self.fixed) | {it.ours: it.read(hf_config) for it in self.same}
        return found | self.more(hf_config, found)

    @abstractmethod
    def more(self, hf_config: HfConfig, found: Mapping[str, Any]) -> dict[str, Any]:
        """Return settings of ours that follow from several of theirs, and reject what isn't supported."""

    def head(self, hf_config: HfConfig, task: str) -> dict[str, Any]:
        """Return our settings for the head of a task, and for the data that it reads."""
        return {}

    def adjusted(self, weights: dict[str, Tensor], hf_config: HfConfig) -> dict[str, Tensor]:
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
        ours, lacking = config.model.resolved(), self.lacks(config.model)
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
        ours, theirs = model.resolved(), ModelSettings(**needed).resolved()
        found = {name: spell(value) for name, value in theirs.items() if ours[name] != value}
        choices = {it.ours: it.values.values() for it in self.same if it.values is not None}
        wrong = {name: values for name, values in choices.items() if name in ours and ours[name] not in values}
        return found | {name: " or ".join(map(spell, dict.fromkeys(values))) for name, values in wrong.items()}


class EncoderDecoderFamily(Family):
    """Base class of families of encoder-decoders."""

    without_effect: ClassVar[Sequence[str]] = (
        "is_encoder_decoder",
        "is_decoder",
        "init_std",
        "classifier_dropout",
        "num_hidden_layers",
    )
    special: ClassVar[Mapping[str, int | None]]
    """The default id of each special token. None means that of `decoder_start` or, for that one, `pad`."""
    derived: ClassVar[Sequence[str]] = (
        *("model.pad_id", "model.bos_id", "model.eos_id", "model.start_id"),
        *("model.tgt_vocab_size", "model.embedding_scale", "model.projection_bias"),
    )

    @property
    def tasks(self) -> Sequence[str]:
        return ("translate", "summarize")

    def tasks_of(self, task: str) -> Sequence[str]:
        return self.tasks

    def more(self, hf_config: HfConfig, found: Mapping[str, Any]) -> dict[str, Any]:
        ids = {
            role: hf_config.generating(f"{role}_token_id", hf_config.roles.get(role, default))
            for role, default in self.special.items()
        }
        start = ids["pad"] if ids["decoder_start"] is None else ids["decoder_start"]
        for name in ("forced_bos_token_id", "force_bos_token_to_be_generated"):
            if hf_config.generating(name, False) is not False:
                fix = "delete it from config.json and generation_config.json; the model then chooses its first token"
                raise hf_config.unsupported(name, fix=f"{fix} itself")
        return {
            "model.pad_id": ids["pad"],
            "model.eos_id": ids["eos"],
            "model.bos_id": start if ids["bos"] is None else ids["bos"],
            "model.start_id": start,
            "model.unk_id": hf_config.tokens.get("<unk>"),
            "model.mask_id": hf_config.tokens.get("<mask>"),
        }

    def their_config(self, config: Config) -> dict[str, Any]:
        model = config.model
        return {
            "is_encoder_decoder": True,
            "pad_token_id": model.pad_id,
            "bos_token_id": model.bos_id,
            "eos_token_id": model.eos_id,
            "decoder_start_token_id": model.special.start,
        }

    def architecture(self, config: Config) -> str:
        """Return the class that the weights are exported for: the same for translations, summaries and others."""
        return next(iter(self.architectures))


def no_counterpart(values: Mapping[str, Any], family: str, expected: Mapping[str, str]) -> ModelError:
    """Return the error for settings that a family doesn't have.

    Args:
        family: the title of the family.
        expected: the values that have a counterpart, spelled.
    """
    found = ", ".join(f"{name}={spell(value)}" for name, value in values.items())
    what = f"{found} {'has' if len(values) == 1 else 'have'} no counterpart in {family}"
    name, value = next(iter(values.items()))
    needed = ", ".join(f"{name}={it}" for name, it in expected.items())
    return ModelError(what, expected=needed, name=name, value=value)
