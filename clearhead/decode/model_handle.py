"""Model handles, which give an engine the model's configuration and load its weights in the form it needs."""

import copy
from collections.abc import Container, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..config import ModelConfig
from ..errors import ConfigError

if TYPE_CHECKING:
    from torch import nn

Weights: TypeAlias = Mapping[str, NDArray[Any]]


@runtime_checkable
class ModelHandle(Protocol):
    """A model that's loaded only when an engine needs it."""

    @property
    def engines(self) -> dict[str, Any]:
        """The engines that are open for it, by name and precision."""

    @property
    def config(self) -> ModelConfig:
        """The configuration that the model was built from."""

    @property
    def device(self) -> str:
        """The device to run on, such as "cpu" or "cuda:0"."""

    @property
    def formats(self) -> Container[str]:
        """The formats that `converted` supports."""

    @property
    def needs_module(self) -> bool:
        """True if only the torch module gives correct results, for example because parts are switched off."""

    def module(self) -> "nn.Module":
        """Return the torch module on its device. The first call loads it."""

    def weights(self) -> Weights:
        """Return all weights as numpy arrays, by their names in `state_dict`. Avoids importing torch if possible."""

    def converted(self, format: str) -> Path:
        """Return a folder with the model in another program's format, such as "ctranslate2".

        Raises:
            ConfigError: the model can't be converted to this format.
        """

    def is_converted(self, format: str) -> bool:
        """Return whether `converted` only has to look up the folder."""


class InMemoryModel:
    """Handle for a torch module in memory, such as one in training."""

    def __init__(self, module: "nn.Module", config: ModelConfig) -> None:
        self._module, self._config = module, config
        self.engines: dict[str, Any] = {}

    @property
    def config(self) -> ModelConfig:
        return self._config

    @property
    def device(self) -> str:
        return str(next(self._module.parameters()).device)

    @property
    def formats(self) -> Container[str]:
        """None: a module in memory has no folder to convert."""
        return ()

    @property
    def needs_module(self) -> bool:
        """True: the module can have hooks, which its weights don't show."""
        return True

    def module(self) -> "nn.Module":
        return self._module

    def weights(self) -> Weights:
        """Return a copy of the current weights. 16-bit floats become float32, since numpy has no bfloat16."""
        found = {}
        for name, tensor in self._module.state_dict().items():
            half = tensor.is_floating_point() and tensor.element_size() < 4
            found[name] = np.array((tensor.float() if half else tensor).numpy(force=True))
        return found

    def converted(self, format: str) -> Path:
        """Raise ConfigError: a module in memory has no folder to convert."""
        what = f"a model in memory can't be converted to {format!r}"
        raise ConfigError(what, fix="save it as a model folder, and load that", name="format", value=format)

    def is_converted(self, format: str) -> bool:
        return False


def as_module(model: "ModelHandle | nn.Module") -> "nn.Module":
    """Return the torch module of a handle. A module is returned unchanged."""
    return model.module() if isinstance(model, ModelHandle) else model


def as_handle(model: "ModelHandle | nn.Module", config: ModelConfig) -> ModelHandle:
    """Wrap a torch module, built from `config`, in an `InMemoryModel`. A handle is returned unchanged.

    Comparing with the protocol would read all properties of the handle for each text.
    """
    return cast(ModelHandle, model) if hasattr(model, "converted") else InMemoryModel(cast("nn.Module", model), config)


def sharing_weights(model: "nn.Module") -> "nn.Module":
    """Return a copy of a module that shares all its weights."""
    return copy.deepcopy(model, {id(it): it for it in (*model.parameters(), *model.buffers())})
