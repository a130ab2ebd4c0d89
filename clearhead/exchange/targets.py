"""Registry of export targets. To add one, write a function and list it here."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..errors import ConfigError, ModelError, TrainingError, shortened, unknown
from ..folder.adapters import is_adapter
from ..folder.atomic import writing
from ..folder.checkpoint import visible
from ..folder.manifest import write_folder_with_manifest
from ..folder.model_folder import CARD, load_model_folder, model_files, read_card
from ..loading import LoadedModel

# The function that writes a model to a new folder or, for a page, to a new file: f(loaded, out). One with a choice of
# precisions also takes `precision`.
TARGETS: Mapping[str, str] = MappingProxyType(
    {
        "huggingface": "clearhead.exchange.huggingface:export",
        "onnx": "clearhead.exchange.onnx.onnx_folder:export",
        "ct2": "clearhead.exchange.ct2:export",
        "page": "clearhead.exchange.page.page_file:export",
        "clearhead": "clearhead.exchange.targets:export_merged",
        "peft": "clearhead.exchange.peft:export",
    }
)
PRECISIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "huggingface": ("fp32",),
        "onnx": ("fp32", "int8"),
        "ct2": ("fp32", "fp16", "bf16", "int16", "int8"),
        "page": ("fp32", "int8"),
        "clearhead": ("fp32",),
        "peft": ("fp32",),
    }
)
_ALIASES = {"hf": "huggingface"}
_FILES = ("page",)  # targets that are one file


def export(loaded: LoadedModel, target: str, out: Path, *, precision: str = "fp32") -> None:
    """Write a model in another format to the folder `out`, which must be new or empty. A page is one new file.

    Args:
        loaded: the model.
        target: a key of `TARGETS`, or "hf" for huggingface.
        out: the folder or file to write.
        precision: the type of the stored numbers, one of the target's `PRECISIONS`.

    Raises:
        ConfigError: the target or the precision is unknown, or the target needs a program that isn't installed.
        ModelError: the model has a part without a counterpart in the target.
        TrainingError: the folder has files in it, the file exists, or they can't be written to.
    """
    target = _ALIASES.get(target, target)
    if target not in TARGETS:
        raise unknown(f"there's no export to {target!r}", target, TARGETS, "to")
    if precision not in PRECISIONS[target]:
        what = f"a model can't be exported to {target} in precision {precision!r}"
        raise ConfigError(what, expected=" or ".join(PRECISIONS[target]), name="precision", value=precision)
    is_file = target in _FILES
    (check_new if is_file else check_empty)(out)
    module, function = TARGETS[target].split(":")
    write: Any = getattr(importlib.import_module(module), function)
    with writing(out.parent if is_file else out, again="run the command again"):
        write(loaded, out, **({"precision": precision} if len(PRECISIONS[target]) > 1 else {}))


def check_new(out: Path) -> None:
    """Raise TrainingError if a file, or a folder of its name, exists."""
    if out.exists():
        what = f"{out} {'is a folder' if out.is_dir() else 'exists'}"
        raise TrainingError(what, expected="a new file", fix="choose another one with `out`", name="out", value=out)


def check_empty(out: Path) -> None:
    """Raise TrainingError unless a folder is new or empty."""
    names = [out.name] if out.exists() and not out.is_dir() else visible(out)
    if names:
        what = f"{out} already has files: {shortened(names)}" if out.is_dir() else f"{out} is a file"
        expected, fix = "a new or empty folder", "choose another one with `out`"
        raise TrainingError(what, expected=expected, fix=fix, name="out", value=out)


def export_merged(loaded: LoadedModel, out: Path) -> None:
    """Write a model folder with the weights that an adapter makes. Raise ModelError if the model has no adapter."""
    folder = load_model_folder(loaded.path, allow_custom_code=True, base=loaded.base)  # `load` checked consent
    if not is_adapter(loaded.path):
        what = f"{loaded.path} has no adapter to merge"
        raise ModelError(what, expected="the folder of an adapter, or a model with --adapter", name=str(loaded.path))
    config = loaded.stored.assign({"train.adapter": ()}, "default")
    card = read_card(loaded.path) if (loaded.path / CARD).exists() else None
    files = model_files(config=config.to_record(), tokenizer=folder.tokenizer, weights=folder.weights, card=card)
    write_folder_with_manifest(out, files.items())
