"""Read and write model folders: settings, weights and tokenizer.

config.json  model.safetensors  tokenizer.json  README.md  manifest.json
"""

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError

from ..config import Config, messages, settings
from ..errors import ConfigError, ModelError
from .adapters import ADAPTER, ADAPTER_WEIGHTS, Adapter, base_weights, is_adapter, merged, weights_file, weights_file_in
from .atomic import BUNDLED, FolderLock, writing
from .manifest import (
    FORMAT_VERSION,
    MANIFEST,
    RESTORE,
    Manifest,
    check_format,
    parse_json_object,
    read_bytes,
    read_verified,
    read_with_digests,
    replace_files,
)
from .weight_table import check_numbers, check_shapes, check_weights, stored_tensors

if TYPE_CHECKING:
    from torch import Tensor, nn

CONFIG, WEIGHTS, TOKENIZER, CARD = "config.json", "model.safetensors", "tokenizer.json", "README.md"
WORDS = "words.txt"  # the words seen in training, for word tokenizers
CONFIDENCE = "confidence.json"  # what the model's certainty was worth on validation data
DEMO = "demo"  # name of the model in the package


@dataclass(frozen=True)
class ModelFolder:
    """Verified contents of a model folder. They're consistent even if a run replaces files during the read.

    Attributes:
        weights: tensors by name, for `load_weights`, or numpy arrays.
        weights_digest: the SHA-256 of the weights file, or, with an adapter, of what its weights are made from.
        tokenizer: the text of the tokenizer file.
    """

    path: Path
    config: Config
    weights: "dict[str, Any]"
    weights_digest: str
    tokenizer: str


def model_path(name: str | Path) -> Path:
    """Return the folder of a model: for `demo`, the one in the package, unless there's a folder of that name."""
    path = Path(name)
    return BUNDLED if str(path) == DEMO and not path.is_dir() else path


def model_files(
    *,
    config: Mapping[str, Any] | None = None,
    tokenizer: str | None = None,
    weights: "Mapping[str, Tensor] | None" = None,
    card: str | None = None,
    confidence: Mapping[str, Any] | None = None,
) -> dict[str, bytes]:
    """Serialise the given parts of a model. Return the file contents, keyed by file name.

    Args:
        config: the settings, as in `Config.to_record`.
        tokenizer: the text of the tokenizer file.
        weights: tensors by name. Those of an adapter are recognised by their names.
        card: the text of the model card.
        confidence: the calibration, as in `Confidence.to_dict`.
    """
    files: dict[str, bytes] = {}
    if config is not None:
        files[CONFIG] = (json.dumps({"format_version": FORMAT_VERSION, **config}, indent=2) + "\n").encode()
    if tokenizer is not None:
        files[TOKENIZER] = tokenizer.encode()
    if weights is not None:
        files[weights_file(weights)] = weights_to_bytes(weights)
    if card is not None:
        files[CARD] = card.encode()
    if confidence is not None:
        files[CONFIDENCE] = (json.dumps({"format_version": FORMAT_VERSION, **confidence}) + "\n").encode()
    return files


