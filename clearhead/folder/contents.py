"""Inspect the contents of a folder: a run, other files, or nothing."""

import json
import re
from pathlib import Path

from ..errors import ModelError, TrainingError
from .manifest import MANIFEST, Manifest, read_bytes
from .model_folder import CONFIG

CHECKPOINTS = "checkpoints"


def visible(path: Path) -> list[str]:
    """Return the names of a folder's entries, sorted. Hidden files, such as .gitkeep, don't count."""
    return sorted(entry.name for entry in path.iterdir() if not entry.name.startswith(".")) if path.exists() else []


def checkpoint_steps(run: Path) -> list[int]:
    """Return the steps of the checkpoints in a run's folder, newest first."""
    names = (re.fullmatch(r"step-(\d{8,})", folder.name) for folder in (run / CHECKPOINTS).glob("step-*"))
    return sorted((int(name[1]) for name in names if name), reverse=True)


def checkpoint_folder(run: Path, step: int) -> Path:
    """Return the folder of a checkpoint in a run's folder."""
    return run / CHECKPOINTS / f"step-{step:08d}"


def has_begun(path: Path) -> bool:
    """Return whether a folder contains a model or a run, not just what's left of one that never began."""
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
        shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        raise TrainingError(
            f"{path} contains files that don't belong to a run: {shown}",
            expected="a new or empty folder, or the folder of a run",
            fix="choose another one with `out`",
            value=path,
        )


def _has_format(path: Path) -> bool:
    try:
        values = json.loads(read_bytes(path))
    except (ModelError, ValueError, RecursionError):
        return False
    return isinstance(values, dict) and "format_version" in values
