"""`clearhead bench`, of a model and of the machine."""

import json
from pathlib import Path

import pytest

from clearhead.apps.bench import decoding, training
from clearhead.apps.bench.machine import BYTES, Machine
from clearhead.apps.bench.training import Arrangement, TrainingRate, TrainingSpeed

from ..conftest import Run


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(10**4, 2, dict.fromkeys(BYTES, 5e9), dict.fromkeys(BYTES, 2e12), 6e9)
    monkeypatch.setattr(Machine, "measure", lambda _n: machine)
    monkeypatch.setattr(decoding, "_SECONDS", 0.0)
    monkeypatch.setattr(decoding, "_N", 3)
    monkeypatch.setattr(decoding, "usable_engines", lambda *_: ["torch"])


def test_it_prints_rates_shares_and_what_to_use(run: Run, model_folder: Path) -> None:
    done = run("bench", str(model_folder), "--device", "cpu")
    assert done.code == 0
    assert "weights: 5 GB/s with 2 threads" in done.out
    rates = next(line for line in done.out.splitlines() if line.startswith("torch fp32"))
    assert rates.count("%") == 4
    assert f"clearhead translate {model_folder} --engine" in done.out


def test_the_rates_as_json(run: Run, model_folder: Path) -> None:
    found = json.loads(run("bench", str(model_folder), "--device", "cpu", "--json").out)
    assert [it["engine"] for it in found["rates"]] == ["torch"] * 8
    assert found["machine"]["threads"] == 2
    assert found["fastest"] in [{"engine": "torch", "precision": it} for it in ("fp32", "bf16")]


def test_a_model_that_writes_no_text_is_an_error(run: Run, answer_folder: Path) -> None:
    done = run("bench", str(answer_folder), "--device", "cpu")
    assert done.code == 2
    assert "only the decoding of texts" in done.err


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple]:
    """What is measured: the presets, and the number of threads. The report is made up."""
    calls: list[tuple] = []

    def measure(names, machine) -> TrainingSpeed:
        calls.append((tuple(names), machine.threads))
        ways = (Arrangement(1, 1), Arrangement(1, 2), Arrangement(2, 1))
        rates = [
            [TrainingRate("nano", "bf16", it, 1000.0 * it.threads, 0.2) for it in ways]
            for _ in range(names.count("nano"))
        ]
        speeds = dict.fromkeys(BYTES, 2e12)
        return TrainingSpeed(
            "cpu", 1.04, [Machine(10, it, dict.fromkeys(BYTES, 5e9), speeds, 6e9) for it in (1, 2)], rates
        )

    monkeypatch.setattr(training, "measure", measure)
    return calls


def test_without_a_model_it_prints_limits_training_rates_and_a_command(run: Run, asked) -> None:
    done = run("bench", "--threads", "2")
    assert (done.code, asked) == (0, [(("nano", "small", "base"), 2)])
    lines = done.out.splitlines()
    assert lines[0].endswith("; other programs use 1.0 cores, so measure again when they have ended")
    assert [it.split() for it in lines if it.startswith("nano")] == [
        ["nano", "bf16", "1,000", "20%", "2,000", "20%", "1,000", "20%"]
    ]
    [multiplied] = [it for it in lines if it.startswith("multiply in bf16")]
    assert multiplied.split()[-2:] == ["2,000", "2,000"]
    assert lines[-1] == "clearhead train FILE --out DIR --preset nano --threads 2 --train.precision=bf16"


def test_presets_can_be_chosen_and_the_report_is_also_json(run: Run, asked) -> None:
    found = json.loads(run("bench", "--json", "--threads", "2", "--preset", "nano", "mini").out)
    assert asked == [(("nano", "mini"), 2)]
    assert found["rates"][0][2]["arrangement"] == {"processes": 2, "threads": 1}
    assert [it["threads"] for it in found["machines"]] == [1, 2]
    assert found["recommended"]["nano"].endswith("--threads 2 --train.precision=bf16")


def test_a_preset_named_twice_has_a_row_for_each_measurement(run: Run, asked) -> None:
    done = run("bench", "--threads", "2", "--preset", "nano", "nano")
    assert sum(it.startswith("nano") for it in done.out.splitlines()) == 2


def test_a_preset_of_a_trained_model_cannot_be_chosen(run: Run, model_folder: Path) -> None:
    done = run("bench", str(model_folder), "--preset", "nano")
    assert done.code == 2 and "--preset is for training" in done.err


@pytest.mark.parametrize("name", ["nanu", "gpt2"])
def test_a_preset_that_does_not_translate_or_exist_is_an_error(run: Run, name: str) -> None:
    done = run("bench", "--preset", name)
    assert done.code == 2 and f"train.preset={name!r}" in done.err
