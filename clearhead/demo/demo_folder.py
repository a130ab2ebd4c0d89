"""The folder of a demo: its model, and the data that this learnt from; it replaces its own earlier one only."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..api import train
from ..config import Config
from ..errors import ModelError, TrainingError
from ..folder.atomic import write_file, writing
from ..folder.checkpoint import RunFolder
from ..folder.manifest import MANIFEST
from ..folder.model_folder import read_config
from ..training.signals import StoppedError


@dataclass(frozen=True)
class DemoFolder:
    """`out` is for the model, `data` the folder in it for what that learns from; by its `name` it is known again."""

    out: Path
    data: str
    name: str  # of the data: data.name

    def refuse_others(self) -> None:
        """Raise TrainingError where there is something else than an earlier demo, or one that was ended early."""
        if not self.out.is_dir():  # a file is refused by whoever makes the folder
            return
        names = {it.name for it in self.out.iterdir() if not it.name.startswith(".")}
        if not names or names in ({MANIFEST}, {MANIFEST, self.data}):  # nothing, or a demo that had not begun to train
            return
        try:
            ours = read_config(self.out).data.name == self.name
        except ModelError:
            ours = False
        if not ours:
            raise TrainingError(f"{self.out} holds something else than an earlier demo; give another folder with --out")

    def write(self, files: Mapping[str, bytes]) -> None:
        """Write the data into the folder, which this makes or takes over, and in which nobody may be at work.

        The model of an earlier demo stays until training begins to replace it.
        """
        with RunFolder.create(self.out, replace=True) as folder, writing(self.out):
            folder.write_files({})  # nothing but a manifest, by which the folder is a run's
            (self.out / self.data).mkdir(exist_ok=True)
            for name, content in files.items():
                write_file(self.out / self.data / name, content)

    def train(self, settings: Mapping[str, Any], file: str, *, began: float | None = None) -> None:
        """Train on one of the files; a budget counts from `began`, as in `clearhead.train`."""
        config = Config().override({**settings, "data.train": (str(self.out / self.data / file),)})
        try:
            train(config, self.out, replace=True, began=began)
        except StoppedError as error:
            raise StoppedError("stopped; the same command begins the demo anew", error.exit_code) from error


def command() -> str:
    """How this program was called, so that the reader can call it again."""
    called = Path(sys.argv[0])
    return str(called) if called.name == "clearhead" and called.exists() else "clearhead"
