"""Texts with labels, from the file to the label of a new text."""

import csv
import json
import os
import random
import shutil
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import clearhead
from clearhead.api import Classifier
from clearhead.apps.trust_report import _words
from clearhead.cli import main
from clearhead.cli.parser import UsageError
from clearhead.cli.verbs import evaluate
from clearhead.folder.model_folder import model_files, save_files
from clearhead.training import schedule
from clearhead.training.report.metrics import read_metrics

from ...conftest import Run

GOOD, BAD = ["good", "great", "fine", "warm"], ["bad", "awful", "dull", "sad"]
FILL = ["the", "film", "was", "and", "a", "story", "with", "people", "in", "it"]
TINY = ["--model.d_model=32", "--model.n_heads=2", "--model.d_ff=64", "--model.n_encoder_layers=1"]
TINY += ["--model.dropout=0.1", "--data.tokenizer=word", "--threads=1", "--train.precision=fp32", "--train.lr=0.01"]


def write_texts(path: Path, n: int = 240, labels: tuple[str, str] = ("Pos", "neg")) -> Path:
    """Texts of which one word tells the label."""
    dice, rows = random.Random(0), []
    for _ in range(n):
        label = dice.randrange(2)
        words = dice.choices(FILL, k=dice.randint(2, 7))
        words.insert(dice.randrange(len(words)), dice.choice((GOOD, BAD)[label]))
        rows.append(f"{' '.join(words)}\t{labels[label]}\n")
    path.write_text("".join(rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with texts.tsv, test.tsv and what was learnt of them, model/. Not to be written to."""
    folder = tmp_path_factory.mktemp("classify")
    threads, generator = torch.get_num_threads(), torch.random.get_rng_state()
    data, test = write_texts(folder / "texts.tsv"), folder / "test.tsv"
    test.write_text("a dull dull story\tneg\nit was great\tPos\nthe warm people\tPos\nsad\tneg\n", encoding="utf-8")
    arguments = ["train", data, "--task", "classify", "--out", folder / "model", "--test", test, "--train.steps=60"]
    assert main([*map(str, arguments), *TINY]) == 0
    torch.set_num_threads(threads)
    torch.random.set_rng_state(generator)
    return folder


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the model above, where they are looked at: they would take longer than training."""
    monkeypatch.setattr("clearhead.training.run.loss_curve", lambda *_: None)
    monkeypatch.setattr("clearhead.scoring.class_scores.confusion_matrix", lambda *_: None)


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> Path:
    """The model folder, to be written to."""
    return Path(shutil.copytree(trained / "model", tmp_path / "model"))


# --- training


def test_the_labels_are_learnt(trained: Path) -> None:
    records = [it for it in read_metrics(trained / "model" / "metrics.jsonl") if "valid_accuracy" in it]
    assert max(it["valid_accuracy"] for it in records) >= 0.95
    assert min(it["valid_loss"] for it in records) < 0.1 and all("valid_macro_f1" in it for it in records)


def test_the_folder_says_what_it_is_and_how_good(trained: Path) -> None:
    model = trained / "model"
    config = json.loads((model / "config.json").read_bytes())
    assert config["data"]["labels"] == ["Pos", "neg"] and config["model"]["n_classes"] == 2
    assert (config["train"]["task"], config["model"]["topology"]) == ("classify", "encoder-only")
    card = (model / "README.md").read_text(encoding="utf-8")
    assert "# A text classifier" in card and 'clearhead classify THIS_FOLDER "a text"' in card
    assert "labelled texts from `texts.tsv`" in card and "--train.task=classify" in card and "\n1 layers," in card
    assert (
        "| on | texts | accuracy | macro F1 | nats per example |" in card and "| test | 4 | 1.0000 | 1.0000 |" in card
    )
    assert (model / "confusion.png").read_bytes().startswith(b"\x89PNG")


def test_the_same_command_again_is_told_by_looking_and_how_to_use_the_model(run: Run, trained: Path, tmp_path) -> None:
    out = tmp_path / "a model"
    done = run("train", trained / "texts.tsv", "--out", out, "--train.steps=2", *TINY)
    assert done.code == 0 and "task: classify" in done.err
    assert done.err.endswith(f"use it: clearhead classify '{out}' \"a text\"\n")
    assert "12 texts" in done.err and "for both sides" not in done.err


def test_a_run_that_goes_on_needs_no_task_and_ends_as_if_it_had_never_ended(run: Run, trained: Path, tmp_path) -> None:
    both = ["--train.save_every=3", "--train.eval_every=3", *TINY]
    data = trained / "texts.tsv"
    assert run("train", data, "--task", "classify", "--out", tmp_path / "whole", "--train.steps=9", *both).code == 0
    shutil.copytree(tmp_path / "whole", tmp_path / "half")
    from clearhead.folder.manifest import Manifest

    manifest = json.loads((tmp_path / "half" / "manifest.json").read_bytes())
    assert Manifest.read(tmp_path / "half").finished == 9
    manifest["finished"] = None
    (tmp_path / "half" / "manifest.json").write_text(json.dumps(manifest))
    shutil.rmtree(max((tmp_path / "half" / "checkpoints").iterdir()))
    done = run("train", data, "--out", tmp_path / "half", "--resume", *both[2:])
    assert done.code == 0 and "resuming" in done.err and "at step 6 of 9" in done.err
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "half")]
    assert weights[0] == weights[1]


