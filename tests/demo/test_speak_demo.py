"""`clearhead demo speak` leaves recordings, a model and what it speaks; whether it learns is the slow test."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from clearhead.api import load
from clearhead.demo import keys_demos
from clearhead.demo.keys_demos import SPOKEN, run_speak_demo
from clearhead.errors import TrainingError


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A demo that's over in seconds."""
    threads = torch.get_num_threads()
    monkeypatch.setattr("clearhead.training.run.keep_freed_memory", lambda: True)
    monkeypatch.setattr("clearhead.training.run._draw", lambda *_: None)  # matplotlib takes seconds
    monkeypatch.setattr("os.fsync", lambda _descriptor: None)
    monkeypatch.setattr(keys_demos, "N_TRAINING", 40)
    monkeypatch.setattr(keys_demos, "N_SPOKEN", 6)
    small = {"train.steps": 2, "train.eval_every": 2, "train.threads": 1, "decode.max_len": 5, "model.d_model": 16}
    monkeypatch.setattr(keys_demos, "SPEAK_SETTINGS", keys_demos.SPEAK_SETTINGS | small)
    yield
    torch.set_num_threads(threads)


def test_it_leaves_recordings_to_listen_to_a_model_and_what_it_speaks(
    hasty: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "my runs" / "speak"
    for _ in range(2):  # it replaces its own
        with pytest.raises(TrainingError) as caught:
            run_speak_demo(out)
        assert caught.value.name == "exact_match" and str(SPOKEN) in caught.value.expected
    told = capsys.readouterr()
    assert f"{caught.value.value:.4f}  of 6   (expected: at least {SPOKEN})" in told.out
    assert f"speak '{out}' 357A --out spoken.wav" in told.err
    assert len([*(out / "keys").glob("spoken-*.wav")]) == 5 and len([*(out / "keys" / "train").iterdir()]) == 40
    samples, rate = load(out)("357A")
    assert rate == 8000 and len(samples)


def test_it_never_replaces_what_is_not_its_own(hasty: None, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work", encoding="utf-8")
    with pytest.raises(TrainingError) as caught:
        run_speak_demo(tmp_path)
    assert caught.value.name == "--out" and [it.name for it in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.slow
def test_the_demo_reaches_the_exact_match_that_it_promises(tmp_path: Path) -> None:
    run_speak_demo(tmp_path / "speak")  # raises an error otherwise