def save_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files, such as those of `model_files` or an evaluation, to a model folder, and update its manifest.

    Raises:
        TrainingError: a run is using the folder, or it can't be written to. Nothing was changed.
    """
    with writing(folder, again="try again", instead="work on a copy"):
        folder.mkdir(parents=True, exist_ok=True)
        lock = FolderLock(folder, say=messages.say, advice="wait for it, or stop it")
        try:
            replace_files(folder, files)
        finally:
            lock.release()


def load_model_folder(
    folder: Path, *, allow_custom_code: bool | Collection[str] = False, numpy: bool = False, base: Path | None = None
) -> ModelFolder:
    """Read and verify a model. An adapter is merged into the weights of its base.

    Args:
        allow_custom_code: True to allow all custom parts (`package.module:Class`) named in the folder's settings, or
            the names of the allowed ones. Nothing is imported.
        numpy: return the weights as numpy arrays, without importing torch.
        base: the folder of an adapter's base (default: the one that the adapter names).

    Raises:
        ModelError: a file is missing or damaged, a setting is unknown, a custom part isn't allowed, the weights don't
            fit the settings, or an adapter's base is missing or has other weights.
    """
    with _reading(folder):
        _expect_folder(folder)
        _expect_weights(folder)
    if is_adapter(folder):
        return _load_adapter(folder, base, allow_custom_code, numpy=numpy)
    files = read_with_digests(folder, (CONFIG, TOKENIZER, WEIGHTS))
    data, weights_digest = files[WEIGHTS]
    config = _parse_config(folder / CONFIG, files[CONFIG][0], allow_custom_code)
    stored = stored_tensors(folder / WEIGHTS, data)
    check_weights(config.model, stored)
    arrays = {name: it.array() for name, it in stored.items()} if numpy else None
    weights = weights_from_bytes(folder / WEIGHTS, data) if arrays is None else arrays
    return ModelFolder(folder, config, weights, weights_digest, _parse_text(folder / TOKENIZER, files[TOKENIZER][0]))


def _load_adapter(
    folder: Path, named: Path | None, allow_custom_code: bool | Collection[str], *, numpy: bool
) -> ModelFolder:
    """Read an adapter, and merge it into the weights of its base."""
    files = read_with_digests(folder, (CONFIG, TOKENIZER, ADAPTER, ADAPTER_WEIGHTS))
    data, weights_digest = files[ADAPTER_WEIGHTS]
    adapter = Adapter.parse(folder / ADAPTER, files[ADAPTER][0])
    under = adapter.base_folder(folder, named)
    base = load_model_folder(under, allow_custom_code=allow_custom_code, numpy=numpy)
    adapter.check_base(folder, under, base.weights_digest)
    config = _parse_config(folder / CONFIG, files[CONFIG][0], allow_custom_code)
    stored = stored_tensors(folder / ADAPTER_WEIGHTS, data)
    check_numbers(config.model, stored)
    own = base_weights(base.weights, base.config.model, config.model)
    arrays = {name: it.array() for name, it in stored.items()}
    weights = merged(own, arrays, adapter.scale, folder / ADAPTER_WEIGHTS)
    check_shapes(config.model, {name: tuple(it.shape) for name, it in weights.items()})
    if not numpy:
        import torch

        weights = {name: it if it is own.get(name) else torch.tensor(it) for name, it in weights.items()}
    tokenizer = _parse_text(folder / TOKENIZER, files[TOKENIZER][0])
    return ModelFolder(folder, config, weights, adapter.digest(weights_digest), tokenizer)


def read_config(folder: Path, *, allow_custom_code: bool | Collection[str] = False) -> Config:
    """Read the settings of a model or of a run that has no weights yet. See `load_model_folder`."""
    with _reading(folder):
        _expect_folder(folder)
    return _parse_config(folder / CONFIG, read_verified(folder, (CONFIG, TOKENIZER))[CONFIG], allow_custom_code)


def read_settings(folder: Path, *, allow_custom_code: bool = False) -> tuple[Config, str]:
    """Read the settings and the tokenizer file of a model that has weights. See `load_model_folder`."""
    with _reading(folder):
        _expect_folder(folder)
        _expect_weights(folder)
    files = read_verified(folder, (CONFIG, TOKENIZER))
    config = _parse_config(folder / CONFIG, files[CONFIG], allow_custom_code)
    return config, _parse_text(folder / TOKENIZER, files[TOKENIZER])


def read_tokenizer(folder: Path) -> str:
    """Read the tokenizer file. Raise ModelError if it's missing or damaged."""
    return _parse_text(folder / TOKENIZER, read_verified(folder, (TOKENIZER,))[TOKENIZER])


def read_card(folder: Path) -> str:
    """Read the model card, which users may have edited. Raise ModelError if it can't be read."""
    return _parse_text(folder / CARD, read_bytes(folder / CARD))


