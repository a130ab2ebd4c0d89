"""Finished warm starts that tests share; each trains four times for twelve steps."""

import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from clearhead.api import train
from clearhead.config import Config
from clearhead.folder.checkpoint import Checkpoint, RunFolder
from clearhead.training.warm_start import _WarmStart

from ..conftest import Toy, quick

LABELS = {"good": "one two", "bad": "five six"}
PLAIN = {"train.warm_start": "", "train.soup": None, "train.warm_steps": None}


@dataclass(frozen=True)
class Warm:
    """Data for a classifier, settings of a warm start of 12, 6 and twice 12 steps, and such a run."""

    data: Path
    out: Path  # finished, with the folders of all stages
    said: list[str]

    def settings(self, changes: Mapping[str, Any] | None = None) -> Config:
        values = {"data.train": (str(self.data),), "train.task": "classify", "train.warm_start": "denoise"}
        values |= {"train.warm_steps": 6, "train.soup": 2, "train.eval_sentences": 500, "train.seed": 7}
        values |= {"data.split": 0.2, "train.label_smoothing": 0.0, "train.watch": "one two"}
        return Toy(self.data.parent).config({**values, **(changes or {})})

    def files_alone(self) -> Config:
        """What somebody gives who resumes a run and does not repeat its settings."""
        return Config().override({"data.train": (str(self.data),)})


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warm]:
    folder = tmp_path_factory.mktemp("warm")
    dice, data = random.Random(0), folder / "labelled.tsv"
    rows = [(label, [*dice.choices(words.split(), k=4), str(i)]) for i in range(40) for label, words in LABELS.items()]
    data.write_text("text\tlabel\n" + "".join(f"{' '.join(words)}\t{label}\n" for label, words in rows))
    found = Warm(data, folder / "out", [])
    with quick() as patch:
        patch.setattr(_WarmStart, "_tidy", lambda _: None)
        train(found.settings(), found.out, say=found.said.append)
    return found


@pytest.fixture(scope="session")
def plain(warm: Warm, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run without a warm start, with another seed. Not to be written to."""
    with quick():
        return train(
            warm.settings(PLAIN | {"train.seed": 5}), tmp_path_factory.mktemp("plain") / "out", say=lambda _: None
        )


@pytest.fixture(scope="session")
def earlier(warm: Warm, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished warm start with another seed. Not to be written to."""
    with quick():
        return train(warm.settings({"train.seed": 5}), tmp_path_factory.mktemp("earlier") / "out", say=lambda _: None)


@pytest.fixture
def keep_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folders of all stages stay."""
    monkeypatch.setattr(_WarmStart, "_tidy", lambda _: None)


@pytest.fixture
def copied(tmp_path: Path) -> Callable[[Path], Path]:
    """A copy of a finished run, to be written to."""
    return lambda run: Path(shutil.copytree(run, tmp_path / "copied"))


@pytest.fixture
def cut_off_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], Any]:
    """`with cut_off_in(folder)`: Ctrl-C behind the fourth step of the run in a folder."""
    save = RunFolder.save_checkpoint

    @contextmanager
    def cutting(folder: Path) -> Iterator[None]:
        def cut(self: RunFolder, checkpoint: Checkpoint) -> Path:
            path = save(self, checkpoint)
            if self.path == folder and checkpoint.step == 4:
                raise KeyboardInterrupt
            return path

        with monkeypatch.context() as patch:
            patch.setattr(RunFolder, "save_checkpoint", cut)
            with pytest.raises(KeyboardInterrupt):
                yield

    return cutting
