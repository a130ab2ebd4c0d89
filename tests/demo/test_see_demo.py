"""`clearhead demo see`: what it leaves behind and prints, and (slow) the accuracy that it promises."""

import json
from pathlib import Path

import numpy as np
import pytest

from clearhead import TrainingError, load
from clearhead.demo import see_demo
from clearhead.demo.see_demo import EXPECTED, LABELS, draw, run_see_demo

SMALL = {"model.d_model": 16, "model.n_heads": 2, "model.d_ff": 16, "model.n_encoder_layers": 1, "model.patch_size": 7}
SMALL |= {"train.steps": 3, "train.eval_every": 3, "train.save_every": 3, "train.threads": 1, "train.precision": "fp32"}


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A demo of three steps over a few images."""
    monkeypatch.setattr(see_demo, "SETTINGS", see_demo.SETTINGS | SMALL)
    monkeypatch.setattr(see_demo, "N_TRAINING", 13 * len(LABELS))
    monkeypatch.setattr(see_demo, "N_HELD_OUT", 32)
    monkeypatch.setattr("clearhead.training.run._draw", lambda *_: None)  # matplotlib takes seconds


def test_it_leaves_images_to_look_at_a_model_and_scores(
    hasty: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "my runs" / "see"
    for _ in range(2):  # it replaces its own
        with pytest.raises(TrainingError) as caught:
            run_see_demo(out)
        assert caught.value.name == "accuracy" and str(EXPECTED) in caught.value.expected
    evaluation = json.loads((out / "evaluation.json").read_text(encoding="utf-8"))
    assert evaluation["images"] == 32 and evaluation["accuracy"] == caught.value.value
    told = capsys.readouterr()
    assert f"accuracy {evaluation['accuracy']:.4f}   (expected: at least {EXPECTED})" in told.out
    assert f"classify '{out}' '{out}/images/held-out.npy#0'" in told.err
    images, labels = np.load(out / "images" / "held-out.npy"), (out / "images" / "held-out.txt").read_text()
    assert (images == draw(32, 0, held_out=True).images).all() and len(labels.splitlines()) == 32
    for name in ("train.png", "held-out.png"):
        assert (out / "images" / name).read_bytes().startswith(b"\x89PNG\r\n")
    app = load(out)
    assert app(f"{out}/images/held-out.npy#0") == app(images[0]) in LABELS


def test_it_never_replaces_what_is_not_its_own(hasty: None, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work", encoding="utf-8")
    with pytest.raises(TrainingError) as caught:
        run_see_demo(tmp_path)
    assert caught.value.name == "--out" and [it.name for it in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.slow
def test_the_demo_reaches_the_accuracy_that_it_promises(tmp_path: Path) -> None:
    run_see_demo(tmp_path / "see")
    evaluation = json.loads((tmp_path / "see" / "evaluation.json").read_text(encoding="utf-8"))
    assert evaluation["accuracy"] >= EXPECTED and evaluation["images"] == see_demo.N_HELD_OUT
