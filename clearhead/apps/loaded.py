"""A model folder in use: settings and tokenizers in memory, the weights read when they're first needed."""

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
    """The settings, tokenizers, task and weights of one model folder.

    Reading the weights is the only part that needs torch, and it happens once, at the first access to `model`.
    Pickling leaves the weights out: the copy reads them from the same folder.

    Args:
        path: the model folder.
        config: its settings; some may be overridden.
        tokenizer: the content of its tokenizer file.
        stored: the settings as stored in the folder.
        threads: number of threads for torch (None: unchanged).
    """

    def __init__(
        self, path: Path, config: Config, tokenizer: str, *, stored: Config, threads: int | None = None
    ) -> None:
        self.path, self.config, self.threads = path, config, threads
        self._tokenizer, self._stored = tokenizer, stored

    def override(self, values: dict[str, Any]) -> "LoadedModel":
        """Return the same model with other settings. Weights that were read are shared."""
        other = LoadedModel(self.path, self.config.override(values), self._tokenizer, stored=self._stored)
        if "_weights" in self.__dict__:
            other.__dict__["_weights"] = self._weights
        return other

    @cached_property
    def tokenizers(self) -> Tokenizers:
        """Its tokenizers. A damaged file, or sizes that don't fit the model, raise ModelError."""
        origin = str(self.path / TOKENIZER)
        found = Tokenizers.from_json(self._tokenizer, origin=origin)
        found.check_sizes(self.config.model, origin=origin)
        return found

    @cached_property
    def task(self) -> "Task":
        """Its task."""
        return task_of(self.config)(self.tokenizers, self.config)

    @property
    def model(self) -> "nn.Module":
        """The torch module, in evaluation mode on its device."""
        return self._weights[0]

    @cached_property
    def handle(self) -> "FolderHandle":
        """The model as a decoding engine receives it. No weights are read before the engine asks for them."""
        return FolderHandle(self)

    @property
    def weights_digest(self) -> str:
        """The SHA-256 of the file that the weights were read from."""
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
    """A `decode.model_handle.ModelHandle` of a loaded model."""

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
        """Reject every format: nothing here converts models yet."""
        raise ConfigError(f"a model can't be converted to {format!r}", name="format", value=format)
