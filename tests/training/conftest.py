"""A training run that takes a second."""

import itertools
import json
import os
import random
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.api import train
from clearhead.config import Config
from clearhead.training.report.metrics import read_metrics
from clearhead.training.signals import StoppedError


@dataclass(frozen=True)
class Toy:
    """A language whose translation is the same words in reverse order, and a model of 20,000 weights that learns it."""

    folder: Path

    def pairs(self, n: int = 60, *, name: str = "pairs.tsv", words: str = "one two three four five six") -> Path:
        """A file of `n` distinct pairs, shortest first as such files often are."""
        known = words.split()
        sources = itertools.chain.from_iterable(itertools.product(known, repeat=length) for length in (1, 2, 3, 4))
        picked = sorted(random.Random(0).sample(list(itertools.islice(sources, 10 * n)), n), key=len)
        path = self.folder / name
        path.write_text("".join(f"{' '.join(it)}\t{' '.join(reversed(it))}\n" for it in picked))
        return path

    def config(self, changes: Mapping[str, Any] | None = None) -> Config:
        """Settings of a run of 12 steps, two epochs, with evaluations at 5, 10, 12 and checkpoints at 4, 8, 12."""
        files = () if changes and "data.train" in changes else (str(self.pairs()),)
        return Config().override(
            {"data.train": files, "data.tokenizer": "word", "data.max_len": 12, "data.batch_tokens": 32}
            | {"model.d_model": 32, "model.n_heads": 2, "model.d_ff": 64, "data.split": 0.1}
            | {"model.n_encoder_layers": 1, "model.n_decoder_layers": 1, "model.dropout": 0.2}
            | {"train.steps": 12, "train.eval_every": 5, "train.save_every": 4, "train.log_every": 2}
            | {"train.threads": 1, "train.precision": "fp32", "train.lr": 3e-3}
            | dict(changes or {})
        )


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test pulls the plug, and some runs sync a hundred files."""
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)


@contextmanager
def quick() -> Iterator[pytest.MonkeyPatch]:
    """Runs that leave the process as they found it, and draw no picture, which would take as long as training."""
    threads, generator = torch.get_num_threads(), torch.random.get_rng_state()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clearhead.training.run.keep_freed_memory", lambda: True)
        patch.setattr("clearhead.training.run.loss_curve", lambda *_: None)
        patch.setattr(os, "fsync", lambda _descriptor: None)
        yield patch
    torch.set_num_threads(threads)
    torch.random.set_rng_state(generator)


@pytest.fixture
def toy(tmp_path: Path) -> Iterator[Toy]:
    with quick():
        yield Toy(tmp_path)


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a toy run, as `toy.config()` sets it. Not to be written to."""
    with quick():
        toy = Toy(tmp_path_factory.mktemp("finished"))
        return train(toy.config(), toy.folder / "run", say=lambda _: None)


@pytest.fixture(scope="session")
def run_stopped_at_6(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the same run when a signal had ended it after step 6. Not to be written to."""

    def stop(record: dict[str, Any]) -> None:
        if record["step"] == 6:
            signal.raise_signal(signal.SIGTERM)

    with quick(), pytest.raises(StoppedError):
        toy = Toy(tmp_path_factory.mktemp("stopped"))
        train(toy.config(), toy.folder / "run", say=lambda _: None, on_step=stop)
    return toy.folder / "run"


@pytest.fixture(scope="session")
def uninterrupted(finished_run: Path) -> dict[str, Any]:
    """What a toy run leaves behind."""
    return outcome(finished_run)


@pytest.fixture
def said() -> list[str]:
    """What a run told the user, with `say=said.append`."""
    return []


def outcome(folder: Path) -> dict[str, Any]:
    """All that a run leaves behind, but for the times that it took and where its data lie."""
    files = {name: (folder / name).read_bytes() for name in ("model.safetensors", "tokenizer.json", "README.md")}
    last = max((folder / "checkpoints").iterdir())
    tensors = {name: (last / name).read_bytes() for name in ("model.safetensors", "optimizer.safetensors")}
    state = json.loads((last / "state.json").read_bytes())
    state["state"].pop("seconds")
    records = read_metrics(folder / "metrics.jsonl")
    for record in records:
        record.pop("seconds", None)
    config = json.loads((folder / "config.json").read_bytes())
    config["data"]["train"] = [Path(it).name for it in config["data"]["train"]]
    return {"files": files, "checkpoint": last.name, "tensors": tensors, "state": state, "metrics": records,
            "config": config}  # fmt: skip


@pytest.fixture(name="outcome")
def _outcome() -> Callable[[Path], dict[str, Any]]:
    return outcome
