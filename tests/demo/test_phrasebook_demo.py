"""`clearhead demo`: what it leaves behind, what it refuses, and (slow) the score that it promises."""

import json
import sys
from pathlib import Path

import pytest

from clearhead import TrainingError, load
from clearhead.demo import phrasebook_demo
from clearhead.demo.phrasebook import everyday
from clearhead.demo.phrasebook_demo import EXPECTED, run_demo
from clearhead.folder.checkpoint import RunFolder
from clearhead.folder.manifest import read_verified
from clearhead.training.signals import StoppedError

PNG = b"\x89PNG\r\n"
SMALL = {"model.d_model": 16, "model.n_heads": 2, "model.d_ff": 32, "decode.max_extra": 3, "train.threads": 1}
SMALL |= {"model.n_encoder_layers": 1, "model.n_decoder_layers": 1}
FEW = {"train.steps": 3, "train.eval_every": 3, "train.save_every": 3, "train.warmup": 1, "train.eval_sentences": 2}
TRAINING, HELD_OUT = phrasebook_demo.split()
EVERYDAY = everyday()[:12]


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A demo of three steps over two hundred phrases, with a tiny model."""
    monkeypatch.setattr(phrasebook_demo, "SETTINGS", phrasebook_demo.SETTINGS | SMALL | FEW)
    monkeypatch.setattr(phrasebook_demo, "split", lambda: (TRAINING[:200], HELD_OUT[:12]))
    monkeypatch.setattr(phrasebook_demo, "everyday", lambda: EVERYDAY)


def test_it_leaves_the_model_the_scores_and_two_pictures_and_replaces_its_own_earlier_folder(
    hasty: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "runs" / "demo"
    for _ in range(2):
        with pytest.raises(TrainingError) as caught:
            run_demo(out)
        assert caught.value.name == "exact_match" and "0.98" in caught.value.expected
    evaluation = json.loads((out / "evaluation.json").read_text(encoding="utf-8"))
    assert evaluation["sentences"] == 12 and 0 <= evaluation["exact_match"] <= 1
    assert {"bleu", "chrf"} <= evaluation.keys()
    assert (out / "loss.png").read_bytes().startswith(PNG) and (out / "attention.png").read_bytes().startswith(PNG)
    page = (out / "demo.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") and '"film":{' in page
    assert "model.safetensors" in read_verified(out)
    words = (out / "words.txt").read_text(encoding="utf-8").splitlines()
    assert words == sorted(set(words), key=str.casefold) and {"are", "is", "."} <= set(words)
    lines = (out / "phrasebook" / "train.tsv").read_text(encoding="utf-8").splitlines()
    valid = (out / "phrasebook" / "valid.tsv").read_text(encoding="utf-8").splitlines()
    assert len(set(lines) | set(valid)) == 200 + len(EVERYDAY) and not set(valid) & set(lines)
    assert lines.count("Hello!\tBonjour !") > 1
    assert list((tmp_path / "runs").iterdir()) == [out]
    told = capsys.readouterr()
    assert "exact match 0." in told.out and f"expected: at least {EXPECTED}" in told.out
    assert f"translate {out}" in told.err and (out / "demo.html").as_uri() in told.err


def test_it_never_replaces_what_is_not_its_own(hasty: None, tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "thesis.txt").write_text("years of work", encoding="utf-8")
    with pytest.raises(TrainingError) as caught:
        run_demo(tmp_path / "demo")
    assert caught.value.name == "--out" and caught.value.value == str(tmp_path / "demo")
    assert (tmp_path / "demo" / "thesis.txt").read_text(encoding="utf-8") == "years of work"


@pytest.mark.slow
def test_it_touches_nothing_beside_its_folder(hasty: None, tmp_path: Path) -> None:
    mine = tmp_path / "x-phrasebook" / "train.tsv"
    mine.parent.mkdir()
    mine.write_text("years of work", encoding="utf-8")
    with pytest.raises(TrainingError, match="exact match"):
        run_demo(tmp_path / "x")
    assert mine.read_text(encoding="utf-8") == "years of work"
    (tmp_path / "file").touch()
    with pytest.raises(TrainingError, match="file is a file"):
        run_demo(tmp_path / "file")


def test_a_second_one_at_the_same_time_leaves_the_first_its_phrases(hasty: None, tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "demo") as first:
        first.begin({})
        (tmp_path / "demo" / "phrasebook").mkdir()
        (tmp_path / "demo" / "phrasebook" / "train.tsv").write_text("being read", encoding="utf-8")
        with pytest.raises(TrainingError, match="is in use by another run"):
            run_demo(tmp_path / "demo")
        assert (tmp_path / "demo" / "phrasebook" / "train.tsv").read_text(encoding="utf-8") == "being read"


@pytest.mark.slow
def test_it_may_be_made_in_the_folder_that_one_is_in(
    hasty: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here = tmp_path / "my models"
    here.mkdir()
    monkeypatch.chdir(here)
    with pytest.raises(TrainingError, match="exact match"):
        run_demo(Path())
    assert {"model.safetensors", "phrasebook", "evaluation.json"} <= {path.name for path in here.iterdir()}
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    with pytest.raises(TrainingError, match="exact match"):
        run_demo(Path("my models"))
    assert "translate 'my models' \"" in capsys.readouterr().err


def test_without_matplotlib_there_are_no_pictures_and_all_the_rest(
    hasty: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.style", None)
    (tmp_path / "demo").mkdir()
    with pytest.raises(TrainingError, match="exact match"):
        run_demo(tmp_path / "demo")
    told = capsys.readouterr().err
    assert "no attention picture" in told and "pip install matplotlib" in told
    assert "contains the model, evaluation.json." in told


@pytest.mark.parametrize("early", ["before its phrases", "before training"])
def test_one_that_was_ended_early_is_begun_anew(
    hasty: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, early: str
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise StoppedError("stopped by SIGINT: go on with --resume", 130)

    with RunFolder.create(tmp_path / "demo") as left:
        if early == "before training":
            left.begin({})
            (tmp_path / "demo" / "phrasebook").mkdir()
    (tmp_path / "demo").mkdir(exist_ok=True)
    (tmp_path / "demo" / ".lock").touch()
    monkeypatch.setattr("clearhead.demo.demo_folder.train", stopped)
    with pytest.raises(StoppedError, match="run the same command") as caught:
        run_demo(tmp_path / "demo")
    assert caught.value.exit_code == 130


@pytest.mark.slow
def test_an_earlier_one_stays_whole_until_another_has_something_to_put_in_its_place(
    hasty: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise StoppedError("stopped by SIGINT: go on with --resume", 130)

    out = tmp_path / "demo"
    with pytest.raises(TrainingError, match="exact match"):
        run_demo(out)
    before, pictures = read_verified(out), {name: (out / name).read_bytes() for name in phrasebook_demo.PICTURES}
    monkeypatch.setattr("clearhead.demo.demo_folder.train", stopped)
    with pytest.raises(StoppedError):
        run_demo(out)
    assert read_verified(out) == before and "evaluation.json" in before
    assert {name: (out / name).read_bytes() for name in phrasebook_demo.PICTURES} == pictures
    assert isinstance(load(out)("the cat drank the milk"), str)


@pytest.mark.slow
def test_the_demo_reaches_the_score_that_it_promises_and_answers_alike_in_any_company(
    tmp_path: Path,
) -> None:
    run_demo(tmp_path / "demo")
    evaluation = json.loads((tmp_path / "demo" / "evaluation.json").read_text(encoding="utf-8"))
    assert evaluation["exact_match"] >= EXPECTED and evaluation["sentences"] >= 2000
    # In float32 sums depend on the shapes of a batch: what is nearly a tie may go either way, and nothing else.
    app, sources = (
        load(tmp_path / "demo", device="cpu"),
        [phrase.english for phrase in phrasebook_demo.split()[1]][:2000],
    )
    alone, together = app.results(sources, batch_tokens=1), app.results(sources)
    differing = [(one, other) for one, other in zip(alone, together) if one.text != other.text]
    assert len(differing) <= len(sources) / 1000
    for one, other in zip(alone, together):
        assert abs(one.score - other.score) < 1e-4
    asked = everyday()
    answers = app([phrase.english for phrase in asked])
    assert sum(answer == phrase.french for answer, phrase in zip(answers, asked)) >= 0.98 * len(asked)
