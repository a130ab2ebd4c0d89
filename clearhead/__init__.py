"""A Transformer you can see through.

import clearhead
app = clearhead.load("models/en-fr")
app("I am hungry.")

The names below are imported when they are first used, so that `import clearhead` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_MODULES = {
    "App": "app",
    "ClearheadError": "errors",
    "Config": "config",
    "ConfigError": "errors",
    "DataConfig": "config",
    "DataError": "errors",
    "DecodeConfig": "config",
    "Evaluation": "evaluation",
    "ModelConfig": "config",
    "ModelError": "errors",
    "Result": "answers",
    "TrainConfig": "config",
    "TrainingError": "errors",
    "build": "model.transformer",
    "load": "app",
    "preset": "config",
    "read_pairs": "text.sources",
    "train": "training.warm_start",
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
    "TrainConfig",
    "TrainingError",
    "__version__",
    "build",
    "load",
    "preset",
    "read_pairs",
    "train",
]

if TYPE_CHECKING:
    from .answers import Result
    from .app import App, load
    from .config import Config, DataConfig, DecodeConfig, ModelConfig, TrainConfig, preset
    from .errors import ClearheadError, ConfigError, DataError, ModelError, TrainingError
    from .evaluation import Evaluation
    from .model.transformer import build
    from .text.sources import read_pairs
    from .training.warm_start import train


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f".{_MODULES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
