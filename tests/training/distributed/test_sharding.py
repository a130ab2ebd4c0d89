"""Processes that divide the weights train what one process trains, and any number of them resumes."""

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from clearhead.api import train
from clearhead.config import Config
from clearhead.errors import ConfigError
from clearhead.training.distributed.processes import Processes
from tests.training.distributed.test_processes import config_for, exit_codes, long, losses, run, said

FULL = {"train.shard": "full", "train.activation_checkpointing": True}


def same(one: Path, other: Path, tolerance: float) -> bool:
    names = ("model.safetensors", *(f"{max((one / 'checkpoints').iterdir()).relative_to(one)}/{it}.safetensors"
                                    for it in ("model", "optimizer")))  # fmt: skip
    for name in names:
        expected, found = load_file(one / name), load_file(other / name)
        assert found.keys() == expected.keys()
        assert max(np.abs(found[it] - expected[it]).max() for it in expected) <= tolerance
    return True


@pytest.mark.parametrize(
    ("task", "changes"),
    [
        ("translate", {"train.average": 0.9, "train.clip": 0.1}),
        pytest.param("classify", {"train.optimizer": "adamw", "train.weight_decay": 0.1}, marks=pytest.mark.slow),
        pytest.param("generate", {"train.micro_batches": 3}, marks=pytest.mark.slow),
    ],
)
def test_shards_train_the_model_of_one_process(toy, task: str, changes: dict[str, Any]) -> None:
    config = config_for(toy, task, **changes)
    one = run(1, config, toy.folder / "one", dtype=torch.float64)
    two = run(2, config.override(FULL), toy.folder / "two", dtype=torch.float64)
    assert same(one, two, 1e-12)
    assert losses(two) == pytest.approx(losses(one), abs=1e-12)


@pytest.mark.slow
def test_any_number_of_processes_resumes_with_and_without_shards(toy) -> None:
    changes = {"model.dropout": 0.0, "train.optimizer": "adam", "train.adam": (0.9, 0.98, 1e-4)}
    config, out, expected = long(toy, **changes), toy.folder / "resumed", toy.folder / "expected"
    run(1, config, expected, dtype=torch.float64)
    stop = {0: (17, signal.SIGTERM)}
    assert 0 not in exit_codes(2, config.override(FULL), out, dtype=torch.float64, signals=stop)
    assert 0 not in exit_codes(1, config, out, dtype=torch.float64, resume=True, signals={0: (27, signal.SIGTERM)})
    run(3, config.override(FULL), out, dtype=torch.float64, resume=True)
    assert losses(out) == pytest.approx(losses(expected), abs=1e-9)
    assert same(expected, out, 1e-9)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_shards_resume_bit_for_bit_after_a_process_was_killed(toy) -> None:
    config, out = long(toy, **FULL, **{"train.optimizer": "adam"}), toy.folder / "killed"
    expected = run(2, config, toy.folder / "expected")
    assert 0 not in exit_codes(2, config, out, signals={1: (27, signal.SIGKILL)})
    run(2, config, out, resume=True)
    assert same(expected, out, 0.0) and losses(out) == losses(expected)


@pytest.mark.slow
def test_a_loss_that_is_not_finite_is_reported_once(toy) -> None:
    changes = {"train.lr": 1e30, "train.optimizer": "adam", "train.clip": 0.0}
    config, out = long(toy, **FULL, **changes), toy.folder / "diverged"
    assert 0 not in exit_codes(2, config, out)
    assert said(out).count("error:") + said(out).count("nothing was updated, and") >= 1


def test_one_process_has_nothing_to_divide(toy, said) -> None:
    train(toy.config({"train.shard": "full", "train.steps": 1}), toy.folder / "run", say=said.append)
    assert any("train.shard has no effect" in it for it in said)
    assert any("train.optimizer = adam" in it for it in said)


@pytest.mark.parametrize(("name", "value"), [("train.optimizer", "muon"), ("train.memory", "4GB")])
def test_what_needs_whole_weights_is_named(name: str, value: str) -> None:
    config = Config().override({"data.train": ("pairs.tsv",), "train.shard": "full", name: value})
    with pytest.raises(ConfigError) as caught:
        Processes(count=2).check_supports(config, warm_start=False)
    assert (caught.value.name, caught.value.value) == (name, value)
