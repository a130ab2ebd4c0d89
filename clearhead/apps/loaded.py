"""Loaded model folders. The weights are read on first use."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config import Config, ModelConfig
from ..errors import ConfigError, ModelError
from ..folder.model_folder import TOKENIZER
from ..tasks.registry import task_of
from ..tokenization.tokenizer import Tokenizers

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import nn

    from ..tasks.base import Task


class LoadedModel:
    """The settings, tokenizers, task and weights of a model folder.

    The weights are read once, on the first access to `model`. Only this needs torch. Pickling omits the weights: the
    unpickled copy reads them from the same folder.

    Args:
        path: the model folder.
        config: its settings, possibly with some overridden.
        tokenizer: the content of its tokenizer file.
        stored: the settings as stored in the folder.
        threads: number of CPU threads for torch (None: unchanged).
    """

    def __init__(
        self, path: Path, config: Config, tokenizer: str, *, stored: Config, threads: int | None = None
    ) -> None:
        self.path, self.config, self.threads = path, config, threads
        self._tokenizer, self._stored = tokenizer, stored

    def override(self, values: dict[str, Any]) -> "LoadedModel":
        """Return the same model with some settings changed. Weights that were already read are shared."""
        other = LoadedModel(self.path, self.config.override(values), self._tokenizer, stored=self._stored)
        if "_weights" in self.__dict__:
            other.__dict__["_weights"] = self._weights
        return other

    @cached_property
    def tokenizers(self) -> Tokenizers:
        """The tokenizers. Raises ModelError if their file is damaged or their sizes don't fit the model."""
        origin = str(self.path / TOKENIZER)
        found = Tokenizers.from_json(self._tokenizer, origin=origin)
        found.check_sizes(self.config.model, origin=origin)
        return found

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

        from ..folder.model_folder import load_model_folder
        from ..model.restore import restore
        from ..training.memory import keep_freed_memory

        keep_freed_memory()
        folder = load_model_folder(self.path, allow_custom_code=True)  # `load` checked consent
        if (folder.config, folder.tokenizer) != (self._stored, self._tokenizer):
            raise ModelError(f"{self.path} has changed since it was loaded", fix="load it again", name=str(self.path))
        if self.threads is not None:
            torch.set_num_threads(self.threads)
        model: nn.Module = restore(self.config.model, folder.weights)
        return model.to(self.config.train.device).eval(), folder.weights_digest

    def __getstate__(self) -> dict[str, Any]:
        left_out = ("_weights", "task", "tokenizers", "handle")
        return {name: value for name, value in self.__dict__.items() if name not in left_out}


class FolderHandle:
    """Model handle of a loaded model, as defined by `decode.model_handle.ModelHandle`."""

    def __init__(self, loaded: LoadedModel) -> None:
        self._loaded = loaded

    @property
    def config(self) -> ModelConfig:
        """The settings that the model was built from."""
        return self._loaded.config.model

    @property
    def device(self) -> str:
        """The device to run on."""
        return self._loaded.config.train.device

    def module(self) -> "nn.Module":
        """Return the torch module on its device. The first call reads the weights."""
        return self._loaded.model

    def weights(self) -> "Mapping[str, NDArray[Any]]":
        """Return the weights as numpy arrays, read without torch."""
        from safetensors.numpy import load

        from ..folder.manifest import read_verified
        from ..folder.model_folder import WEIGHTS

        return load(read_verified(self._loaded.path, (WEIGHTS,))[WEIGHTS])

    def converted(self, format: str) -> Path:
        """Raise ConfigError, because no format is supported yet."""
        raise ConfigError(f"a model can't be converted to {format!r}", name="format", value=format)
