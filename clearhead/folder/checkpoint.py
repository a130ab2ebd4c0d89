"""Folder of a training run: a model folder with checkpoints in it.

config.json  model.safetensors  tokenizer.json  README.md  metrics.jsonl  manifest.json
checkpoints/step-00000120/  model.safetensors  optimizer.safetensors  state.json  manifest.json

Files are written atomically, and their SHA-256 is checked when they're read. Nothing is ever unpickled.
"""

import json
import shutil
import socket
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from torch import Tensor

from ..config import messages
from ..errors import ModelError, TrainingError
from .adapters import ADAPTER, ADAPTER_WEIGHTS, weights_file_in
from .atomic import remove_folder, remove_partials, write_file, writing
from .contents import (
    CHECKPOINTS,
    Checkpoint,
    check_not_foreign,
    checkpoint_folder,
    checkpoint_steps,
    describe_run,
    read_checkpoint,
    visible,
    write_checkpoint,
)
from .lock import FolderLock
from .manifest import (
    MANIFEST,
    Manifest,
    complete_replacement,
    digest,
    mark_finished,
    read_bytes,
    read_json_object,
    read_verified,
    replace_files,
    settled,
)
from .model_folder import CARD, CONFIG, TOKENIZER, WEIGHTS, WORDS, model_files

PICTURES = ("loss.png", "attention.png", "confusion.png", "demo.html")  # not in the manifest: no part of the model
METRICS = "metrics.jsonl"
FILM = "film.jsonl"
_INITIAL = (CONFIG, TOKENIZER, WORDS, CARD, ADAPTER)  # files that a run writes before its first step
_TOKENS = ".tokens"
_KEPT = ".kept.json"  # {SHA-256 of the weights file: metadata of these weights}


class RunFolder:
    """The folder that a training run writes to, locked until `close`, the end of `with`, or the end of the process.

    with RunFolder.create(out, resume=True) as run:
        run.begin(model_files(config=config, tokenizer=tokenizer))  # before the first step
        checkpoint, about = run.latest_checkpoint(), run.kept()
        ...
        run.keep(weights, {"best": 31.4})
        run.save_checkpoint(step, {"model": weights, "optimizer": moments}, {"position": position})
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

    def keep(self, weights: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
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

    def save_checkpoint(self, step: int, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any]) -> Path:
        """Write a checkpoint after `step` updates atomically, and return its folder. See `write_checkpoint`."""
        self._sound.discard(step)
        with writing(self.path / CHECKPOINTS):
            folder = write_checkpoint(self.path, step, tensors, state)
        if self.finished_step is not None:
            with writing(self.path):
                mark_finished(self.path, None)
        return folder

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

    def save_checkpoint(self, step: int, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any]) -> Path:
        """Return the path of the checkpoint."""
        return checkpoint_folder(self.path, step)