def test_labels_that_only_the_validation_has_are_shown_and_count_as_wrong(run: Run, trained: Path, tmp_path) -> None:
    (tmp_path / "valid.tsv").write_text("a fine story\tPos\na dull story\tneg\nso so\tmixed\n", encoding="utf-8")
    (tmp_path / "few.tsv").write_text("in\tneg\na\tPos\n", encoding="utf-8")  # by their length texts of two labels
    done = run("train", trained / "texts.tsv", "--task", "classify", "--out", tmp_path / "model",
               "--valid", tmp_path / "valid.tsv", "--test", tmp_path / "few.tsv", "--train.steps=3",
               "--train.best=accuracy", *TINY)  # fmt: skip
    assert done.code == 0 and "(text in 1, label in 2), no header; 2 of 2 lines used" in done.err
    assert "skipped 1: " in done.err and 'line 3: "mixed: so so"' in done.err
    records = read_metrics(tmp_path / "model" / "metrics.jsonl")
    assert all(it["valid_accuracy"] <= 2 / 3 + 1e-9 for it in records if "valid_accuracy" in it)


def test_where_the_validation_has_no_label_of_the_training_there_is_nothing_to_choose_by(run, trained, tmp_path):
    (tmp_path / "valid.tsv").write_text("a fine story\tyes\na dull story\tno\n", encoding="utf-8")
    done = run("train", trained / "texts.tsv", "--task", "classify", "--out", tmp_path / "model",
               "--valid", tmp_path / "valid.tsv", "--train.steps=3", *TINY)  # fmt: skip
    assert done.code == 1 and "all 2 validation texts" in done.err


@pytest.mark.parametrize(
    "option",
    [
        "--train.best=bleu",
        "--train.patience=3",
        "--model.topology=decoder-only",
        "--decode.beam=8",
        "--model.n_token_types=2",
        "--data.joint=false",
        "--data.subword_dropout=0.1",
        "--data.reverse=true",
    ],
)
def test_what_is_not_for_labels_is_rejected(run: Run, trained: Path, tmp_path: Path, option: str) -> None:
    done = run("train", trained / "texts.tsv", "--task", "classify", "--out", tmp_path / "model", option)
    assert done.code == 2 and option.strip("-").split("=")[0] in done.err


@pytest.mark.parametrize("setting", ["balance=true", "r_drop=2"])
def test_some_settings_are_for_labels_alone(run: Run, trained: Path, tmp_path: Path, setting: str) -> None:
    files = (trained / "texts.tsv", "--out", tmp_path / "model", f"--train.{setting}")
    done = run("train", *files, "--task", "translate")
    assert done.code == 2 and f"train.{setting.split('=')[0]}" in done.err
    assert run("train", *files, "--task", "classify", "--train.steps=2", *TINY).code == 0