def _parse_text(path: Path, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        what = f"{path} isn't UTF-8: {error}"
        raise ModelError(what, expected="the file that training wrote", name=path.name) from error


def _parse_config(path: Path, data: bytes, allow_custom_code: bool | Collection[str]) -> Config:
    values = parse_json_object(path, data)
    check_format(path, values)
    del values["format_version"]
    try:
        return Config.from_record(values, source=str(path), allow_custom_code=allow_custom_code)
    except ConfigError as error:
        known = (*settings(), *(it.name for it in fields(Config)))
        newer = "it may come from a newer Clearhead: install that version"
        fix = error.fix or (RESTORE if error.name in known else newer)
        raise ModelError(error.what, expected=error.expected, fix=fix, name=error.name, value=error.value) from error


@contextmanager
def _reading(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        what = f"can't read {folder}: {error.strerror}"
        raise ModelError(what, expected="a model folder", name="folder", value=folder) from error


def _expect_folder(folder: Path) -> None:
    """Raise ModelError unless this is the folder of a model or a run."""
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "doesn't exist"
        what = f"{folder} {what}"
        raise ModelError(what, expected="a folder that `clearhead train` has written", name="folder", value=folder)
    if not (folder / CONFIG).exists() and not (folder / MANIFEST).exists():
        raise ModelError(
            f"{folder} has neither {CONFIG} nor {MANIFEST}", expected="a model folder", name="folder", value=folder
        )


def _expect_weights(folder: Path) -> None:
    """Raise ModelError if a run hasn't written weights yet, or has lost them."""
    file = weights_file_in(folder)
    if not (folder / CONFIG).exists() or (folder / file).exists():
        return
    if (folder / MANIFEST).exists() and Manifest.read(folder).finished is not None:
        what = f"{folder} has lost its weights: {file} is missing, but training had finished"
        raise ModelError(what, expected="the complete folder that training wrote", fix=RESTORE, name=file)
    what, expected = f"{folder} has no weights yet: {file} is missing", "a run that has been evaluated at least once"
    raise ModelError(what, expected=expected, fix="continue the training with `resume=True`", name=file)


def weights_to_bytes(tensors: "Mapping[str, Tensor]") -> bytes:
    """Serialise named tensors in the safetensors format. Tied weights are written once, under their first name."""
    seen: set[object] = set()
    distinct = {}
    for name, tensor in tensors.items():
        if identity(tensor) not in seen:
            seen.add(identity(tensor))
            distinct[name] = _alone(tensor)
    import safetensors.torch

    return safetensors.torch.save(distinct)


def weights_from_bytes(path: Path, data: bytes) -> "dict[str, Tensor]":
    """Parse a safetensors file. Raise ModelError if it's in another format."""
    import safetensors.torch

    try:
        return safetensors.torch.load(data)
    except SafetensorError as error:
        raise ModelError(f"{path} isn't in the safetensors format: {error}", fix=RESTORE, name=path.name) from error


def load_weights(model: "nn.Module", weights: "Mapping[str, Tensor]") -> None:
    """Copy weights into a model. A tied weight may be missing under one of its names.

    Raises:
        ModelError: names or shapes differ. Nothing was copied.
    """
    own = model.state_dict()
    names_of: dict[object, list[str]] = {}
    for name, tensor in own.items():
        names_of.setdefault(identity(tensor), []).append(name)
    filled = dict(weights)
    for names in names_of.values():
        known = [name for name in names if name in weights]
        if known:
            filled |= {name: weights[known[0]] for name in names if name not in weights}
    problems = [f"{name} is missing" for name in own if name not in filled]
    problems += [f"{name} is unknown to the model" for name in filled if name not in own]
    for name in own.keys() & weights.keys():
        expected, found = tuple(own[name].shape), tuple(weights[name].shape)
        if expected != found:
            problems.append(f"{name} has shape {found}, expected {expected}")
    if problems:
        shown = "\n  ".join(sorted(problems)[:5])
        what = f"the weights don't fit the model in {len(problems)} places\n  {shown}"
        fix = f"restore {CONFIG} and {WEIGHTS} from the same model"
        raise ModelError(what, fix=fix, name=WEIGHTS, value=len(problems))
    model.load_state_dict(filled)


def identity(tensor: "Tensor") -> object:
    """Return a key that's equal for tied tensors. An empty tensor has no storage, so its key is unique."""
    return (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype) if tensor.numel() else id(tensor)


def _alone(tensor: "Tensor") -> "Tensor":
    """Return the tensor on the CPU, contiguous and in its own storage, as the format requires. Copy only if needed."""
    tensor = tensor.detach().cpu().contiguous()
    whole = tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
    return tensor if whole else tensor.clone()
