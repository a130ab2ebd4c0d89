"""The contents of a folder: a run and its checkpoints, other files, or nothing."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ModelError, TrainingError, shortened
from .manifest import MANIFEST, Manifest, parse_json_object, read_json_object, read_verified, write_folder_with_manifest
from .model_folder import CONFIG, weights_from_bytes, weights_to_bytes

if TYPE_CHECKING:
    from torch import Tensor

CHECKPOINTS = "checkpoints"
_STATE, _SUFFIX = "state.json", ".safetensors"


# --- checkpoints ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Checkpoint:
    """The state of training after `step` updates: named groups of tensors on the CPU, and plain values."""

    step: int
    tensors: "dict[str, dict[str, Tensor]]"
    state: dict[str, Any]


def checkpoint_steps(run: Path) -> list[int]:
    """Return the steps of the checkpoints in a run's folder, newest first."""
    names = (re.fullmatch(r"step-(\d{8,})", folder.name) for folder in (run / CHECKPOINTS).glob("step-*"))
    return sorted((int(name[1]) for name in names if name), reverse=True)


def checkpoint_folder(run: Path, step: int) -> Path:
    """Return the folder of a checkpoint in a run's folder."""
    return run / CHECKPOINTS / f"step-{step:08d}"


def write_checkpoint(
    run: Path, step: int, tensors: "Mapping[str, Mapping[str, Tensor]]", state: Mapping[str, Any]
) -> Path:
    """Write checkpoints/step-<step> in a run's folder atomically, and return its path.

    Args:
        run: the run's folder.
        step: the number of updates so far.
        tensors: groups of tensors, keyed by file name: {"model": ..., "optimizer": ...}.
        state: JSON-serialisable values.
    """

    def files() -> Iterator[tuple[str, bytes]]:
        for group, named in tensors.items():
            yield group + _SUFFIX, weights_to_bytes(named)
        yield _STATE, (json.dumps({"step": step, "state": state}, indent=1) + "\n").encode()

    write_folder_with_manifest(checkpoint_folder(run, step), files())
    return checkpoint_folder(run, step)


def read_checkpoint(folder: Path) -> Checkpoint:
    """Read a checkpoint. Raise ModelError unless every file matches its digest in the manifest."""
    files = read_verified(folder)
    if _STATE not in files:
        what = f"{folder} isn't a checkpoint: {MANIFEST} doesn't name {_STATE}"
        raise ModelError(what, expected="a checkpoint", name=_STATE)
    values = parse_json_object(folder / _STATE, files.pop(_STATE))
    step, state = values.get("step"), values.get("state")
    if type(step) is not int or not isinstance(state, dict):
        what = f"{folder / _STATE} is damaged"
        raise ModelError(what, expected='"step", an integer, and "state", an object', name=_STATE)
    tensors = {name.removesuffix(_SUFFIX): weights_from_bytes(folder / name, data) for name, data in files.items()}
    return Checkpoint(step, tensors, state)


# --- folders ---------------------------------------------------------------------------------------------------------


def visible(path: Path) -> list[str]:
    """Return the names of a folder's entries, sorted. Hidden files, such as .gitkeep, don't count."""
    return sorted(entry.name for entry in path.iterdir() if not entry.name.startswith(".")) if path.exists() else []


def has_begun(path: Path) -> bool:
    """Return whether a folder contains a model or a run, not just the remains of one that never began."""
    try:
        manifest = Manifest.read(path) if (path / MANIFEST).exists() else None
    except ModelError:  # it's damaged, but something began
        return True
    return (path / CONFIG).exists() if manifest is None else CONFIG in manifest.files | manifest.incoming


def describe_run(path: Path) -> str:
    """Describe the run in a folder. Return "" if there's none."""
    if not has_begun(path):
        return ""
    if steps := checkpoint_steps(path):
        return f"a run whose newest checkpoint is from step {steps[0]}"
    return "a model, or a run without a checkpoint"


def check_not_foreign(path: Path) -> None:
    """Raise TrainingError if a path is a file, or a folder of files that Clearhead didn't write."""
    if path.exists() and not path.is_dir():
        raise TrainingError(f"{path} is a file", expected="a folder", fix="choose another one with `out`", value=path)
    names = visible(path)
    if names and not any(_has_format(path / name) for name in (MANIFEST, CONFIG)):
        what = f"{path} contains files that don't belong to a run: {shortened(names)}"
        expected = "a new or empty folder, or the folder of a run"
        raise TrainingError(what, expected=expected, fix="choose another one with `out`", value=path)


def _has_format(path: Path) -> bool:
    try:
        return "format_version" in read_json_object(path)
    except ModelError:
        return False
