"""The folder of a demo: its model and training data. A demo replaces only an earlier demo."""

import shlex
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..api import train
from ..config import Config
from ..config.messages import say
from ..errors import ModelError, TrainingError
from ..folder.atomic import writing
from ..folder.checkpoint import RunFolder
from ..folder.manifest import MANIFEST
from ..folder.model_folder import read_config
from ..training.signals import StoppedError


@dataclass(frozen=True)
class DemoFolder:
    """The model folder `out` of a demo that begins now, with its training data in the subfolder `data`.

    Raises TrainingError if the folder contains anything but an earlier demo, finished or not. data.name identifies one.
    """

    out: Path
    data: str
    settings: Mapping[str, Any]
    _begun: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        if not self.out.is_dir():  # creating the folder rejects a file
            return
        names = {it.name for it in self.out.iterdir() if not it.name.startswith(".")}
        if not names or names in ({MANIFEST}, {MANIFEST, self.data}):  # empty, or a demo that never started to train
            return
        try:
            ours = read_config(self.out).data.name == self.settings["data.name"]
        except ModelError:
            ours = False
        if not ours:
            what = f"{self.out} isn't an earlier demo"
            expected = "a new or empty folder, or the folder of an earlier demo"
            fix = "choose another folder with --out"
            raise TrainingError(what, expected=expected, fix=fix, name="--out", value=str(self.out))

    def write(self, files: Iterable[tuple[str, bytes]]) -> None:
        """Create or reuse the folder, and write the data into it: paths in the subfolder, and their content.

        The model of an earlier demo stays until training starts to replace it. Every run writes the data again, so
        files aren't synced to the disk one by one, which would take minutes for thousands of them.
        """
        with RunFolder.create(self.out, replace=True) as folder, writing(self.out):
            folder.write_files({})  # only a manifest, which marks the folder as a run
            for name, content in files:
                path = self.out / self.data / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)

    def train(self, *files: str, valid: str | None = None) -> None:
        """Train on some of the files, and validate on another or on part of them. A time budget includes the data."""
        values = {**self.settings, "data.train": tuple(map(self.path, files))}
        config = Config().override(values | ({"data.valid": (self.path(valid),)} if valid else {}))
        try:
            train(config, self.out, replace=True, began=self._begun)
        except StoppedError as error:
            fix = "run the same command to start the demo again"
            raise StoppedError("stopped", error.exit_code, fix) from error

    def path(self, file: str) -> str:
        """Return the path of a file in the subfolder."""
        return str(self.out / self.data / file)

    def command(self, verb: str, *arguments: str) -> str:
        """Return a command for the model that the user can paste, with the program that's running now."""
        called = Path(sys.argv[0])
        program = str(called) if called.name == "clearhead" and called.exists() else "clearhead"
        return shlex.join([program, verb, str(self.out), *arguments])

    def say_done(self, files: str = "the model and evaluation.json") -> None:
        """Report how long it took, and what the folder contains."""
        say(f"\nDone in {time.monotonic() - self._begun:.0f} seconds. {self.out} contains {files}.")


def expect(name: str, value: float, least: float) -> None:
    """Raise a TrainingError if a demo's score is below the one that it promises.

    Args:
        name: the name of the score, for messages.
        value: the score.
        least: the lowest score that the demo promises.
    """
    if value < least:
        what = f"{name} is {value:.4f}"
        expected, fix = f"at least {least} on every machine", "please report this with the lines above"
        raise TrainingError(what, expected=expected, fix=fix, name=name.replace(" ", "_"), value=value)
