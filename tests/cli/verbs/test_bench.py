"""`clearhead bench`."""

import json
from pathlib import Path

import pytest

from clearhead.apps.bench import decoding
from clearhead.apps.bench.machine import BYTES, Machine

from ..conftest import Run


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(10**4, 2, dict.fromkeys(BYTES, 5e9), dict.fromkeys(BYTES, 2e12))
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
    assert [it["engine"] for it in found["rates"]] == ["torch"] * 4
    assert found["machine"]["threads"] == 2
    assert found["fastest"] == {"engine": "torch", "precision": "fp32"}


def test_a_model_that_writes_no_text_is_an_error(run: Run, answer_folder: Path) -> None:
    done = run("bench", str(answer_folder), "--device", "cpu")
    assert done.code == 2
    assert "only the decoding of texts" in done.err
