"""Event files for TensorBoard: loss, learning rate, gradient norm, speed and scores of a run."""

import shutil
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ...errors import ConfigError
from ...folder.atomic import writing

FOLDER = "tensorboard"


def summary_writer() -> Any:
    """Return torch's SummaryWriter.

    Raises:
        ConfigError: the package tensorboard isn't installed.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ConfigError(
            "train.tensorboard=true needs the package tensorboard, which isn't installed",
            fix="install it with: pip install tensorboard",
            name="train.tensorboard",
            value=True,
        ) from error
    return SummaryWriter


class TensorBoard:
    """Write event files to the run's `tensorboard` folder. `on_step` and `on_eval` are observers for `train`."""

    def __init__(self, run: Path, *, after: int) -> None:
        """Continue after step `after`. If it's 0, start a new run and delete old event files."""
        writer = summary_writer()
        with writing(run):
            if not after:
                shutil.rmtree(run / FOLDER, ignore_errors=True)
            self._writer = writer(str(run / FOLDER), purge_step=after + 1)
        self._seconds: float | None = None

    def on_step(self, record: dict[str, Any]) -> None:
        """Write the values of an update."""
        for name in ("loss", "lr", "grad_norm"):
            self._add(f"train/{name}", record[name], record["step"])
        if self._seconds is not None:
            self._add("train/tokens_per_second", record["tokens"] / (record["seconds"] - self._seconds), record["step"])
        self._seconds = record["seconds"]

    def on_eval(self, record: dict[str, Any]) -> None:
        """Write the scores of an evaluation."""
        self._seconds = None  # its duration doesn't count as part of the next step
        kind = "mean" if "averaged" in record else "valid"
        for name in record.keys() - {"step", "epoch", "seconds", "averaged"}:
            self._add(f"{kind}/{name}", record[name], record["step"])

    def _add(self, name: str, value: float, step: int) -> None:
        self._writer.add_scalar(name, value, step)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _type: type[BaseException] | None, _error: object, _trace: TracebackType | None) -> None:
        self._writer.close()