def test_training_begins_with_another_model_of_the_same_labels(run: Run, trained: Path, tmp_path: Path) -> None:
    more = write_texts(tmp_path / "more.tsv", 60)
    done = run("train", more, "--task", "classify", "--out", tmp_path / "more", "--init-from", trained / "model",
               "--train.steps=2", "--threads=1")  # fmt: skip
    assert done.code == 0 and clearhead.load(tmp_path / "more")("a great story") == "Pos"
    other = write_texts(tmp_path / "other.tsv", 60, ("yes", "no"))
    options = ("--task", "classify", "--init-from", trained / "model")
    done = run("train", other, *options, "--dry-run")
    assert done.code == 0 and "2 of 2 labels" in done.out
    done = run("train", other, *options, "--out", tmp_path / "other", "--train.steps=2", "--threads=1")
    assert done.code == 0 and "2 of 2 labels" in done.err and "the head" in done.err
    model = clearhead.load(tmp_path / "other")
    assert model.config.data.labels == ("no", "yes") and model("a great story") in ("no", "yes")


def test_a_model_that_translates_is_no_beginning(run: Run, trained: Path, model_folder: Path, tmp_path: Path) -> None:
    done = run(
        "train", trained / "texts.tsv", "--task", "classify", "--out", tmp_path / "m", "--init-from", model_folder
    )
    assert done.code == 2 and "--init-from" in done.err and str(model_folder) in done.err
    done = run("train", trained / "texts.tsv", "--task", "classify", "--dry-run", "--init-from", model_folder)
    assert done.code == 2 and "--init-from" in done.err


@pytest.mark.slow
def test_a_short_budget_is_enough(run: Run, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "process_began", time.monotonic)  # the tests before this one are no part of it
    done = run("train", trained / "texts.tsv", "--task", "classify", "--out", tmp_path / "m", "--budget", "90s",
               "--threads=1", "--data.tokenizer=word")  # fmt: skip
    assert done.code == 0 and clearhead.load(tmp_path / "m")(["a great story", "dull people"]) == ["Pos", "neg"]


# --- use


def test_each_text_has_a_label_on_a_line_of_its_own(run: Run, trained: Path) -> None:
    done = run("classify", trained / "model", "a great story", "the dull people", "")
    assert (done.code, done.err) == (0, "text 3 is blank, so its label is meaningless\n")
    assert done.out.splitlines()[:2] == ["Pos", "neg"] and done.out.splitlines()[2] in ("Pos", "neg")


def test_json_has_the_probabilities_the_likeliest_first(run: Run, trained: Path) -> None:
    values = json.loads(run("classify", trained / "model", "a great quagga", "--json").out)
    keys = ["format_version", "text", "label", "probability", "probabilities", "unknown", "cut", "confidence"]
    assert list(values) == keys and values["format_version"] == 1
    assert (values["text"], values["label"], values["unknown"]) == ("a great quagga", "Pos", ["quagga"])
    assert list(values["probabilities"]) == ["Pos", "neg"] and sum(values["probabilities"].values()) == pytest.approx(1)
    assert values["probability"] == values["probabilities"]["Pos"] > 0.5


def test_standard_input_gives_a_line_for_each_line(run: Run, trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    os.write(write, "a great story\n\nthe dull people\r\n\xe9 quagga".encode("latin-1"))
    os.close(write)
    with os.fdopen(read) as stream:
        monkeypatch.setattr("sys.stdin", stream)
        done = run("classify", trained / "model")
    lines = done.out.splitlines()
    assert done.code == 0 and len(lines) == 4 and lines[0] == "Pos" and lines[2] == "neg"
    assert "line 2 is blank, so its label is meaningless" in done.err
    assert "line 4 isn't UTF-8" in done.err and "line 4 has words" in done.err


def test_of_a_long_text_the_beginning_is_read_and_that_is_said(run: Run, trained: Path) -> None:
    app = clearhead.load(trained / "model")
    long = " ".join(["the"] * 249 + ["great"] * 6)
    done = run("classify", trained / "model", long, "--json")
    assert json.loads(done.out)["cut"] == 5
    assert "text 1 is too long for the model, which ignores the last 5 tokens" in done.err
    kept, whole = (app.results([text])[0].probabilities for text in (" ".join(long.split()[:250]), long))
    assert whole == pytest.approx(kept)


def test_the_app_gives_what_it_is_asked_for(trained: Path) -> None:
    app = clearhead.load(trained / "model")
    assert isinstance(app, Classifier) and app.labels == ("Pos", "neg")
    assert app("a great story") == "Pos" and app(["a great story", "so dull"]) == ["Pos", "neg"] and app([]) == []
    with pytest.raises(clearhead.DataError):
        app.results("a great story")
    alone, among = app.results(["so dull"])[0], app.results(["so dull", "the film was a great story"])[0]
    assert alone.probabilities == pytest.approx(among.probabilities)
    with pytest.raises(clearhead.ConfigError) as caught:
        app("a great story", beam=2)
    assert (caught.value.name, caught.value.value) == ("decode.beam", 2)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["{}", "-", "a text"], 2, "standard input"),
        ([], 2, "no model folder"),
        (["{}", "a text", "--beam", "2"], 2, "'--beam'"),
        (["nowhere", "a text"], 1, "nowhere"),
    ],
)
def test_a_wrong_use_is_told(run: Run, trained: Path, arguments: list[str], code: int, said: str) -> None:
    done = run("classify", *(it.format(trained / "model") for it in arguments))
    assert done.code == code and said in done.err and not done.out


