"""`--init-from MODEL`: weights and tokenizer of a trained model, to go on with; optimiser and schedule begin anew."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Self

from torch import Tensor

from ..config import DROPOUT, Config, ModelConfig
from ..errors import ConfigError
from ..text.tokenizer import Tokenizers
from .model_folder import TOKENIZER, load_model_folder

# What cannot be otherwise, since the weights were learnt so: every setting of the shape but dropout, and of the text.
KEPT = (
    *(name for name in (f"model.{field.name}" for field in fields(ModelConfig)) if name not in DROPOUT),
    *(f"data.{name}" for name in ("tokenizer", "vocab_size", "joint", "unicode", "whitespace", "lowercase")),
)


@dataclass(frozen=True)
class StartingPoint:
    """A trained model that another begins as."""

    path: Path
    config: Config
    tokenizers: Tokenizers
    weights: Mapping[str, Tensor]

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a model folder; a ModelError where it is absent or damaged."""
        folder = load_model_folder(path)
        tokenizers = Tokenizers.from_json(folder.tokenizer, origin=str(path / TOKENIZER))
        return cls(path, folder.config, tokenizers, folder.weights)

    def settings(self, config: Config, given: Collection[str]) -> Config:
        """`config` with the shape and the text of the model; a ConfigError where something else of these is given."""
        own = {name: self.config.value(name) for name in KEPT}
        for name in own:
            if name in given and config.value(name) != own[name]:
                raise ConfigError(
                    f"{name} = {config.value(name)} contradicts {own[name]}, with which {self.path} was trained; "
                    "expected the same or nothing: weights and tokenizer are taken as they are"
                )
        if "train.preset" in given:
            raise ConfigError(
                f"train.preset = {config.train.preset} beside train.init_from = {self.path}; "
                "expected one of them: the shape is that of the model"
            )
        own |= {name: self.config.value(name) for name in DROPOUT if name not in given}
        return config.override(own)

    def differences(self, config: Config) -> list[str]:
        """What is read otherwise than the model learnt to, which may be meant so, in words."""
        then, now = self.config.data.reverse, config.data.reverse
        if then == now:
            return []
        said = [str(it).lower() for it in (then, now)]
        return [f"{self.path} was trained with data.reverse = {said[0]}, and goes on with data.reverse = {said[1]}"]
