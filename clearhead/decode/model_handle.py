"""A model as engines receive it: its settings, and its weights in the form that an engine asks for."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..config import ModelConfig
from ..errors import ConfigError

if TYPE_CHECKING:
    from torch import nn

Weights: TypeAlias = Mapping[str, NDArray[Any]]


@runtime_checkable
class ModelHandle(Protocol):
    """A model that is loaded only as far as an engine needs it."""

    @property
    def config(self) -> ModelConfig:
        """The settings that the model was built from."""

    @property
    def device(self) -> str:
        """The device to run on, such as "cpu" or "cuda:0"."""

    def module(self) -> "nn.Module":
        """Return the torch module on its device. The first call loads it."""

    def weights(self) -> Weights:
        """Return all weights as numpy arrays, by their names in `state_dict`. Avoids importing torch if possible."""

    def converted(self, format: str) -> Path:
        """Return a folder with the model in another program's format, such as "ctranslate2".

        Raises:
            ConfigError: nothing here can write this format.
        """


class InMemoryModel:
    """The handle of a torch module that exists already, such as one in training."""

    def __init__(self, module: "nn.Module", config: ModelConfig) -> None:
        self._module, self._config = module, config

    @property
    def config(self) -> ModelConfig:
        """The settings that the module was built from."""
        return self._config

    @property
    def device(self) -> str:
        """The device of the module's parameters."""
        return str(next(self._module.parameters()).device)

    def module(self) -> "nn.Module":
        """Return the module itself."""
        return self._module

    def weights(self) -> Weights:
        """Return a copy of the current weights; bfloat16 comes as float32, since numpy lacks it."""
        found = {}
        for name, tensor in self._module.state_dict().items():
            half = tensor.is_floating_point() and tensor.element_size() < 4
            found[name] = np.array((tensor.float() if half else tensor).numpy(force=True))
        return found

    def converted(self, format: str) -> Path:
        """Reject every format: a module in memory has no folder to convert."""
        raise ConfigError(
            f"a model in memory can't be converted to {format!r}",
            fix="save it as a model folder, and load that",
            name="format",
            value=format,
        )


def as_handle(model: "ModelHandle | nn.Module", config: ModelConfig) -> ModelHandle:
    """Wrap a torch module, built from `config`, in an `InMemoryModel`. A handle is returned unchanged."""
    return model if isinstance(model, ModelHandle) else InMemoryModel(model, config)
