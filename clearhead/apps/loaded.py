"""Loaded model folders. The weights are read on first use."""

import importlib
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from ..config import Config, ModelConfig
from ..decode.registry import check_name
from ..errors import ConfigError, ModelError
from ..folder.model_folder import TOKENIZER
from ..tasks.registry import task_of
from ..tokenization.source_and_target import Tokenizers

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import nn

    from ..folder.model_folder import ModelFolder
    from ..tasks.base import Task


Converter: TypeAlias = Callable[[Path], Path]  # from a model folder to a folder in another program's format


def _to_ct2(path: Path) -> Path:
    module = importlib.import_module("clearhead.exchange.ctranslate2.model_cache")
    found: Path = module.cached_model(path)
    return found


CONVERTERS: Mapping[str, Converter] = MappingProxyType({"ct2-fp32": _to_ct2})  # by format


class LoadedModel:
    """The settings, tokenizers, task and weights of a model folder.

    The weights are read once, on the first access to `model`. Only this needs torch. Pickling omits the weights: the
    unpickled copy reads them from the same folder.

    Args:
        path: the model folder.
        config: its settings, possibly with some overridden, and with the device and threads to use.
        tokenizer: the content of its tokenizer file.
        stored: the settings as stored in the folder.
        converters: a converter for each format that engines can ask for.
    """

    def __init__(
        self,
        path: Path,
        config: Config,
        tokenizer: str,
        *,
        stored: Config,
        converters: Mapping[str, Converter] = CONVERTERS,
    ) -> None:
        self.path, self.config, self.converters = path, config, dict(converters)
        self._tokenizer, self.stored = tokenizer, stored

    def override(self, values: dict[str, Any]) -> "LoadedModel":
        """Return the same model with some settings changed. Weights that were already read are shared."""
        config = self.config.override(values)
        other = LoadedModel(self.path, config, self._tokenizer, stored=self.stored, converters=self.converters)
        if "_weights" in self.__dict__:
            other.__dict__["_weights"] = self._weights
        return other

    @cached_property
    def tokenizers(self) -> Tokenizers:
        """The tokenizers. Raises ModelError if their file is damaged or their sizes don't fit the model."""
        origin = str(self.path / TOKENIZER)
        return Tokenizers.for_model(self._tokenizer, self.config.model, origin=origin)

    @cached_property
    def task(self) -> "Task":
        """The model's task."""
        return task_of(self.config)(self.tokenizers, self.config)

    @property
    def model(self) -> "nn.Module":
        """The torch module, in evaluation mode on its device."""
        return self._weights[0]

    @cached_property
    def handle(self) -> "FolderHandle":
        """The model handle for decoding engines. Creating it doesn't read the weights."""
        return FolderHandle(self)

    @property
    def weights_digest(self) -> str:
        """The SHA-256 of the weights file."""
        return self._weights[1]

    @cached_property
    def _weights(self) -> "tuple[nn.Module, str]":
        """Build the model and read its weights.

        Raises:
            ModelError: the weights are damaged, or the folder was retrained after it was loaded.
        """
        import torch

        from ..model.restore import restore
        from ..training.memory import keep_freed_memory

        keep_freed_memory()
        folder = self._read()
        if self.config.train.threads is not None:
            torch.set_num_threads(self.config.train.threads)
        model: nn.Module = restore(self.config.model, folder.weights)
        return model.to(self.config.train.device).eval(), folder.weights_digest

    def _read(self, *, numpy: bool = False) -> "ModelFolder":
        """Read the folder, with its weights. Raise ModelError if it was retrained after it was loaded."""
        from ..folder.model_folder import load_model_folder

        folder = load_model_folder(self.path, allow_custom_code=True, numpy=numpy)  # `load` checked consent
        if (folder.config, folder.tokenizer) != (self.stored, self._tokenizer):
            raise ModelError(f"{self.path} has changed since it was loaded", fix="load it again", name=str(self.path))
        return folder

    @property
    def switched_off(self) -> bool:
        """True if parts of the torch module are switched off (see `App.without`)."""
        if "_weights" not in self.__dict__:
            return False
        from ..inspection.record.switches import switched_off

        return bool(switched_off(self.model))

    def arrays(self) -> "Mapping[str, NDArray[Any]]":
        """Return the weights as numpy arrays: those of the torch module if it was read, else read without torch."""
        if "_weights" in self.__dict__:
            return {name: tensor.numpy(force=True) for name, tensor in self.model.state_dict().items()}
        return self._read(numpy=True).weights

    def __getstate__(self) -> dict[str, Any]:
        left_out = ("_weights", "task", "tokenizers", "handle")
        return {name: value for name, value in self.__dict__.items() if name not in left_out}


def check_stored_engine(folder: Path, stored: Config) -> None:
    """Raise ModelError if the settings stored in a model folder name an unknown decoding engine."""
    try:
        check_name(stored.decode.engine)
    except ConfigError as error:
        raise ModelError(
            f"{folder} has {error.what}", expected=error.expected, fix=error.fix, name=error.name, value=error.value
        ) from error


class FolderHandle:
    """Model handle of a loaded model, as defined by `decode.model_handle.ModelHandle`."""

    def __init__(self, loaded: LoadedModel) -> None:
        self._loaded = loaded
        self.engines: dict[str, Any] = {}
        self._folders: dict[str, Path] = {}  # in other formats

    @property
    def config(self) -> ModelConfig:
        """The settings that the model was built from."""
        return self._loaded.config.model

    @property
    def device(self) -> str:
        """The device to run on."""
        return self._loaded.config.train.device

    @property
    def formats(self) -> Collection[str]:
        """The formats that a converter is given for."""
        return self._loaded.converters.keys()

    @property
    def needs_module(self) -> bool:
        """True if only the torch module computes what it should: parts of it are switched off."""
        return self._loaded.switched_off

    def module(self) -> "nn.Module":
        """Return the torch module on its device. The first call reads the weights."""
        return self._loaded.model

    def weights(self) -> "Mapping[str, NDArray[Any]]":
        """Return the weights as numpy arrays."""
        return self._loaded.arrays()

    def converted(self, format: str) -> Path:
        """Return a folder with the model in another format. Raise ConfigError if there's no converter for it."""
        if format not in self.formats:
            known = ", ".join(self.formats)
            raise ConfigError(f"a model can't be converted to {format!r}", expected=known, name="format", value=format)
        if format not in self._folders:
            self._folders[format] = self._loaded.converters[format](self._loaded.path)
        return self._folders[format]