def test_a_closed_standard_input_is_told(run: Run, trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    done = run("classify", trained / "model")
    assert done.code == 2 and "standard input is closed" in done.err


def test_a_model_for_another_verb_names_its_own(run: Run, trained: Path, model_folder: Path) -> None:
    done = run("classify", model_folder, "a text")
    assert done.code == 1 and "clearhead translate" in done.err
    for verb in ("translate", "summarize"):
        done = run(verb, trained / "model", "a text")
        assert done.code == 1 and f'clearhead classify {trained / "model"} "a text"' in done.err


# --- scores


def test_evaluate_shows_what_is_confused_and_keeps_it(run: Run, trained: Path, folder: Path) -> None:
    done = run("evaluate", folder, "--data", trained / "test.tsv")
    assert done.code == 0 and "accuracy           1.0000  " in done.out
    assert "correct label    Pos    neg  precision  recall      F1\nPos                2      0" in done.out
    values = json.loads(run("evaluate", folder, "--data", trained / "test.tsv", "--json").out)
    assert values == json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))
    assert values["texts"] == 4 and values["confusion"] == [[2, 0], [0, 2]] and values["unseen_labels"] == 0
    assert values["examples"][0] == {"source": "a dull dull story", "label": "neg", "references": ["neg"]}
    info = run("info", folder).out
    assert "evaluation  accuracy 1.0000  macro F1 1.0000" in info and "beam" not in info and "greedy" not in info


def test_predictions_are_written_for_each_line(run: Run, folder: Path, trained: Path, tmp_path: Path) -> None:
    data, out = tmp_path / "test.tsv", tmp_path / "out.csv"
    data.write_bytes((trained / "test.tsv").read_bytes() + b"\nsad\tPos\n")
    assert run("evaluate", folder, "--data", data, "--predictions", out).code == 0
    rows = list(csv.DictReader(out.read_text(encoding="utf-8").splitlines()))
    assert [(row["line"], row["source"], row["gold"], row["prediction"]) for row in rows] == [
        ("1", "a dull dull story", "neg", "neg"), ("2", "it was great", "Pos", "Pos"),
        ("3", "the warm people", "Pos", "Pos"), ("4", "sad", "neg", "neg"), ("6", "sad", "Pos", "neg"),
    ]  # fmt: skip
    evaluation = clearhead.load(folder).evaluate(data)
    for name, values in evaluation.judged.singly().items():
        assert [float(row[name]) for row in rows] == values.tolist()
    assert run("evaluate", folder, "--data", data, "--predictions", tmp_path / "out.jsonl").code == 0
    assert [json.loads(it)["prediction"] for it in (tmp_path / "out.jsonl").read_text().splitlines()] == [
        row["prediction"] for row in rows
    ]
    for wrong in (["--predictions", tmp_path / "out.txt"], [folder, "--predictions", out]):
        assert run("evaluate", folder, *wrong, "--data", data).code == 2


def test_a_label_that_training_did_not_have_is_a_row_of_its_own(run: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "new.tsv").write_text("a dull story\tneg\nit was great\tPos\nso so\tmixed\n", encoding="utf-8")
    done = run("evaluate", folder, "--data", tmp_path / "new.tsv", "--report", tmp_path / "report.txt")
    assert done.code == 0 and "accuracy           0.6667" in done.out and "unseen labels           1" in done.out
    assert "\nmixed " in done.out
    report = (tmp_path / "report.txt").read_text(encoding="utf-8")
    assert "correct label" in report and "p 0.0000  so so\n" in report


