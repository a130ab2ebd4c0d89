"""A recipe: the settings of a run without an open choice. `training.prepare` makes one from a `Config`."""

from dataclasses import dataclass
from typing import Literal, Self

from ..errors import ConfigError
from .config import Config
from .data_config import DataConfig
from .train_config import TrainConfig


@dataclass(frozen=True, kw_only=True)
class DataRecipe(DataConfig):
    """Settings of the data. The ones listed have been chosen."""

    batch_tokens: int


@dataclass(frozen=True, kw_only=True)
class TrainRecipe(TrainConfig):
    """Settings of training. The ones listed have been chosen."""

    steps: int
    optimizer: Literal["adam", "adamw", "muon"]
    lr: float
    schedule: Literal["paper", "cosine", "linear", "constant"]
    warmup: int
    eval_every: int
    save_every: int
    precision: Literal["fp32", "bf16"]
    device: str
    threads: int


_CHOSEN = [f"{section}.{key}" for section, kind in (("data", DataRecipe), ("train", TrainRecipe))
           for key in kind.__annotations__]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Recipe(Config):
    """The settings of a run, with everything chosen that a `Config` may leave open."""

    data: DataRecipe
    train: TrainRecipe

    @classmethod
    def of(cls, config: Config) -> Self:
        """Return the settings as a recipe. Raise ConfigError if one of them is still open."""
        for name in _CHOSEN:
            if (value := config.value(name)) in (None, "auto"):
                what = f"{name} is still open"
                raise ConfigError(what, expected="a value that training has chosen", name=name, value=value)
        data, train = DataRecipe(**vars(config.data)), TrainRecipe(**vars(config.train))
        return cls(model=config.model, data=data, train=train, decode=config.decode, origins=config.origins)
