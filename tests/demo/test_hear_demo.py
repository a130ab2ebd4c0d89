"""`clearhead demo hear`: what it leaves behind and prints, and (slow) the exact match that it promises."""

import csv
import json
from pathlib import Path

import pytest

from clearhead import TrainingError, load
from clearhead.demo import keys_demos
from clearhead.demo.keys_demos import HEARD, run_hear_demo

SMALL = {"model.d_model": 16, "model.n_heads": 2, "model.d_ff": 16, "model.n_encoder_layers": 1}
SMALL |= {"train.steps": 3, "train.eval_every": 3, "train.save_every": 3, "train.threads": 1, "train.precision": "fp32"}


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A demo of three steps over a few recordings."""
    monkeypatch.setattr(keys_demos, "HEAR_SETTINGS", keys_demos.HEAR_SETTINGS | SMALL)
    monkeypatch.setattr(keys_demos, "N_TRAINING", 100)
    monkeypatch.setattr(keys_demos, "HELD_OUT", {10: 6, 0: 3})
    monkeypatch.setattr("clearhead.training.run._draw", lambda *_: None)  # matplotlib takes seconds


def _table(path: Path) -> list[dict[str, str]]:
    return [*csv.DictReader(path.read_text(encoding="utf-8").splitlines())]


def test_it_leaves_recordings_to_listen_to_a_model_and_scores(
    hasty: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "my runs" / "hear"
    for _ in range(2):  # it replaces its own
        with pytest.raises(TrainingError) as caught:
            run_hear_demo(out)
        assert caught.value.name == "exact_match" and str(HEARD) in caught.value.expected
    evaluation = json.loads((out / "evaluation.json").read_text(encoding="utf-8"))
    assert evaluation["recordings"] == 6 and evaluation["exact_match"] == caught.value.value
    told = capsys.readouterr()
    assert f"{evaluation['exact_match']:.4f}  of 6 at 10 dB   (expected: at least {HEARD})" in told.out
    assert f"transcribe '{out}' '{out}/keys/held-out-10dB/0000.wav'" in told.err
    training, held_out = _table(out / "keys" / "train.csv"), _table(out / "keys" / "held-out-10dB.csv")
    assert len(training) == 100 and len(held_out) == 6
    assert not {row["text"] for row in training} & {row["text"] for row in held_out}
    assert _table(out / "keys" / "held-out-0dB.csv")[0]["text"] == held_out[0]["text"]
    assert isinstance(load(out)(str(out / "keys" / held_out[0]["path"])), str)


def test_it_never_replaces_what_is_not_its_own(hasty: None, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work", encoding="utf-8")
    with pytest.raises(TrainingError) as caught:
        run_hear_demo(tmp_path)
    assert caught.value.name == "--out" and [it.name for it in tmp_path.iterdir()] == ["thesis.txt"]


def test_it_reads_its_recordings_without_an_extra(hasty: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("soundfile", "soxr", "PIL"):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    with pytest.raises(TrainingError, match="exact match"):
        run_hear_demo(tmp_path / "hear")


@pytest.mark.slow
def test_the_demo_reaches_the_exact_match_that_it_promises(tmp_path: Path) -> None:
    run_hear_demo(tmp_path / "hear")
    evaluation = json.loads((tmp_path / "hear" / "evaluation.json").read_text(encoding="utf-8"))
    assert evaluation["exact_match"] >= HEARD and evaluation["recordings"] == 500