def test_labels_of_a_few_short_texts_are_found_since_the_model_knows_them(run: Run, folder: Path, tmp_path) -> None:
    (tmp_path / "few.tsv").write_text("in\tneg\na\tPos\n", encoding="utf-8")
    done = run("evaluate", folder, "--data", tmp_path / "few.tsv")
    assert done.code == 0 and "two columns (text in 1, label in 2), no header; 2 of 2 lines used" in done.err
    assert "unseen labels           0" in done.out


def test_two_models_are_compared_on_the_same_texts(run: Run, trained: Path, folder: Path) -> None:
    done = run("evaluate", folder, folder, "--data", trained / "test.tsv", "--json")
    [first, second] = json.loads(done.out)["significance"]["accuracy"]
    assert (first["score"], first["p_value"], second["p_value"]) == (1.0, None, 1.0)
    text = run("evaluate", folder, folder, "--data", trained / "test.tsv").out
    assert text.splitlines()[0].split() == ["accuracy", "95%", "p"]


def test_a_search_has_no_place_in_evaluation(run: Run, trained: Path, folder: Path) -> None:
    done = run("evaluate", folder, "--data", trained / "test.tsv", "--beam", "2")
    assert done.code == 2 and "--beam 2" in done.err


def test_a_model_that_translates_is_not_compared_with_one_that_classifies(run, trained, folder, model_folder) -> None:
    done = run("evaluate", folder, model_folder, "--data", trained / "test.tsv")
    assert done.code == 2 and str(model_folder) in done.err


def test_a_label_is_explained(run: Run, trained: Path) -> None:
    text = "it was a great story"
    app = clearhead.load(trained / "model", device="cpu")
    out = run("explain", trained / "model", text).out
    assert f"answer  {app(text)}\n        probability" in out and "  head   " in out
    out = run("explain", trained / "model", text, "--why", "Pos", "--not", "neg").out
    assert out.startswith('why "Pos", not "neg": the logits differ by +')
    assert run("explain", trained / "model", text, "--why", "Pos", "--not", "neg", "--json").code == 0
    assert "encoder.0.self: 2 heads" in run("explain", trained / "model", text, "--heads").out
    for label in ("Pos", "neg"):
        found = json.loads(run("explain", trained / "model", text, "--words", "--why", label, "--json").out)
        assert (found["said"], found["text"]) == ([label], app(text))
    done = run("explain", trained / "model", text, "--words", "--why", "Pos", "--not", "neg")
    assert done.code == 2 and "--not" in done.err
    assert run("explain", trained / "model", text, "--words", "--png", "a.png").code == 2
    for view in (["--decode"], ["--lens"], ["--why", "pos"]):
        done = run("explain", trained / "model", text, *view)
        assert (done.code, done.out) == (2, "")
    done = run("explain", trained / "model", " ")
    assert done.code == 1 and "blank" in done.err
    values = json.loads(run("explain", trained / "model", text, "--json").out)
    assert values["text"] == app(text) and {"search", "lens", "alignment"}.isdisjoint(values)


# --- confidence


def doubtful(path: Path) -> Path:
    """Texts of which a third have the wrong label, all of them with a word that training didn't have."""
    rows = [it.split("\t") for it in write_texts(path, 90).read_text(encoding="utf-8").splitlines()]
    other = {"Pos": "neg", "neg": "Pos"}
    wrong = [(text, label) if i % 3 else (f"xyz {text}", other[label]) for i, (text, label) in enumerate(rows)]
    path.write_text("".join(f"{text}\t{label}\n" for text, label in wrong), encoding="utf-8")
    return path


@pytest.fixture
def calibrated(folder: Path, run: Run, tmp_path: Path) -> Path:
    done = run("evaluate", folder, "--data", doubtful(tmp_path / "doubtful.tsv"), "--calibrate")
    assert done.code == 0, done.err
    return folder


