"""Trained models, opened: their settings, tokenizers, task and weights."""

from collections.abc import Callable, Collection, Hashable, Mapping
from functools import cached_property
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from .config import Config, ModelConfig
from .config.messages import say
from .decode.model_handle import InMemoryModel, sharing_weights
from .decode.registry import check_name
from .errors import ConfigError, ModelError
from .folder.adapters import weights_digest
from .folder.manifest import check_format, read_json_object
from .folder.model_folder import CONFIDENCE, TOKENIZER, ModelFolder, load_model_folder
from .scoring.confidence import Confidence
from .tasks.registry import task_of
from .tokenization.source_and_target import Tokenizers

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import nn

    from .tasks.base import Task

TARGET_TOKENIZER = "target_tokenizer.json"
_USUAL = 12  # tokens of a text that makes a good example


class ModuleWatch:
    """Compares a module with its state when the watch began.

    Editing a weight through `.data` or a NumPy array isn't noticed, because PyTorch doesn't count that as a change.

    Args:
        digest: the SHA-256 of the file that its weights were read from.
    """

    def __init__(self, module: "nn.Module", digest: str) -> None:
        self.module, self.digest = module, digest
        self._modules = list(module.modules())
        self._tensors = [*module.parameters(), *module.buffers()]
        self._structure, self._versions = self._current_structure(), self._current_versions()

    @property
    def changes(self) -> Hashable:
        """A value that's different after each change, or None if the module is as it was."""
        now = self._current_structure(), self._current_versions()
        return None if now == (self._structure, self._versions) else now

    @property
    def is_modified(self) -> bool:
        """True if parts were replaced or have hooks, so the weights alone don't determine what the module computes."""
        return self._current_structure() != self._structure

    def _current_structure(self) -> Hashable:
        return tuple(
            (
                len(it._forward_hooks),
                len(it._forward_pre_hooks),
                *map(id, chain(it._modules.values(), it._parameters.values())),
            )
            for it in self._modules
        )

    def _current_versions(self) -> Hashable:
        return tuple((it.data_ptr(), it._version) for it in self._tensors)


class Converter(Protocol):
    """Converts model folders to another program's format, and keeps what it has converted."""

    def __call__(self, path: Path) -> Path:
        """Return the folder with the converted model of a model folder."""

    def is_converted(self, path: Path) -> bool:
        """Return whether the converted model exists."""


