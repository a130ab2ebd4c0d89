"""`clearhead demo`: what it leaves behind, what it refuses, and (slow) the score that it promises."""

import json
from pathlib import Path

import pytest

from clearhead import TrainingError, load
from clearhead.demo import run
from clearhead.demo.run import EXPECTED, run_demo
from clearhead.training.manifest import read_verified
from clearhead.training.signals import StoppedError

PNG = b"\x89PNG\r\n"


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A demo of three steps over two hundred phrases."""
    few = {"train.steps": 3, "train.eval_every": 3, "train.save_every": 3, "train.warmup": 1, "train.eval_sentences": 2}
    training, held_out = run.split()
    monkeypatch.setattr(run, "SETTINGS", run.SETTINGS | few | {"train.threads": 1})
    monkeypatch.setattr(run, "split", lambda: (training[:200], held_out[:12]))


def test_it_leaves_the_model_the_scores_and_two_pictures_and_replaces_its_own_earlier_folder(
    hasty: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "runs" / "demo"
    for _ in range(2):
        with pytest.raises(TrainingError, match=r"exact match is 0\.\d+; expected at least 0\.98"):
            run_demo(out)
    evaluation = json.loads((out / "evaluation.json").read_text(encoding="utf-8"))
    assert evaluation["sentences"] == 12 and 0 <= evaluation["exact_match"] <= 1
    assert {"bleu", "chrf"} <= evaluation.keys()
    assert (out / "loss.png").read_bytes().startswith(PNG) and (out / "attention.png").read_bytes().startswith(PNG)
    assert "model.safetensors" in read_verified(out)
    words = (out / "words.txt").read_text(encoding="utf-8").splitlines()
    assert words == sorted(set(words), key=str.casefold) and {"are", "is", "."} <= set(words)
    assert len((tmp_path / "runs" / "demo-phrasebook" / "train.tsv").read_text(encoding="utf-8").splitlines()) == 200
    told = capsys.readouterr()
    assert "exact match 0." in told.out and f"expected: at least {EXPECTED}" in told.out
    assert f"translate {out}" in told.err


def test_it_never_replaces_what_is_not_its_own(hasty: None, tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "thesis.txt").write_text("years of work", encoding="utf-8")
    with pytest.raises(
        TrainingError, match=r"holds something else than an earlier demo; give another folder with --out"
    ):
        run_demo(tmp_path / "demo")
    assert (tmp_path / "demo" / "thesis.txt").read_text(encoding="utf-8") == "years of work"


def test_one_that_was_ended_early_is_begun_anew(hasty: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise StoppedError("stopped by SIGINT: go on with --resume", 130)

    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / ".lock").touch()
    monkeypatch.setattr(run, "train", stopped)
    with pytest.raises(StoppedError, match=r"^stopped; the same command begins the demo anew$") as caught:
        run_demo(tmp_path / "demo")
    assert caught.value.exit_code == 130


@pytest.mark.slow
def test_the_demo_reaches_the_score_that_it_promises_and_answers_alike_in_any_company(tmp_path: Path) -> None:
    run_demo(tmp_path / "demo")
    evaluation = json.loads((tmp_path / "demo" / "evaluation.json").read_text(encoding="utf-8"))
    assert evaluation["exact_match"] >= EXPECTED and evaluation["sentences"] >= 2000
    # In float32 sums depend on the shapes of a batch: what is nearly a tie may go either way, and nothing else.
    app, sources = load(tmp_path / "demo", device="cpu"), [phrase.english for phrase in run.split()[1]][:2000]
    alone, together = app.results(sources, batch_tokens=1), app.results(sources)
    differing = [(one, other) for one, other in zip(alone, together) if one.text != other.text]
    assert len(differing) <= len(sources) / 1000
    for one, other in zip(alone, together):
        assert abs(one.score - other.score) < 1e-4