def test_calibration_gives_labels_a_confidence(run: Run, trained: Path, calibrated: Path) -> None:
    assert not (trained / "model" / "confidence.json").exists()  # 12 texts are held out: too few
    [before] = clearhead.load(trained / "model").results(["it was great"])
    assert before.confidence is None
    app = clearhead.load(calibrated)
    [found] = app.results(["it was great"])
    assert found.probability == before.probability
    assert app.confidence is not None and 0.3 < found.confidence < 0.95
    assert json.loads(run("classify", calibrated, "it was great", "--json").out)["confidence"] == found.confidence


def test_answers_below_a_confidence_are_marked(run: Run, calibrated: Path, tmp_path: Path) -> None:
    texts = ["it was great", "a dull dull story"]
    confidences = [it.confidence for it in clearhead.load(calibrated).results(texts)]
    assert confidences[0] != confidences[1]
    least = f"{max(confidences):.4f}"
    done = run("classify", calibrated, *texts, "--reject-below", least)
    expected = [label if own == max(confidences) else "?" for label, own in zip(("Pos", "neg"), confidences)]
    assert (done.code, done.out.splitlines()) == (0, expected)
    assert "1 answer rejected" in done.err
    rows = [
        json.loads(it) for it in run("classify", calibrated, *texts, "--json", "--reject-below", least).out.splitlines()
    ]
    assert [(it["label"], it["rejected"]) for it in rows] == [("Pos", expected[0] == "?"), ("neg", expected[1] == "?")]
    (tmp_path / "in.csv").write_text("id,text\n1,it was great\n2,a dull dull story\n3,\n", encoding="utf-8")
    done = run("classify", calibrated, "--data", tmp_path / "in.csv", "--reject-below", least)
    rows = list(csv.DictReader(done.out.splitlines()))
    assert [it["label"] for it in rows] == [*expected, ""]
    assert [float(it["confidence"]) for it in rows[:2]] == confidences
    assert rows[2]["confidence"] == ""


def test_an_error_rate_becomes_a_confidence(run: Run, calibrated: Path) -> None:
    confidence = clearhead.load(calibrated).confidence
    assert confidence is not None
    least = min(it.error for it in confidence.thresholds())
    done = run("classify", calibrated, "it was great", "--error-rate", f"{100 * least + 0.01:.4f}%")
    assert done.code == 0 and "95% interval" in done.err and "90 validation answers" in done.err


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--reject-below", "1.5"], "a share above 0"),
        (["--error-rate", "often"], "a share above 0"),
        (["--error-rate", "2%", "--reject-below", "0.9"], "can't be combined"),
        (["--reject-below", "0.9"], "--calibrate"),
    ],
)
def test_rejection_that_cannot_be(run: Run, trained: Path, options: list[str], named: str) -> None:
    done = run("classify", trained / "model", "it was great", *options)
    assert done.code == 2 and named in done.err and done.out == ""


def test_too_few_texts_to_calibrate(run: Run, trained: Path, folder: Path) -> None:
    done = run("evaluate", folder, "--data", trained / "test.tsv", "--calibrate")
    assert done.code == 1 and "at least 20 answers" in done.err and "accuracy" in done.out


def test_a_report_shows_rates_confusions_suspects_and_words(run: Run, folder: Path, tmp_path: Path) -> None:
    data, report = doubtful(tmp_path / "doubtful.tsv"), tmp_path / "report.html"
    assert run("evaluate", folder, "--data", data, "--report", report).code == 0
    page = report.read_text(encoding="utf-8")
    assert "<td>33.33%</td>" in page  # the error rate if nothing is rejected
    for heading in (
        "Reject uncertain answers",
        "Frequent confusions",
        "Suspect labels",
        "Words behind the errors",
    ):
        assert heading in page
    words = page[page.index("Words behind the errors") :]
    assert "<td>xyz</td><td>30</td><td>100.0%</td>" in words and "<td>film</td>" not in words


