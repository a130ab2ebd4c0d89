"""A Transformer you can see through.

import clearhead
app = clearhead.load("models/en-fr")
app("I am hungry.")

Names are imported on first use, so `import clearhead` is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .version import __version__

_MODULES = {
    "App": "api",
    "ClearheadError": "errors",
    "Config": "config",
    "ConfigError": "errors",
    "DataConfig": "config",
    "DataError": "errors",
    "DecodeConfig": "config",
    "Evaluation": "apps.evaluation",
    "ModelConfig": "config",
    "ModelError": "errors",
    "Result": "apps.answers",
    "Task": "tasks.base",
    "TrainConfig": "config",
    "TrainingError": "errors",
    "build": "model.transformer",
    "load": "api",
    "preset": "config",
    "published": "config",
    "read_pairs": "readers.pairs",
    "train": "api",
}

__all__ = [
    "App",
    "ClearheadError",
    "Config",
    "ConfigError",
    "DataConfig",
    "DataError",
    "DecodeConfig",
    "Evaluation",
    "ModelConfig",
    "ModelError",
    "Result",
    "Task",
    "TrainConfig",
    "TrainingError",
    "__version__",
    "build",
    "load",
    "preset",
    "published",
    "read_pairs",
    "train",
]

if TYPE_CHECKING:
    from .api import App, load, train
    from .apps.answers import Result
    from .apps.evaluation import Evaluation
    from .config import Config, DataConfig, DecodeConfig, ModelConfig, TrainConfig, preset, published
    from .errors import ClearheadError, ConfigError, DataError, ModelError, TrainingError
    from .model.transformer import build
    from .readers.pairs import read_pairs
    from .tasks.base import Task


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f".{_MODULES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