class LoadedModel:
    """The settings, tokenizers, task and weights of a model folder.

    The weights are read once, on the first access to `model`. Only this needs torch. Pickling omits the weights: the
    unpickled copy reads them from the same folder.

    Args:
        config: its settings, possibly with some overridden, and with the device and threads to use.
        tokenizer: the content of its tokenizer file.
        stored: the settings as stored in the folder.
        converters: a converter for each format that engines can ask for.
        specials: read the names of special tokens in a text as these tokens (imported models only).
        base: the folder of an adapter's base (default: the one that the adapter names).
    """

    def __init__(
        self,
        path: Path,
        config: Config,
        tokenizer: str,
        *,
        stored: Config,
        converters: Mapping[str, Converter],
        specials: bool = False,
        base: Path | None = None,
    ) -> None:
        self.base = base
        self.path, self.config, self.converters, self.specials = path, config, dict(converters), specials
        self._tokenizer, self.stored = tokenizer, stored
        self._watch: ModuleWatch | None = None  # of the torch module, once it's read
        self._shared: LoadedModel | None = None  # with the same weights and engines

    def override(self, values: dict[str, Any]) -> "LoadedModel":
        """Return the same model with some settings changed. Both share weights, and also engines if these still fit."""
        config = self.config.override(values)
        other = self._with(config)
        if (config.model, config.train) == (self.config.model, self.config.train):
            other._shared = self._shared or self
        else:
            other._watch = self.watch
        return other

    def _with(self, config: Config) -> "LoadedModel":
        more: dict[str, Any] = {"specials": self.specials, "base": self.base}
        return LoadedModel(self.path, config, self._tokenizer, stored=self.stored, converters=self.converters, **more)

    def separate(self) -> "LoadedModel":
        """Return the same model with its own torch module, unaffected by hooks and switches of this one.

        If this one has read its weights, both use the same memory for them.
        """
        other = self._with(self.config)
        if self.watch is not None:
            other._watch = ModuleWatch(sharing_weights(self.watch.module), self.watch.digest)
        return other

    @cached_property
    def tokenizers(self) -> Tokenizers:
        """The tokenizers.

        Raises:
            ModelError: their file is damaged, or their sizes don't fit the model.
            ConfigError: special tokens in texts are asked for, and the model was trained here.
        """
        if self._shared:
            return self._shared.tokenizers
        origin = str(self.path / TOKENIZER)
        found = Tokenizers.for_model(self._tokenizer, self.config.model, origin=origin)
        return found.with_specials() if self.specials else found.warning(say)

    @cached_property
    def task(self) -> "Task":
        return task_of(self.config)(self.tokenizers, self.config)

    @property
    def watch(self) -> ModuleWatch | None:
        """The watch over the torch module, which detects changes, or None if the module wasn't read."""
        return self._shared.watch if self._shared else self._watch

    @property
    def model(self) -> "nn.Module":
        """The torch module, in evaluation mode on its device."""
        return self._opened().module

    @cached_property
    def handle(self) -> "FolderHandle":
        """The model handle for decoding engines. Creating it doesn't read the weights."""
        return self._shared.handle if self._shared else FolderHandle(self)

    @property
    def weights_digest(self) -> str:
        """The SHA-256 of the weights file."""
        return self._opened().digest

    def _opened(self) -> ModuleWatch:
        """Build the module once, and return it under watch. Raise ModelError if the weights are damaged or replaced."""
        if self._shared:
            return self._shared._opened()
        if self._watch is not None:
            return self._watch
        import torch

        from .model.restore import restore
        from .training.memory import keep_freed_memory

        keep_freed_memory()
        folder = self._read()
        if self.config.train.threads is not None:
            torch.set_num_threads(self.config.train.threads)
        model: nn.Module = restore(self.config.model, folder.weights)
        model = model.to(self.config.train.device).eval()
        self._watch = ModuleWatch(model, folder.weights_digest)
        return self._watch

    def _read(self, *, numpy: bool = False) -> ModelFolder:
        """Read the folder, with its weights. Raise ModelError if it was retrained after it was loaded."""
        more: dict[str, Any] = {"numpy": numpy, "base": self.base}
        folder = load_model_folder(self.path, allow_custom_code=True, **more)  # `load` checked consent
        if (folder.config, folder.tokenizer) != (self.stored, self._tokenizer):
            raise ModelError(f"{self.path} has changed since it was loaded", fix="load it again", name=str(self.path))
        return folder

    def arrays(self) -> "Mapping[str, NDArray[Any]]":
        """Return the weights as numpy arrays: those of the torch module if it was read, else read without torch."""
        if self.watch is not None:
            return InMemoryModel(self.model, self.config.model).weights()
        return self._read(numpy=True).weights

    def tokenizer_files(self) -> dict[str, str]:
        """Return the content of an export's tokenizer files, by name: one for each vocabulary, the source's first."""
        if not self.config.model.vocabulary_sizes:
            return {}
        source, target = self.tokenizers.source, self.tokenizers.target
        files = {TOKENIZER: source.to_json()}
        return files if self.tokenizers.joint else files | {TARGET_TOKENIZER: target.to_json()}

    @cached_property
    def confidence(self) -> Confidence | None:
        """The calibration of the model's confidence; None if these weights weren't calibrated.

        Raises:
            ModelError: the file is damaged.
        """
        path = self.path / CONFIDENCE
        if not path.exists():
            return None
        values = read_json_object(path)
        check_format(path, values)
        same = values.get("weights") == weights_digest(self.path)
        return Confidence.from_dict(values, str(path)) if same else None

    def evaluated_sources(self) -> list[str]:
        """Return source texts of the last evaluation, or [] if there's none that can be read."""
        return self._evaluated(lambda it: [row["source"] for row in it["examples"] if row["source"].strip()])

    def evaluated_data(self) -> list[str]:
        """Return the files of the last evaluation, or [] if there's none that can be read."""
        return self._evaluated(lambda it: [*map(str, it["data"])])

    def _evaluated(self, read: Callable[[Any], list[str]]) -> list[str]:
        try:
            return read(read_json_object(self.path / "evaluation.json"))
        except (ModelError, LookupError, TypeError, AttributeError):
            return []

    def examples(self) -> list[str]:
        """Return up to three texts to try: what the training watched, and texts of the last evaluation."""
        watched, texts = self.config.train.watch, self.evaluated_sources()
        most, _ = getattr(self.task, "readable", (self.config.model.max_len - 1, ""))
        sizes = map(len, self.tokenizers.source.encode_batch(texts))
        fits = [(abs(size - _USUAL), it) for size, it in zip(sizes, texts) if 0 < size <= most]
        return [*dict.fromkeys([watched] * bool(watched) + [it for _, it in sorted(fits, key=itemgetter(0))])][:3]

    def __getstate__(self) -> dict[str, Any]:
        left_out = ("task", "tokenizers", "handle")
        return {name: value for name, value in self.__dict__.items() if name not in left_out} | {"_watch": None}


