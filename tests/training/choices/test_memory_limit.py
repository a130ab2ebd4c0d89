"""A memory limit: what is chosen for it, and that training keeps to it."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clearhead.api import train
from clearhead.config import Config
from clearhead.config.values import read_size
from clearhead.errors import ConfigError
from clearhead.training.choices import memory_limit
from clearhead.training.choices.memory_limit import Division, MemoryTrial, fit
from clearhead.training.report.metrics import read_metrics

GB = 1e9


@pytest.mark.parametrize(("text", "size"), [("500MB", 5e8), ("4GB", 4e9), ("1.5 GB", 1.5e9), ("2GiB", 2 * 2**30)])
def test_sizes(text: str, size: float) -> None:
    assert read_size(text, "train.memory") == size


@pytest.mark.parametrize("text", ["4", "GB", "4 G", "-1GB", "4TB"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Config().override({"train.memory": text})
    assert (caught.value.name, caught.value.value) == ("train.memory", text)


class Machine:
    """A process of half a gigabyte whose steps take what the estimate says, times `factor`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, factor: float | None = 1.0) -> None:
        self.tried: list[Division] = []
        monkeypatch.setattr(memory_limit, "memory_in_use", lambda _: int(0.5 * GB))

        def measure(trial: MemoryTrial, way: Division) -> float | None:
            self.tried.append(way)
            return None if factor is None else factor * trial.peak(way)

        monkeypatch.setattr(MemoryTrial, "measure", measure)


@pytest.fixture
def prepared(toy) -> Any:
    """The data and the settings of a run whose batches have some gigabytes of activations."""
    from clearhead.folder.checkpoint import RunFolder
    from clearhead.training.prepare import prepare

    with RunFolder.create(toy.folder / "prepared") as folder:
        changes = {"data.batch_tokens": 4096, "data.split": 0.0, "train.optimizer": "adam"}
        yield prepare(folder, toy.config(changes), lambda _: None)


@pytest.fixture
def bytes_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Activations a thousand times as large."""
    count = memory_limit.Activations.count

    def many(*arguments: Any) -> Any:
        it = count(*arguments)
        return memory_limit.Activations(1000 * it.total, 1000 * it.checkpointed, 1000 * it.largest)

    monkeypatch.setattr(memory_limit.Activations, "count", many)
    monkeypatch.setattr(memory_limit, "_SMALL", 64)


def fitted(prepared: Any, size: float, **changes: Any) -> tuple[int, bool]:
    config = prepared.config.override({"train.memory": f"{size / 1e6:.0f}MB", **changes})
    train = fit(config, prepared.task, prepared.examples)[0].train
    return train.micro_batches, train.activation_checkpointing


def test_less_memory_means_smaller_parts_and_then_checkpointing(prepared, bytes_a_number, monkeypatch) -> None:
    Machine(monkeypatch)
    trial = MemoryTrial(prepared.config, prepared.task, prepared.examples, 1)
    ways = list(trial.ways())
    peaks = {way: trial.peak(way) for way in ways}
    assert ways[0] == Division(1, checkpointed=False) and ways[-1].checkpointed
    for way in ways:  # each is chosen by a limit just above what it takes, unless a faster one fits
        fastest = next(it for it in ways if peaks[it] <= peaks[way])
        assert fitted(prepared, peaks[way] / 0.93 + 2e6) == (fastest.micro_batches, fastest.checkpointed)


def test_what_takes_more_than_estimated_is_divided_further(prepared, bytes_a_number, monkeypatch) -> None:
    machine = Machine(monkeypatch, factor=1.3)
    trial = MemoryTrial(prepared.config, prepared.task, prepared.examples, 1)
    limit = trial.peak(Division(1, checkpointed=False)) / 0.93 + 2e6
    micro_batches, _ = fitted(prepared, limit)
    assert machine.tried[0] == Division(1, checkpointed=False)
    assert micro_batches > 1 and machine.tried[-1].micro_batches == micro_batches


def test_a_system_without_measurements_relies_on_the_estimate(prepared, bytes_a_number, monkeypatch) -> None:
    Machine(monkeypatch, factor=None)
    monkeypatch.setattr(memory_limit, "memory_in_use", lambda _: None)
    config = prepared.config.override({"train.memory": "100GB"})
    _, choices = fit(config, prepared.task, prepared.examples)
    assert "(estimated)" in str(choices[0])


def test_too_little_memory_is_an_error_that_names_the_least(prepared, bytes_a_number, monkeypatch) -> None:
    Machine(monkeypatch)
    with pytest.raises(ConfigError) as caught:
        fitted(prepared, 0.7 * GB)
    assert caught.value.name == "train.memory"
    (least,) = re.findall(r"at least ([\d.]+)GB", caught.value.expected)
    assert fitted(prepared, float(least) * GB)[1]
    with pytest.raises(ConfigError):
        fitted(prepared, (float(least) - 0.2) * GB)


def test_a_least_that_no_step_has_checked_is_called_an_estimate(prepared, bytes_a_number, monkeypatch) -> None:
    machine = Machine(monkeypatch)
    with pytest.raises(ConfigError) as caught:
        fitted(prepared, 0.01 * GB)
    assert not machine.tried
    assert "estimate" in caught.value.expected and "a little more" in caught.value.fix


def test_settings_of_the_user_are_kept(prepared, bytes_a_number, monkeypatch) -> None:
    Machine(monkeypatch)
    assert fitted(prepared, 100 * GB, **{"train.micro_batches": 3, "train.activation_checkpointing": True}) == (3, True)
    with pytest.raises(ConfigError):
        fitted(prepared, 1 * GB, **{"train.micro_batches": 1, "train.activation_checkpointing": False})


def test_several_processes_share_the_activations(prepared, bytes_a_number) -> None:
    one, two = (MemoryTrial(prepared.config, prepared.task, prepared.examples, count) for count in (1, 2))
    assert two.peak(Division(1, checkpointed=False)) == pytest.approx(
        one.peak(Division(2, checkpointed=False)), rel=0.01
    )


def test_a_run_records_what_it_chose_and_resumes_with_it(toy, said) -> None:
    config, out = toy.config({"train.memory": "8GB"}), toy.folder / "run"
    train(config, out, say=said.append)
    stored = json.loads((out / "config.json").read_text())["train"]
    assert (stored["memory"], stored["micro_batches"], stored["activation_checkpointing"]) == ("8GB", 1, False)
    assert any(it.startswith("train.micro_batches = 1: training takes") for it in said)
    assert "train.micro_batches = 1" in (out / "README.md").read_text()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells the peak of a process")
def test_a_whole_run_keeps_to_its_limit(toy) -> None:
    command = [sys.executable, "-c", RUN, str(toy.pairs(400)), str(toy.folder / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "train.micro_batches = " in done.stderr
    assert int(done.stdout.split()[-1]) < 1.1e9
    assert len(read_metrics(toy.folder / "run" / "metrics.jsonl")) > 1


RUN = """
import sys
from pathlib import Path
from clearhead.cli.entry import main
options = ["--preset", "small", "--data.tokenizer", "word", "--data.max_len", "60", "--data.batch_tokens", "4096"]
code = main(["train", sys.argv[1], "--out", sys.argv[2], "--memory", "1.1GB", "--steps", "12", *options])
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(1024 * int(peak.split()[1]))
sys.exit(code)
"""
