"""A model in a folder: settings, weights and tokenizer, all that is needed to run on raw text.

config.json  model.safetensors  tokenizer.json  README.md  manifest.json
"""

import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor, nn

from ..config import Config, messages
from ..errors import ConfigError, ModelError
from .atomic import writing
from .lock import FolderLock
from .manifest import (
    FORMAT_VERSION,
    MANIFEST,
    Manifest,
    check_format,
    digest,
    parse_json_object,
    read_verified,
    replace_files,
)

CONFIG, WEIGHTS, TOKENIZER, CARD = "config.json", "model.safetensors", "tokenizer.json", "README.md"
WORDS = "words.txt"  # those seen in training, where tokens are words


@dataclass(frozen=True)
class ModelFolder:
    """A model as it was read and verified: settings, weights (see `load_weights`) with the digest of their file, and
    the text of the tokenizer's file. A run may write other files meanwhile: these belong together."""

    path: Path
    config: Config
    weights: dict[str, Tensor]
    weights_digest: str
    tokenizer: str


def model_files(
    *,
    config: Mapping[str, Any] | None = None,
    tokenizer: str | None = None,
    weights: Mapping[str, Tensor] | None = None,
    card: str | None = None,
) -> dict[str, bytes]:
    """The contents of a model folder by file name, of the parts that are given."""
    files: dict[str, bytes] = {}
    if config is not None:
        files[CONFIG] = (json.dumps({"format_version": FORMAT_VERSION, **config}, indent=2) + "\n").encode()
    if tokenizer is not None:
        files[TOKENIZER] = tokenizer.encode()
    if weights is not None:
        files[WEIGHTS] = weights_to_bytes(weights)
    if card is not None:
        files[CARD] = card.encode()
    return files


def save_files(folder: Path, files: Mapping[str, bytes], *, say: Callable[[str], None] | None = None) -> None:
    """Write files (`model_files`, an evaluation) into a model folder and its manifest.

    TrainingError: a run holds the folder, or it cannot be written to; then nothing is changed.
    """
    with writing(folder, again="try again", instead="work on a copy"):
        folder.mkdir(parents=True, exist_ok=True)
        lock = FolderLock(folder, say=say or messages.say, advice="wait for it, or stop it")
        try:
            replace_files(folder, files)
        finally:
            lock.release()


def load_model_folder(folder: Path) -> ModelFolder:
    """Read a model and verify it; a ModelError says what is missing, damaged or unknown, and what to do."""
    with _reading(folder):
        _expect_folder(folder)
        _expect_weights(folder)
    files = read_verified(folder, (CONFIG, TOKENIZER, WEIGHTS))
    weights = weights_from_bytes(folder / WEIGHTS, files[WEIGHTS])
    config = _parse_config(folder / CONFIG, files[CONFIG])
    return ModelFolder(
        folder, config, weights, digest(files[WEIGHTS]), _parse_text(folder / TOKENIZER, files[TOKENIZER])
    )


def read_config(folder: Path) -> Config:
    """The settings of a model, or of a run that has no weights yet; a ModelError where they cannot be trusted."""
    with _reading(folder):
        _expect_folder(folder)
    return _parse_config(folder / CONFIG, read_verified(folder, (CONFIG, TOKENIZER))[CONFIG])


def read_tokenizer(folder: Path) -> str:
    """The text of the tokenizer's file; a ModelError where it cannot be trusted."""
    return _parse_text(folder / TOKENIZER, read_verified(folder, (TOKENIZER,))[TOKENIZER])


def _parse_text(path: Path, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ModelError(f"{path} is not UTF-8: {error}; expected the file that training wrote") from error


def _parse_config(path: Path, data: bytes) -> Config:
    values = parse_json_object(path, data)
    check_format(path, values)
    del values["format_version"]
    try:
        return Config.from_record(values, source=str(path))
    except ConfigError as error:
        raise ModelError(f"{error}\n  a newer version of Clearhead may have written it: use that one") from error


@contextmanager
def _reading(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ModelError(f"cannot read {folder}: {error.strerror}; expected a model folder") from error


def _expect_folder(folder: Path) -> None:
    """Say what it is that is no model folder."""
    if not folder.is_dir():
        what, made = ("is a file", "DIR") if folder.exists() else ("does not exist", shlex.quote(str(folder)))
        raise ModelError(
            f"{folder} {what}; expected a model folder, as `clearhead train pairs.tsv --out {made}` makes it"
        )
    if not (folder / CONFIG).exists() and not (folder / MANIFEST).exists():
        raise ModelError(f"{folder} is no model folder: it has neither {CONFIG} nor {MANIFEST}")


def _expect_weights(folder: Path) -> None:
    """Say what a folder is that is not yet a model."""
    if not (folder / CONFIG).exists() or (folder / WEIGHTS).exists():
        return
    if (folder / MANIFEST).exists() and Manifest.read(folder).finished is not None:
        raise ModelError(
            f"{folder} has lost its weights: {WEIGHTS} is missing, and training was complete; expected the whole "
            "folder, as training left it"
        )
    raise ModelError(
        f"{folder} has no weights yet ({WEIGHTS} is missing): training writes them at its first evaluation; "
        "go on with it by `clearhead train ... --resume`"
    )


def weights_to_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """Named tensors in the safetensors format; of several names for one tensor (tied weights) the first is written."""
    seen: set[object] = set()
    distinct = {}
    for name, tensor in tensors.items():
        if _identity(tensor) not in seen:
            seen.add(_identity(tensor))
            distinct[name] = _alone(tensor)
    return safetensors.torch.save(distinct)


def weights_from_bytes(path: Path, data: bytes) -> dict[str, Tensor]:
    """The inverse of `weights_to_bytes`; bytes of another format are a ModelError that names `path`."""
    try:
        return safetensors.torch.load(data)
    except SafetensorError as error:
        raise ModelError(f"{path} is not in the safetensors format: {error}") from error


def load_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copy weights into a model; a name that was left out gets the tensor that the model itself ties it to.

    ModelError where names or shapes differ.
    """
    own = model.state_dict()
    names_of: dict[object, list[str]] = {}
    for name, tensor in own.items():
        names_of.setdefault(_identity(tensor), []).append(name)
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
        raise ModelError(
            f"the weights do not fit the model in {len(problems)} places; do they belong to its {CONFIG}?\n  {shown}"
        )
    model.load_state_dict(filled)


def _identity(tensor: Tensor) -> object:
    """Equal for two names of one tensor; an empty tensor has no storage, and is only itself."""
    return (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype) if tensor.numel() else id(tensor)


def _alone(tensor: Tensor) -> Tensor:
    """On the CPU, contiguous, and in a storage of its own, as the format wants it; no copy where it is so already."""
    tensor = tensor.detach().cpu().contiguous()
    whole = tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
    return tensor if whole else tensor.clone()
