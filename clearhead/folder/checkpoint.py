"""Folder of a training run: a model folder with checkpoints in it.

config.json  model.safetensors  tokenizer.json  README.md  metrics.jsonl  manifest.json
checkpoints/step-00000120/  model.safetensors  optimizer.safetensors  state.json  manifest.json

Files are written atomically, and their SHA-256 is checked when they're read. Nothing is ever unpickled.
"""

import json
import re
import shutil
import socket
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ..config import messages
from ..errors import ModelError, TrainingError, shortened
from .adapters import ADAPTER, ADAPTER_WEIGHTS, weights_file_in
from .atomic import FolderLock, remove_folder, remove_partials, write_file, writing
from .manifest import (
    MANIFEST,
    Manifest,
    complete_replacement,
    digest,
    mark_finished,
    parse_json_object,
    read_bytes,
    read_json_object,
    read_verified,
    replace_files,
    settled,
    write_folder_with_manifest,
)
from .model_folder import CARD, CONFIG, TOKENIZER, WEIGHTS, WORDS, model_files, weights_from_bytes, weights_to_bytes

if TYPE_CHECKING:
    from torch import Tensor

CHECKPOINTS = "checkpoints"
_STATE, _SUFFIX = "state.json", ".safetensors"
PICTURES = ("loss.png", "attention.png", "confusion.png", "demo.html")  # not in the manifest: no part of the model
METRICS = "metrics.jsonl"
FILM = "film.jsonl"
_INITIAL = (CONFIG, TOKENIZER, WORDS, CARD, ADAPTER)  # files that a run writes before its first step
_TOKENS = ".tokens"
_KEPT = ".kept.json"  # {SHA-256 of the weights file: metadata of these weights}


@dataclass(frozen=True)
class Checkpoint:
    """The state of training.

    Attributes:
        step: the number of updates so far.
        tensors: groups of tensors on the CPU, keyed by file name: {"model": ..., "optimizer": ...}.
        state: values that JSON can store.
    """

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


