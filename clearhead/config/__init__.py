"""All settings and presets, and the origin of each value."""

from .config import Config, Recipe, Setting, TrainRecipe, settings
from .data_config import SEPARATORS, DataConfig
from .decode_config import DecodeConfig
from .model_config import ModelConfig
from .model_settings import DROPOUT, SHAPE, SPECIAL, SpecialTokens
from .presets import FAMILIES, PRESETS, PublishedModel, preset, published
from .task_spec import TASKS, TaskSpec
from .train_config import NEWEST, TrainConfig

__all__ = [
    "DROPOUT",
    "FAMILIES",
    "NEWEST",
    "PRESETS",
    "SEPARATORS",
    "SHAPE",
    "SPECIAL",
    "TASKS",
    "Config",
    "DataConfig",
    "DecodeConfig",
    "ModelConfig",
    "PublishedModel",
    "Recipe",
    "Setting",
    "SpecialTokens",
    "TaskSpec",
    "TrainConfig",
    "TrainRecipe",
    "preset",
    "published",
    "settings",
]