def check_stored_engine(folder: Path, stored: Config) -> None:
    """Raise ModelError if the settings stored in a model folder name an unknown decoding engine."""
    try:
        check_name(stored.decode.engine)
    except ConfigError as error:
        what = f"{folder} has {error.what}"
        raise ModelError(what, expected=error.expected, fix=error.fix, name=error.name, value=error.value) from error


class FolderHandle:
    """Model handle of a loaded model, as defined by `decode.model_handle.ModelHandle`."""

    def __init__(self, loaded: LoadedModel) -> None:
        self._loaded = loaded
        self._engines: dict[str, Any] = {}
        self._changes: Hashable = None  # to the module, when the engines were opened

    @property
    def engines(self) -> dict[str, Any]:
        """The engines that are open for it, by name and precision. They're closed when the torch module changes."""
        if (changes := self._current_changes()) != self._changes:
            self._engines.clear()
            self._changes = changes
        return self._engines

    def _current_changes(self) -> Hashable:
        return self._loaded.watch.changes if self._loaded.watch else None

    @property
    def config(self) -> ModelConfig:
        return self._loaded.config.model

    @property
    def device(self) -> str:
        return self._loaded.config.train.device

    @property
    def formats(self) -> Collection[str]:
        """The formats that a converter is given for."""
        return self._loaded.converters.keys()

    @property
    def needs_module(self) -> bool:
        """True if only the torch module gives the right results: parts were switched off, replaced or hooked."""
        return self._loaded.watch is not None and self._loaded.watch.is_modified

    def module(self) -> "nn.Module":
        return self._loaded.model

    def weights(self) -> "Mapping[str, NDArray[Any]]":
        return self._loaded.arrays()

    def converted(self, format: str) -> Path:
        """Return a folder with the model in another format.

        Raises:
            ConfigError: there's no converter for it, or the torch module has been changed.
        """
        if format not in self.formats:
            known = ", ".join(self.formats)
            raise ConfigError(f"a model can't be converted to {format!r}", expected=known, name="format", value=format)
        if self._current_changes() is not None:
            what = f"a model that was changed in memory can't be converted to {format!r}"
            fix = "set decode.engine='auto', or save the model and load it again"
            raise ConfigError(what, fix=fix, name="format", value=format)
        return self._loaded.converters[format](self._loaded.path)

    def is_converted(self, format: str) -> bool:
        converter = self._loaded.converters.get(format)
        return converter is not None and converter.is_converted(self._loaded.path) and self._current_changes() is None