class RunFolder:
    """The folder that a training run writes to, locked until `close`, the end of `with`, or the end of the process.

    with RunFolder.create(out, resume=True) as run:
        run.begin(model_files(config=config, tokenizer=tokenizer))  # before the first step
        checkpoint, about = run.latest_checkpoint(), run.kept()
        ...
        run.keep(weights, {"best": 31.4})
        run.save_checkpoint(Checkpoint(step, {"model": weights, "optimizer": moments}, {"position": position}))
        run.prune(keep=2)
        ...
        run.finish(step)
    """

    def __init__(self, path: Path, lock: FolderLock, *, resume: bool, say: Callable[[str], None]) -> None:
        self.path, self._lock, self._say = path, lock, say
        self.tokens = path / _TOKENS  # a hidden folder for the encoded training data, until the run finishes
        self.resumes = resume  # the run in the folder continues: `resume` was given, and the run has begun
        self._made = False  # this run created the folder
        self._sound: set[int] = set()  # steps of the checkpoints verified by this process
        self._about: dict[str, Any] = {}  # metadata of the weights in the folder, by digest

    @classmethod
    def create(
        cls, path: Path, *, resume: bool = False, replace: bool = False, say: Callable[[str], None] = messages.say
    ) -> Self:
        """Lock a folder for a run. Create it if it doesn't exist.

        Args:
            resume: accept a folder that contains a run, in order to continue it.
            replace: accept a folder that contains a run, in order to replace it. The old run is kept until `begin`.
            say: receives messages for the user.

        Raises:
            TrainingError: the folder is in use, contains something else, or can't be written to.
        """
        with writing(path):
            check_not_foreign(path)
            made = not path.exists()
            path.mkdir(parents=True, exist_ok=True)
            lock = FolderLock(path, say=say)
        run = cls(path, lock, resume=resume, say=say)
        run._made = made
        try:
            with writing(path), suppress(ModelError):  # nothing has begun, or it's damaged
                complete_replacement(path)
            if not replace:
                run._check_vacant()
            with writing(path):
                remove_partials(path)
                remove_partials(path / CHECKPOINTS)
        except BaseException:
            lock.release()
            raise
        return run

    def close(self) -> None:
        """Unlock the folder. Delete it if this run created it and wrote nothing."""
        try:
            if not visible(self.path):
                shutil.rmtree(self.tokens, ignore_errors=True)
        finally:
            self._lock.release()
        if self._made:
            with suppress(OSError):  # usually it isn't empty
                self.path.rmdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def finished_step(self) -> int | None:
        """The step at which the run finished, or None if it hasn't."""
        return Manifest.read(self.path).finished if (self.path / MANIFEST).exists() else None

    def finish(self, step: int) -> None:
        """Mark the run as finished. Call this last, because saving a checkpoint removes the mark."""
        with writing(self.path):
            shutil.rmtree(self.tokens, ignore_errors=True)  # before the mark, because finished runs aren't cleaned up
            mark_finished(self.path, step)
        self.tidy()

    def tidy(self) -> None:
        """Remove what only an unfinished run needs."""
        with writing(self.path):
            (self.path / _KEPT).unlink(missing_ok=True)

    def begin(self, files: Mapping[str, bytes]) -> None:
        """Remove an earlier run from the folder, and write this run's initial files."""
        self.restart(keep=())
        self.write_files(files)

    def restart(self, keep: Collection[str] = _INITIAL) -> None:
        """Remove the files of a run, except those to keep, and leave a manifest, so that the folder is recognised.

        The settings are the first to leave the manifest, so if the process is killed, no run has begun.
        """
        if not visible(self.path):
            return
        try:
            files = settled(self.path).files
        except ModelError:  # damaged, but the run is replaced anyway
            files = {}
        without = {name: it for name, it in files.items() if name != CONFIG or name in keep}
        kept = {name: it for name, it in files.items() if name in keep}
        with writing(self.path):
            write_file(self.path / MANIFEST, Manifest(without).to_bytes())
            for step in checkpoint_steps(self.path):
                remove_folder(checkpoint_folder(self.path, step))
            for name in {*files, *_INITIAL, WEIGHTS, ADAPTER_WEIGHTS, METRICS, FILM, *PICTURES, _KEPT}.difference(keep):
                if Path(name).name == name:  # a forged manifest can't name a file elsewhere
                    (self.path / name).unlink(missing_ok=True)
            write_file(self.path / MANIFEST, Manifest(kept).to_bytes())

    def write_files(self, files: Mapping[str, bytes]) -> None:
        """Replace files of the model folder, such as `model_files`, and their digests."""
        with writing(self.path):
            replace_files(self.path, files)

    def keep(self, weights: "Mapping[str, Tensor]", about: Mapping[str, Any]) -> None:
        """Replace the weights in the model folder, along with their metadata, which `kept` returns.

        If the process is killed, the folder has either the old weights and metadata or the new ones.
        """
        files = model_files(weights=weights)
        now = {digest(data): dict(about) for data in files.values()}
        with writing(self.path):
            write_file(self.path / _KEPT, (json.dumps(self._about | now) + "\n").encode())
            replace_files(self.path, files)
        self._about = now

    def kept(self) -> dict[str, Any]:
        """Return the metadata of the weights in the folder, or {}. The weights may be newer than any checkpoint.

        When a run resumes, call this before `keep`.
        """
        self._about = {}
        with suppress(ModelError):  # no weights or no metadata
            weights = self.path / weights_file_in(self.path)
            found, known = digest(read_bytes(weights)), read_json_object(self.path / _KEPT)
            self._about = {found: known[found]} if isinstance(known.get(found), dict) else {}
        return next(iter(self._about.values()), {})

    def save_checkpoint(self, checkpoint: Checkpoint) -> Path:
        """Write a checkpoint to checkpoints/step-<step> atomically, and return this folder."""
        target = checkpoint_folder(self.path, checkpoint.step)

        def files() -> Iterator[tuple[str, bytes]]:
            for group, named in checkpoint.tensors.items():
                yield group + _SUFFIX, weights_to_bytes(named)
            values = {"step": checkpoint.step, "state": checkpoint.state}
            yield _STATE, (json.dumps(values, indent=1) + "\n").encode()

        self._sound.discard(checkpoint.step)
        with writing(self.path / CHECKPOINTS):
            write_folder_with_manifest(target, files())
        if self.finished_step is not None:
            with writing(self.path):
                mark_finished(self.path, None)
        return target

    def latest_checkpoint(self) -> Checkpoint | None:
        """Return the newest intact checkpoint, or None if there is none and training has to restart.

        Raises:
            TrainingError: there is none, but the run had finished. Restarting would overwrite its model.
        """
        if checkpoint := next(self.checkpoints(), None):
            return checkpoint
        if (done := self.finished_step) is not None:
            what = f"{self.path} contains a model that finished at step {done}, but no checkpoint to continue from"
            raise TrainingError(what, fix="choose another folder with `out`", value=self.path)
        if self.resumes:
            self._say(f"{self.path} has no complete checkpoint, so training restarts from step 0")
        return None

    def checkpoints(self) -> Iterator[Checkpoint]:
        """Yield the intact checkpoints, newest first. Report and skip damaged ones."""
        for step in checkpoint_steps(self.path):
            try:
                checkpoint = read_checkpoint(checkpoint_folder(self.path, step))
            except ModelError as error:
                self._say(f"skipping a damaged checkpoint: {error}")
            else:
                self._sound.add(step)
                yield checkpoint

    def prune(self, keep: int, wanted: Callable[[int], bool] = lambda step: True) -> None:
        """Delete all checkpoints except the newest one and the newest `keep` whose step is `wanted`.

        Damaged checkpoints don't count, so they never displace an intact one.
        """
        newest, kept = True, 0
        for step in checkpoint_steps(self.path):
            if kept < keep and (newest or wanted(step)):
                if self._is_sound(step):
                    kept += wanted(step)
                    newest = False
            else:
                with writing(self.path / CHECKPOINTS):
                    remove_folder(checkpoint_folder(self.path, step))

    def _check_vacant(self) -> None:
        if (run := describe_run(self.path)) and not self.resumes:
            what = f"{self.path} already contains {run}"
            fix = "continue it with `resume=True`, or choose another folder with `out`"
            raise TrainingError(what, fix=fix, value=self.path)
        if self.resumes and not run:
            self._say(f"{self.path} has nothing to resume, so training starts from step 0")
            self.resumes = False  # reported once

    def _is_sound(self, step: int) -> bool:
        if step not in self._sound:
            with suppress(ModelError):
                read_verified(checkpoint_folder(self.path, step))
                self._sound.add(step)
        return step in self._sound


class FollowedFolder(RunFolder):
    """The folder of a run that another process writes to. It's only read here: every method that writes does nothing.

    The processes of a run share one folder.
    """

    def __init__(self, path: Path) -> None:
        """Open the folder, in which the other process has called `begin`.

        Raises:
            TrainingError: this machine doesn't see the folder.
        """
        if not (path / MANIFEST).exists():
            what = f"{path} has no run on {socket.gethostname()}, but another process has begun one there"
            expected = "a folder that all machines of the run share"
            raise TrainingError(what, expected=expected, fix="choose one with `out`", value=path)
        self.path, self.tokens, self.resumes, self._say = path, path / _TOKENS, False, lambda _: None
        self._sound, self._about = set(), {}

    def _nothing(self, *_: Any, **__: Any) -> None:
        """Do nothing."""

    close = finish = write_files = keep = prune = _nothing

    def save_checkpoint(self, checkpoint: Checkpoint) -> Path:
        """Return the path of the checkpoint."""
        return checkpoint_folder(self.path, checkpoint.step)
