"""`clearhead answer`, and all that the other verbs do for such a model."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import clearhead
from clearhead.api import Answerer
from clearhead.folder.adapters import weights_digest
from clearhead.folder.model_folder import model_files, save_files
from clearhead.tasks.answer.windows import NOTHING, Passage, certainty
from clearhead.training.report.metrics import read_metrics
from tests.builders import make_questions

from ....conftest import ANSWERING
from ...conftest import Run

BASELINES = (
    "never answering",
    "the first sentence",
    "the sentence with the most words of the question",
    "four words near those of the question",
)
TEXT = "Ann and two owls \n and New  York and June."
WHO, WHERE = "Who was there?", "Where was it?"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    path = tmp_path / "questions.json"
    path.write_text(json.dumps(make_questions(40, seed=3, lacking=True)), encoding="utf-8")
    return path


def test_a_row_has_the_answer_its_place_and_its_score(run: Run, answer_folder: Path, text: Path) -> None:
    done = run("answer", answer_folder, "--context", text, WHERE, WHO)
    assert done.code == 0 and not done.err
    rows = [line.split("\t") for line in done.out.splitlines()]
    assert [row[0] for row in rows] == ["New York", "Ann"], "white space is one space, so that a row is a row"
    start, end = map(int, rows[0][1].split("-"))
    assert TEXT[start:end] == "New  York" and float(rows[0][2]) > 0


def test_what_the_text_does_not_have_is_an_empty_answer_without_a_place(
    run: Run, answer_folder: Path, text: Path
) -> None:
    text.write_text("Ann and two owls and June.", encoding="utf-8")
    assert run("answer", answer_folder, "--context", text, WHERE).out == "\t\t0.00\n"


def test_the_next_best_answers_follow_indented(run: Run, answer_folder: Path, text: Path) -> None:
    rows = run("answer", answer_folder, "--context", text, WHERE, WHO, "--n-best", "3").out.splitlines()
    assert [row.startswith("    ") for row in rows] == [False, True, True] * 2
    scores = [float(row.split("\t")[2]) for row in rows]
    assert scores[:3] == sorted(scores[:3], reverse=True) and scores[3:] == sorted(scores[3:], reverse=True)
    assert len({row.split("\t")[1] for row in rows[:3]}) == 3


def test_json_is_what_python_gives(run: Run, answer_folder: Path, text: Path) -> None:
    done = run("answer", answer_folder, "--context", text, WHERE, "", "--n-best", "2", "--json")
    values = [json.loads(line) for line in done.out.splitlines()]
    app = clearhead.load(answer_folder)
    assert isinstance(app, Answerer)
    found = app.results([WHERE, ""], TEXT, n_best=2)
    assert values == [json.loads(json.dumps(it.to_dict())) for it in found]
    first, blank = values
    read = {"question", "unknown", "cut", "confidence"}
    assert set(first) == {"format_version", "text", "start", "end", "score", "alternatives", *read}
    assert TEXT[first["start"] : first["end"]] == first["text"] == app(WHERE, TEXT) == app([WHERE], TEXT)[0]
    assert set(first["alternatives"][0]) == {"text", "start", "end", "score"}
    assert (blank["text"], blank["start"], blank["score"]) == ("", None, 0.0)


def test_questions_come_line_by_line_from_standard_input(pipe: Run, answer_folder: Path, text: Path) -> None:
    done = pipe(f"{WHO}\n\n{WHERE}\nWho was Zed?\n".encode(), "answer", answer_folder, "--context", text)
    assert done.code == 0
    assert [line.split("\t")[0] for line in done.out.splitlines()][:3] == ["Ann", "", "New York"]
    assert len(done.out.splitlines()) == 4
    assert done.err.splitlines() == ['line 4 has words that the model doesn\'t know: "Zed"']


def test_the_text_may_come_from_standard_input_instead(pipe: Run, answer_folder: Path) -> None:
    done = pipe(TEXT.encode(), "answer", answer_folder, "--context", "-", WHO)
    assert done.code == 0 and done.out.startswith("Ann\t0-3\t")


def test_a_long_question_is_read_from_its_beginning_which_is_said(run: Run, answer_folder: Path, text: Path) -> None:
    done = run("answer", answer_folder, "--context", text, WHERE + " Who was there" * 10)
    assert done.code == 0 and len(done.out.splitlines()) == 1
    assert "question 1 is too long for the model, which ignores the last 21 tokens" in done.err


# --- what is refused


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        ((WHO,), 2, "--context"),
        (("--context", "-", "-"), 2, "standard input"),
        (("--context", "-"), 2, "standard input"),
        (("--context", "text.txt", "-", WHO), 2, "standard input"),
        (("--context", "missing.txt", WHO), 1, "missing.txt"),
        (("--context", "blank.txt", WHO), 1, "the context is blank"),
        (("--context", "latin.txt", WHO), 1, "latin.txt"),
        (("--context", "text.txt", WHO, "--n-best", "30"), 2, "--n-best 30"),
        (("--context", "text.txt", WHO, "--alpha", "1"), 2, "'--alpha'"),
    ],
)
def test_wrong_usage_and_unusable_texts_are_rejected(
    run: Run, answer_folder: Path, text: Path, monkeypatch: pytest.MonkeyPatch, arguments, code: int, named: str
) -> None:
    monkeypatch.chdir(text.parent)
    Path("blank.txt").write_text(" \n\t\n", encoding="utf-8")
    Path("latin.txt").write_bytes("Ann and\ncafé".encode("latin-1").replace(b"caf", b""))
    done = run("answer", answer_folder, *arguments)
    assert done.code == code and not done.out and named in done.err


def test_a_model_of_another_kind_is_refused_with_the_verb_that_fits(
    run: Run, answer_folder: Path, model_folder: Path, text: Path
) -> None:
    done = run("answer", model_folder, "--context", text, WHO)
    assert done.code == 1 and str(model_folder) in done.err and "clearhead translate" in done.err
    without = run("answer", model_folder, WHO)
    assert without.code == 1 and without.err == done.err
    done = run("translate", answer_folder, "a")
    assert done.code == 1
    assert f'clearhead answer {answer_folder} --context text.txt "a question"' in done.err


def test_python_says_what_would_change_nothing_and_what_is_no_list(answer_folder: Path) -> None:
    app = clearhead.load(answer_folder)
    assert isinstance(app, Answerer)
    with pytest.raises(clearhead.ConfigError) as caught:
        app(WHO, TEXT, alpha=1)
    assert (caught.value.name, caught.value.value) == ("decode.alpha", 1)
    with pytest.raises(clearhead.ConfigError, match=r"decode\.bem"):
        app(WHO, TEXT, bem=1)
    for wrong, name in (((WHO, TEXT), "question"), (([WHO], 5), "context"), (([WHO], " "), "context")):
        with pytest.raises(clearhead.DataError) as wrong_data:
            app.results(*wrong)
        assert wrong_data.value.name == name


# --- the other verbs


def test_evaluate_scores_it_and_two_models_beside_each_other(
    run: Run, answer_folder: Path, questions: Path, tmp_path: Path
) -> None:
    one, other = (Path(shutil.copytree(answer_folder, tmp_path / name)) for name in ("one", "other"))
    done = run("evaluate", one, "--data", questions)
    assert done.code == 0
    assert done.err.startswith(f"{questions}: SQuAD, 40 contexts of 40 articles; 160 of 160 questions used\n")
    lines = done.out.splitlines()
    assert [line.split("  ")[0] for line in lines[:3]] == ["questions", "exact match", "F1"]
    assert [line.split(": ")[0] for line in lines[3:7]] == [*BASELINES]
    values = json.loads(run("evaluate", one, "--data", questions, "--json").out)
    assert values == json.loads((one / "evaluation.json").read_text(encoding="utf-8"))
    assert values["questions"] == 160 and values["f1"] > 0.9 and values["unanswerable"]["questions"] == 40
    assert f"F1                {values['f1']:.4f}  " in done.out
    for name, kind in (("with an answer", "answerable"), ("without one", "unanswerable")):
        own = values[kind]
        said = f"{name:<15} {own['questions']:>8}  exact match {own['exact_match']:.4f}  F1 {own['f1']:.4f}"
        assert said in lines
    both = json.loads(run("evaluate", one, other, "--data", questions, "--json").out)
    assert both["significance"]["f1"][1]["p_value"] == 1.0
    report = run("evaluate", one, "--data", questions, "--report", tmp_path / "page.txt")
    assert report.code == 0 and "The worst\n" in (tmp_path / "page.txt").read_text(encoding="utf-8")


def test_references_that_several_people_wrote_alike_are_shown_once(
    run: Run, answer_folder: Path, tmp_path: Path
) -> None:
    answers = [{"text": it, "answer_start": at} for it, at in (("the hill", 8), ("the hill", 8), ("hill", 12))]
    asked = {"context": "Tom saw the hill.", "qas": [{"id": "1", "question": WHO, "answers": answers}]}
    path, folder = tmp_path / "asked.json", shutil.copytree(answer_folder, tmp_path / "model")
    path.write_text(json.dumps({"data": [{"title": "", "paragraphs": [asked]}]}), encoding="utf-8")
    shown = run("evaluate", folder, "--data", path).out.splitlines()
    assert [line.split("  ")[-1].strip() for line in shown if line.startswith("reference ")] == ["the hill", "hill"]


def test_models_of_two_tasks_cannot_be_compared(
    run: Run, answer_folder: Path, model_folder: Path, questions: Path
) -> None:
    done = run("evaluate", answer_folder, model_folder, "--data", questions)
    assert done.code == 2 and str(answer_folder) in done.err and str(model_folder) in done.err


def test_info_describes_it(run: Run, answer_folder: Path) -> None:
    done = run("info", answer_folder)
    assert done.code == 0 and done.out.startswith("encoder-only: 2 layers")
    assert "token types" in done.out and "logits of start and end" in done.out
    assert "validation  " in done.out and "F1 " in done.out


TINY = [f"--{name}={str(value).lower()}" for name, value in ANSWERING.items() if name != "train.warmup"]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clearhead.training.run.keep_freed_memory", lambda: True)
    monkeypatch.setattr("clearhead.training.run.loss_curve", lambda *_: None)


def test_train_makes_a_folder_with_a_card_and_says_how_to_use_it(
    run: Run, questions: Path, tmp_path: Path, quick: None
) -> None:
    out = tmp_path / "model"
    files = ("--valid", questions, "--test", questions)
    done = run("train", questions, "--task", "answer", "--out", out, *files, *TINY, "--train.steps=6")
    assert done.code == 0, done.err
    assert done.err.endswith(f'use it: clearhead answer {out} --context text.txt "a question"\n')
    for name in ("validation", "test"):
        [said] = [line for line in done.err.splitlines() if line.startswith(f"{name}: ")]
        assert "exact match " in said and "F1 " in said and "(160 questions" in said
    assert all(done.err.count(f"{name}: ") == 2 for name in BASELINES)
    card = (out / "README.md").read_text(encoding="utf-8")
    assert card.startswith("# A question-answering model\n") and "--train.task=answer" in card
    assert "160 windows of questions and their texts from `questions.json`" in card
    assert "| test | 160 |" in card
    config = json.loads((out / "config.json").read_text(encoding="utf-8"))
    assert config["data"]["unanswerable"] and config["model"]["max_len"] == config["data"]["max_len"] == 40
    assert "valid_f1" in read_metrics(out / "metrics.jsonl")[-1] and "  (best f1)\n" in done.err
    assert run("evaluate", out, "--data", questions).code == 0
    about = run("info", out).out  # an answer is no search
    assert "\nvalidation  " in about and "\nevaluation  " in about and "greedy" not in about and "alpha" not in about
    again = run("train", questions, "--task", "answer", "--out", out, *files, *TINY, "--train.steps=6", "--resume")
    assert again.code == 0 and f"{out} is complete: it was trained to step 6" in again.err


def test_a_run_that_is_resumed_ends_as_one_that_was_not(questions: Path, tmp_path: Path, quick: None) -> None:
    values = {**ANSWERING, "train.task": "answer", "data.train": [str(questions)], "model.dropout": 0.1}
    values |= {"train.steps": 12, "train.save_every": 4, "train.eval_every": 4}
    config = clearhead.Config().override(values)
    clearhead.train(config, tmp_path / "whole", say=lambda _: None)

    def fail(record: dict) -> None:
        if record["step"] == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        clearhead.train(config, tmp_path / "parts", say=lambda _: None, on_step=fail)
    clearhead.train(config, tmp_path / "parts", resume=True, say=lambda _: None)
    whole, parts = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "parts"))
    assert whole == parts


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("--model.topology=decoder-only", "model.topology"),
        ("--reverse", "--reverse"),
        ("--source-column=context", "--source-column"),
        ("--decode.alpha=2", "decode.alpha"),
        ("--train.best=bleu", "train.best"),
        ("--data.max_len=15", "data.max_len"),
    ],
)
def test_settings_that_do_not_fit_are_rejected(
    run: Run, questions: Path, tmp_path: Path, quick: None, setting: str, named: str
) -> None:
    tiny = [it for it in TINY if it.split("=")[0] != setting.split("=")[0]]
    done = run("train", questions, "--task", "answer", "--out", tmp_path / "model", *tiny, setting)
    assert done.code == 2 and named in done.err


def test_an_answer_is_explained_in_the_window_that_has_it(run: Run, answer_folder: Path, text: Path) -> None:
    app, question = clearhead.load(answer_folder, device="cpu"), "where does bob work ?"
    context = text.read_text("utf-8") * 8  # more than is read at once
    explanation = app.explain(question, context)
    result = app.results([question], context)[0]
    assert (explanation.answer, explanation.values["score"]) == (result.text, result.score)
    read = explanation.tokens["encoder"]
    assert len(read) <= 40 and explanation.places == ["encoder.self"]
    assert explanation.weights("encoder.self", 0).shape == (2, len(read), len(read))
    out = run("explain", answer_folder, question, "--context", text).out
    assert "  head   " in out and "encoder reads" in out
    done = run("explain", answer_folder, question * 9, "--context", text)
    assert done.code == 0 and "the text is too long for the model" in done.err
    for arguments in ([question], [question, "--context", text, "--why", "bob"]):
        done = run("explain", answer_folder, *arguments)
        assert (done.code, done.out) == (2, "")
    done = run("explain", answer_folder, " ", "--context", text)
    assert done.code == 1 and "question" in done.err


def test_uncertain_answers_are_marked(run: Run, answer_folder: Path, text: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(answer_folder, tmp_path / "model"))
    asked = ("answer", folder, "--context", text, WHERE, "--json")
    found = json.loads(run(*asked).out)
    assert 0.5 < found["confidence"] < 1  # measured on the validation data in training
    for shift, rejected in ((-1.0, False), (1.0, True)):
        certainty = [found["score"] + shift - 0.1] * 10 + [found["score"] + shift + 0.1] * 10
        known = {"measure": "f1", "certainty": certainty, "quality": [0.1] * 10 + [0.9] * 10, "total": 20}
        known["weights"] = weights_digest(folder)
        save_files(folder, model_files(confidence=known))
        again = json.loads(run(*asked, "--reject-below", "0.5").out)
        assert (again["rejected"], again["text"], again["confidence"] < 0.5) == (rejected, found["text"], rejected)
        assert run(*asked[:-1], "--reject-below", "0.5").out.startswith("?\n") == rejected


def test_no_answer_is_as_certain_as_it_is_ahead_of_the_best_passage() -> None:
    passage = Passage("Ann", 0, 3, -2.5)
    assert certainty([NOTHING, passage]) == 2.5
    assert certainty([replace(passage, score=1.5), NOTHING]) == 1.5
    assert certainty([NOTHING]) == 0.0
