"""The folder of a run, which is the model folder: what `translate` needs on top, the state of training below it.

config.json  model.safetensors  tokenizer.json  README.md  metrics.jsonl  manifest.json
checkpoints/step-00000120/  model.safetensors  optimizer.safetensors  state.json  manifest.json

Everything is written whole or not at all and checked against its SHA-256 when it is read. Nothing is ever unpickled.
"""

import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from torch import Tensor

from ..config import messages
from ..errors import ModelError, TrainingError
from .atomic import remove_folder, remove_partials, write_file, writing
from .lock import FolderLock
from .manifest import (
    MANIFEST,
    Manifest,
    digest,
    mark_finished,
    parse_json_object,
    read_bytes,
    read_verified,
    replace_files,
    write_folder_with_manifest,
)
from .model_folder import CONFIG, WEIGHTS, model_files, weights_from_bytes, weights_to_bytes

PICTURES = ("loss.png", "attention.png", "confusion.png")  # no file of the model, so that no digest is kept of them
CHECKPOINTS = "checkpoints"
METRICS = "metrics.jsonl"
FILM = "film.jsonl"
_STATE, _SUFFIX, _TOKENS = "state.json", ".safetensors", ".tokens"
_KEPT = ".kept.json"  # {SHA-256 of model.safetensors: what is known of these weights}


@dataclass(frozen=True)
class Checkpoint:
    """The state of training after `step` updates: named groups of tensors (on the CPU), and plain values."""

    step: int
    tensors: dict[str, dict[str, Tensor]]
    state: dict[str, Any]


class RunFolder:
    """The folder that one training run writes to, held by a lock until `close`, the end of `with`, or of the process.

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
        self.path, self._lock, self._resume, self._say = path, lock, resume, say
        self._made = False  # whether the folder is there because of this run
        self._sound: set[int] = set()  # steps whose checkpoint this process has seen verify
        self._about: dict[str, Any] = {}  # by their digest, what is known of the weights that are there

    @classmethod
    def create(
        cls, path: Path, *, resume: bool = False, replace: bool = False, say: Callable[[str], None] = messages.say
    ) -> Self:
        """Take hold of a new or empty folder; with `resume` or `replace` of one that a run left, too.

        What is to be replaced stays until `begin`: until then there is nothing better.

        `say` gets what the user should know. TrainingError: the folder is in use by another run; it is occupied and
        neither is asked for; it holds something else than a run; it cannot be written to.
        """
        with writing(path):
            _refuse_foreign(path)
            made = not path.exists()
            path.mkdir(parents=True, exist_ok=True)
            lock = FolderLock(path, say=say)
        run = cls(path, lock, resume=resume, say=say)
        run._made = made
        try:
            if not replace:
                run._look_around()
            with writing(path):
                remove_partials(path)
                remove_partials(path / CHECKPOINTS)
        except BaseException:
            lock.release()
            raise
        return run

    @property
    def tokens(self) -> Path:
        """Where the tokens of the training data may lie until the run is complete; hidden, as they are no result."""
        return self.path / _TOKENS

    def close(self) -> None:
        """Let go of the folder; one that was made for this run, and got nothing, is removed again."""
        try:
            if not _visible(self.path):
                shutil.rmtree(self.tokens, ignore_errors=True)
        finally:
            self._lock.release()
        if self._made:
            with suppress(OSError):  # it is not empty, as it should be
                self.path.rmdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def finished_step(self) -> int | None:
        """The step at which the run was complete (`finish`), or None while something is left to do."""
        return Manifest.read(self.path).finished if (self.path / MANIFEST).exists() else None

    def finish(self, step: int) -> None:
        """Mark the run as complete: the last thing that it writes. Saving a checkpoint takes the mark away."""
        with writing(self.path):
            shutil.rmtree(self.tokens, ignore_errors=True)  # whoever finds the mark has nothing left to do
            mark_finished(self.path, step)
            (self.path / _KEPT).unlink(missing_ok=True)

    def begin(self, files: Mapping[str, bytes]) -> None:
        """Write what a run starts with. What an earlier one left goes: its weights belong to another configuration."""
        self._remove_run()
        self.write_files(files)

    def write_files(self, files: Mapping[str, bytes]) -> None:
        """Replace files of the model folder (`model_files`) and their digests; a TrainingError where that fails."""
        with writing(self.path):
            replace_files(self.path, files)

    def keep(self, weights: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
        """Replace the weights of the model folder, and what `kept` says about them: plain values.

        A process killed anywhere in between leaves the earlier weights or these, and either way what is known of them.
        """
        files = model_files(weights=weights)
        now = {digest(data): dict(about) for data in files.values()}
        with writing(self.path):
            write_file(self.path / _KEPT, (json.dumps(self._about | now) + "\n").encode())
            replace_files(self.path, files)
        self._about = now

    def kept(self) -> dict[str, Any]:
        """What is known of the weights that are there, though they be newer than any checkpoint; {} where nothing is.

        A run that goes on asks before it keeps others.
        """
        self._about = {}
        with suppress(ModelError):  # there are none, or nothing was said about them
            found, path = digest(read_bytes(self.path / WEIGHTS)), self.path / _KEPT
            known = parse_json_object(path, read_bytes(path))
            self._about = {found: known[found]} if found in known else {}
        return next(iter(self._about.values()), {})

    def save_checkpoint(self, step: int, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any]) -> Path:
        """Write checkpoints/step-<step>: all of it, or a TrainingError and nothing; earlier ones are untouched.

        `tensors` are groups by file name ({"model": ..., "optimizer": ...}); `state` is what JSON can hold.
        """
        folder = self._folder(step)

        def files() -> Iterator[tuple[str, bytes]]:
            for group, named in tensors.items():
                yield group + _SUFFIX, weights_to_bytes(named)
            yield _STATE, (json.dumps({"step": step, "state": state}, indent=1) + "\n").encode()

        self._sound.discard(step)
        with writing(folder.parent):
            write_folder_with_manifest(folder, files())
        if self.finished_step is not None:
            with writing(self.path):
                mark_finished(self.path, None)
        return folder

    def latest_checkpoint(self) -> Checkpoint | None:
        """The newest checkpoint that verifies; damaged ones are passed over, and said. None: training starts afresh.

        TrainingError where there is none although the run was complete: starting afresh would overwrite its model.
        """
        if checkpoint := next(self.checkpoints(), None):
            return checkpoint
        if (done := self.finished_step) is not None:
            raise TrainingError(
                f"{self.path} holds a model that was complete at step {done} and no checkpoint to go on from; "
                "give another folder with --out"
            )
        if self._resume:
            self._say(f"{self.path} has no complete checkpoint: training starts afresh")
        return None

    def checkpoints(self) -> Iterator[Checkpoint]:
        """The checkpoints that verify, newest first; damaged ones are passed over, and said."""
        for step in self._steps():
            try:
                checkpoint = read_checkpoint(self._folder(step))
            except ModelError as error:
                self._say(f"a damaged checkpoint is passed over: {error}")
            else:
                self._sound.add(step)
                yield checkpoint

    def prune(self, keep: int, wanted: Callable[[int], bool] = lambda step: True) -> None:
        """Keep the newest checkpoint that verifies, and the newest `keep` of `wanted` steps that do; delete the others.

        Where fewer verify, none of these steps is deleted.
        """
        newest, kept = True, 0
        for step in self._steps():
            if kept < keep and (newest or wanted(step)):
                if self._is_sound(step):
                    kept += wanted(step)
                    newest = False
            else:
                with writing(self.path / CHECKPOINTS):
                    remove_folder(self._folder(step))

    def _look_around(self) -> None:
        if (holds := _contents(self.path)) and not self._resume:
            advice = "go on with --resume, or give another folder with --out"
            raise TrainingError(f"{self.path} is occupied: it {holds}; {advice}")
        if self._resume and not holds:
            self._say(f"{self.path} is empty, there is nothing to resume: training starts afresh")
            self._resume = False  # it is said

    def _remove_run(self) -> None:
        """Remove what a run wrote; its manifest is only emptied, so that the folder stays a run's. Other files stay."""
        if not _visible(self.path):
            return
        try:
            names = list(Manifest.read(self.path).files)
        except ModelError:  # damaged: one reason more to replace the run
            names = []
        with writing(self.path):
            for step in self._steps():
                remove_folder(self._folder(step))
            for name in (*names, METRICS, FILM, *PICTURES, _KEPT):
                if Path(name).name == name:  # a manifest from elsewhere names no file outside
                    (self.path / name).unlink(missing_ok=True)
            write_file(self.path / MANIFEST, Manifest().to_bytes())

    def _is_sound(self, step: int) -> bool:
        if step not in self._sound:
            with suppress(ModelError):
                read_verified(self._folder(step))
                self._sound.add(step)
        return step in self._sound

    def _folder(self, step: int) -> Path:
        return self.path / CHECKPOINTS / f"step-{step:08d}"

    def _steps(self) -> list[int]:
        return _checkpoint_steps(self.path)


