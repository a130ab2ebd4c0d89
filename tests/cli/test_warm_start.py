"""A warm start through the command line: trained, gone on with, looked at, compared with the model without."""

import json
from pathlib import Path

import pytest

from .conftest import Run

TINY = [
    "--model.d_model=16", "--model.n_heads=2", "--model.d_ff=16", "--model.n_encoder_layers=1", "--model.dropout=0.0",
    "--data.tokenizer=word", "--threads=1", "--train.precision=fp32", "--train.steps=4", "--train.eval_every=4",
]  # fmt: skip


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clearhead.training.run.loss_curve", lambda *_: None)
    monkeypatch.setattr("clearhead.scoring.class_scores.confusion_matrix", lambda *_: None)
    monkeypatch.setattr("clearhead.training.run.keep_freed_memory", lambda: True)


def test_from_a_file_of_texts_to_two_models_that_are_compared(run: Run, tmp_path: Path) -> None:
    data, out = tmp_path / "texts.tsv", tmp_path / "model"
    words = {"neg": "bad dull", "pos": "good warm"}
    rows = [f"the {word} film {n}\t{label}\n" for n in range(20) for label in words for word in words[label].split()]
    data.write_text("text\tlabel\n" + "".join(rows))
    train = ["train", data, "--task", "classify", "--out", out, "--warm-start", "denoise", "--test", data, *TINY]
    train += ["--preset", "nano"]
    done = run(*train)
    assert done.code == 0, done.err
    for line in (
        f"stage 1 of 6: classify, from random weights, in {out / '.without'}",
        "stage 2 of 6: ",
        "stage 3 of 6: classify",
        "stage 6 of 6: classify",
        "the head is new: 34 parameters",
    ):
        assert f"\n{line}" in f"\n{done.err}"
    assert "averaging 4 runs" in done.err and "accuracy" in done.err
    card = (out / "README.md").read_text("utf-8")
    assert "--train.preset=nano" in card and "--train.warm_start=denoise" in card and "| test | 80 |" in card
    again = run(*train, "--resume")
    assert again.code == 0 and f"{out} is complete: it was trained to step 4" in again.err
    assert run("info", out).code == run("info", out / ".without").code == 0
    assert run("classify", out, "a warm film").out.strip() in words
    compared = run("evaluate", out, out / ".without", "--data", data, "--json")
    assert compared.code == 0 and "accuracy" in json.dumps(json.loads(compared.out))


def test_a_language_model_needs_no_warm_start(run: Run, tmp_path: Path) -> None:
    book = tmp_path / "book.txt"
    book.write_text("Once upon a time.\n" * 50)
    done = run("train", book, "--task", "generate", "--out", tmp_path / "model", "--warm-start", "denoise", *TINY)
    assert done.code == 2 and not (tmp_path / "model").exists()
    assert "--warm-start" in done.err and "--texts" in done.err


def test_another_way_to_begin_is_a_wrong_use(run: Run, tmp_path: Path) -> None:
    done = run("train", "pairs.tsv", "--out", tmp_path / "model", "--warm-start", "predict")
    assert done.code != 0 and "predict" in done.err and "denoise" in done.err