def test_costs_order_the_confusions_and_choose_the_confidence_to_reject_below(
    run: Run, calibrated: Path, tmp_path: Path
) -> None:
    data, report, costs = tmp_path / "doubtful.tsv", tmp_path / "report.html", tmp_path / "costs.csv"
    costs.write_text("label,predicted,cost\nPos,neg,10\nneg,Pos,0.5\n,,0.2\n", encoding="utf-8")
    command = ("evaluate", calibrated, "--data", data, "--costs", costs)
    done = run(*command, "--report", report, "--json")
    values = json.loads(done.out)
    assert done.code == 0 and values["mean_cost"] == pytest.approx((10 * 10 + 20 * 0.5) / 90)
    best = values["cheapest_rejection"]
    assert best["mean_cost"] <= 0.2 and best["rejected"] > 0
    page = report.read_text(encoding="utf-8")
    assert "Reject where it's cheaper" in page and "<td>mean cost</td><td>1.2222</td>" in page
    confusions = page[page.index("Confusions by cost") :]
    of = data.read_text(encoding="utf-8").count("\tPos\n")
    assert f"<td>Pos</td><td>neg</td><td>10</td><td>{of}</td><td>10</td><td>100</td><td>90.9%</td>" in confusions
    assert confusions.index("<td>Pos</td><td>neg</td>") < confusions.index("<td>neg</td><td>Pos</td>")
    said = run(*command).out
    assert "mean cost          1.2222" in said and "it's cheapest to reject" in said
    rejected = run("classify", calibrated, "--data", data, "--text", "1", "--reject-below", str(best["confidence"]))
    assert rejected.out.count("?") == round(90 * best["rejected"])


def test_costs_that_cannot_be(run: Run, trained: Path, tmp_path: Path) -> None:
    costs = tmp_path / "costs.csv"
    data = ("--data", trained / "test.tsv", "--costs", costs, "--no-save")
    costs.write_text("label,predicted,cost\nPos,,10\n", encoding="utf-8")
    done = run("evaluate", trained / "model", *data)
    assert done.code == 0 and "it takes at least 20 answers" in done.err and "mean cost          0.0000" in done.out
    costs.write_text("label,predicted,cost\nPos,nag,10\n", encoding="utf-8")
    done = run("evaluate", trained / "model", *data)
    assert (done.code, done.out) == (1, "") and "unknown label 'nag' in the column predicted" in done.err
    assert "neg" in done.err
    for rows, said in (("", "has no costs"), (",neg,1\n", "line 2 of")):
        costs.write_text(f"label,predicted,cost\n{rows}", encoding="utf-8")
        done = run("evaluate", trained / "model", *data)
        assert (done.code, done.out) == (1, "") and said in done.err
    done = run("evaluate", trained / "model", trained / "model", *data)
    assert done.code == 2 and "--costs describes one model" in done.err
    done = run("evaluate", "demo", *data)
    assert done.code == 2 and "needs a classifier with one label per input" in done.err


@pytest.mark.parametrize("kind", ["several", "targets", "number"])
def test_costs_are_of_single_labels(trained: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    app = clearhead.load(trained / "model")
    monkeypatch.setattr(Classifier, "config", replace(app.config, data=replace(app.config.data, label_kind=kind)))
    with pytest.raises(UsageError) as caught:
        evaluate._costs(trained / "no such file", app, [])
    assert caught.value.name == "--costs"


def test_chance_puts_no_words_into_a_report() -> None:
    dice = np.random.default_rng(0)
    sources = [" ".join(dice.choice([f"w{i}" for i in range(2000)], 20)) for _ in range(1500)]
    assert not [*_words(sources, (dice.random(1500) < 0.1).astype(float))]


def test_other_weights_have_no_confidence(calibrated: Path) -> None:
    values = json.loads((calibrated / "confidence.json").read_bytes())
    save_files(calibrated, model_files(confidence={**values, "weights": "0" * 64}))
    app = clearhead.load(calibrated)
    assert app.confidence is None and app.results(["it was great"])[0].confidence is None


def test_what_cannot_be_calibrated_loses_nothing(run: Run, trained: Path, folder: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.txt"
    done = run("evaluate", folder, "--data", trained / "test.tsv", "--calibrate", "--report", report)
    assert done.code == 1 and "at least 20 answers" in done.err
    assert "accuracy" in report.read_text(encoding="utf-8") and (folder / "evaluation.json").exists()


def test_a_loaded_model_has_the_confidence_that_it_was_calibrated_with_last(folder: Path, tmp_path: Path) -> None:
    app = clearhead.load(folder)
    assert isinstance(app, Classifier) and app.confidence is None
    app.calibrate(app.evaluate(doubtful(tmp_path / "doubtful.tsv")))
    [found] = app.results(["it was great"])
    assert app.confidence is not None and found.confidence is not None
    assert clearhead.load(folder).results(["it was great"]) == [found]
