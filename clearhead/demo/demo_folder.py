"""The folder of a demo: its model and training data. A demo replaces only an earlier demo."""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..api import train
from ..config import Config
from ..errors import ModelError, TrainingError
from ..folder.atomic import writing
from ..folder.checkpoint import RunFolder
from ..folder.manifest import MANIFEST
from ..folder.model_folder import read_config
from ..training.signals import StoppedError


@dataclass(frozen=True)
class DemoFolder:
    """The model folder `out`, and `data`, the subfolder with the training data."""

    out: Path
    data: str
    name: str  # data.name, which identifies an earlier demo

    def check_replaceable(self) -> None:
        """Raise a TrainingError if the folder contains anything but an earlier demo, finished or not."""
        if not self.out.is_dir():  # creating the folder rejects a file
            return
        names = {it.name for it in self.out.iterdir() if not it.name.startswith(".")}
        if not names or names in ({MANIFEST}, {MANIFEST, self.data}):  # empty, or a demo that never started to train
            return
        try:
            ours = read_config(self.out).data.name == self.name
        except ModelError:
            ours = False
        if not ours:
            raise TrainingError(
                f"{self.out} isn't an earlier demo",
                expected="a new or empty folder, or the folder of an earlier demo",
                fix="choose another folder with --out",
                name="--out",
                value=str(self.out),
            )

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

    def train(self, settings: Mapping[str, Any], *files: str, began: float | None = None) -> None:
        """Train on some of the files. A time budget starts at `began`, as in `clearhead.train`."""
        config = Config().override({**settings, "data.train": tuple(str(self.out / self.data / it) for it in files)})
        try:
            train(config, self.out, replace=True, began=began)
        except StoppedError as error:
            fix = "run the same command to start the demo again"
            raise StoppedError("stopped", error.exit_code, fix) from error


def expect(name: str, value: float, least: float) -> None:
    """Raise a TrainingError if a demo's score is below the one that it promises."""
    if value < least:
        raise TrainingError(
            f"{name} is {value:.4f}",
            expected=f"at least {least} on every machine",
            fix="please report this with the lines above",
            name=name.replace(" ", "_"),
            value=value,
        )


def command() -> str:
    """Return the command that started this program, for commands that the user can paste."""
    called = Path(sys.argv[0])
    return str(called) if called.name == "clearhead" and called.exists() else "clearhead"