def read_checkpoint(folder: Path) -> Checkpoint:
    """A checkpoint whose files all have the digests of its manifest; otherwise a ModelError that names the file."""
    files = read_verified(folder)
    if _STATE not in files:
        raise ModelError(f"{folder / MANIFEST} does not name {_STATE}: this is no checkpoint")
    values = parse_json_object(folder / _STATE, files.pop(_STATE))
    tensors = {name.removesuffix(_SUFFIX): weights_from_bytes(folder / name, data) for name, data in files.items()}
    return Checkpoint(values["step"], tensors, values["state"])


def _checkpoint_steps(run: Path) -> list[int]:
    """The steps of the checkpoints that are there, newest first."""
    names = (re.fullmatch(r"step-(\d{8,})", folder.name) for folder in (run / CHECKPOINTS).glob("step-*"))
    return sorted((int(name[1]) for name in names if name), reverse=True)


def _visible(path: Path) -> list[str]:
    """The names in a folder, sorted, without hidden ones: .gitkeep and the like make no folder occupied."""
    return sorted(entry.name for entry in path.iterdir() if not entry.name.startswith(".")) if path.exists() else []


def _contents(path: Path) -> str:
    """What a run left in a folder, in words; nothing where it is empty."""
    steps = _checkpoint_steps(path)
    if not _visible(path):
        return ""
    return f"holds a run whose newest checkpoint is of step {steps[0]}" if steps else "holds a run without a checkpoint"


def _refuse_foreign(path: Path) -> None:
    """Raise a TrainingError where a path holds something that no run of ours wrote."""
    if path.exists() and not path.is_dir():
        raise TrainingError(f"{path} is a file; expected a folder: give another one with --out")
    names = _visible(path)
    if names and not any(_has_format(path / name) for name in (MANIFEST, CONFIG)):
        shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        raise TrainingError(f"{path} holds files that are not of a run ({shown}); give another folder with --out")


def _has_format(path: Path) -> bool:
    try:
        values = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(values, dict) and "format_version" in values
