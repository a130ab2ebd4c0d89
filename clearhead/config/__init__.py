"""Settings, presets, and the plain values and messages that everything else builds on."""

from .settings import (
    DROPOUT,
    NEWEST,
    PRESETS,
    SEPARATORS,
    SHAPE,
    TASKS,
    Config,
    DataConfig,
    DecodeConfig,
    ModelConfig,
    Setting,
    TrainConfig,
    chosen,
    preset,
    setting,
    settings,
)

__all__ = [
    "DROPOUT",
    "NEWEST",
    "PRESETS",
    "SEPARATORS",
    "SHAPE",
    "TASKS",
    "Config",
    "DataConfig",
    "DecodeConfig",
    "ModelConfig",
    "Setting",
    "TrainConfig",
    "chosen",
    "preset",
    "setting",
    "settings",
]
