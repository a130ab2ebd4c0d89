"""The model's configuration: its settings, checked."""

from dataclasses import dataclass

from .model_checks import check_model
from .model_settings import ModelSettings


@dataclass(frozen=True, kw_only=True)
class ModelConfig(ModelSettings):
    """Shape and components of a Transformer (sections 3 and 6.2 of the paper). Pass it to `build` to make a model."""

    def __post_init__(self) -> None:
        """Reject invalid settings."""
        check_model(self)
