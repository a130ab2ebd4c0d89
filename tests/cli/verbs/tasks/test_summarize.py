"""Documents and summaries through the command line, from training to use, with a model of a second."""

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import clearhead
from clearhead.config import Config
from clearhead.readers.column_roles import SUMMARIES
from clearhead.readers.pairs import read_pairs
from clearhead.scoring.summary_scores import first, longest, summary_scores

from ...conftest import Run

TINY = [
    "--model.d_model=16", "--model.n_heads=2", "--model.d_ff=24", "--model.n_encoder_layers=1", "--threads=1",
    "--model.n_decoder_layers=1", "--train.precision=fp32", "--data.tokenizer=word", "--train.steps=4",
    "--train.eval_every=2", "--train.save_every=2", "--data.max_len=20", "--split=0.1", "--decode.max_extra=4",
]  # fmt: skip
SETTINGS = {key.removeprefix("--"): value for key, value in (option.split("=") for option in TINY)}
SETTINGS |= {"train.threads": SETTINGS.pop("threads"), "data.split": SETTINGS.pop("split")}


def records(n: int = 40) -> list[dict[str, str]]:
    """Dialogues of four turns, and the one that is marked."""
    rng, found = random.Random(0), []
    for _ in range(n):
        turns = [" ".join(rng.choices(["red", "blue", "green", "big", "small", "old"], k=3)) for _ in range(4)]
        marked = rng.randrange(4)
        dialogue = "\n".join(f"{'so ' * (place == marked)}{turn}." for place, turn in enumerate(turns))
        found.append({"dialogue": dialogue, "summary": f"{turns[marked]}."})
    return found


def write(path: Path, some: list[dict[str, str]]) -> Path:
    path.write_text("".join(f"{json.dumps(it)}\n" for it in some), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("data") / "dialogues.jsonl", records())


@pytest.fixture(scope="module", autouse=True)
def _the_process_stays_as_it_is() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clearhead.training.run.keep_freed_memory", lambda: True)
        yield


@pytest.fixture(scope="module")
def config(data: Path) -> Config:
    return Config().override({**SETTINGS, "data.train": [str(data)], "train.task": "summarize"})


@pytest.fixture(scope="module")
def trained(config: Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not to be written to."""
    return clearhead.train(config, tmp_path_factory.mktemp("models") / "minutes", say=lambda _: None)


@pytest.fixture
def model(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "model"))


def test_training_says_the_scores_beside_those_of_no_model_and_goes_on_where_it_ended(
    run: Run, data: Path, tmp_path: Path
) -> None:
    out, test = tmp_path / "out", write(tmp_path / "test.jsonl", records(6))
    valid = write(tmp_path / "valid.jsonl", records(5))
    given = [data, "--valid", valid, "--test", test, "--train.best=rougeL", *TINY]
    given.remove("--split=0.1")
    done = run("train", *given, "--out", out)
    assert done.code == 0, done.err
    assert "task: summarize, because there are columns named dialogue and summary" in done.err
    assert "step 4: rouge1" in done.err and "test: ROUGE-1" in done.err and "(6 documents, step" in done.err
    read = read_pairs([test], roles=SUMMARIES)
    for name, make in (("first", first), ("longest", longest)):
        scores = summary_scores([make(text, 3) for text in read.sources], [[it] for it in read.targets])
        assert f"\n  the {name} 3 sentences or turns: ROUGE-1 {100 * scores.rouge_1.f1.mean:.2f}  ROUGE-2" in done.err
    assert done.err.endswith(f'use it: clearhead summarize {out} "a document"\n')
    card = (out / "README.md").read_text(encoding="utf-8")
    assert card.startswith("# A summarization model") and "40 documents with summaries from" in card
    assert "| on | documents | ROUGE-1 | ROUGE-2 | ROUGE-L |" in card
    assert "\n| test, the first 3 sentences or turns | 6 |" in card
    assert "is complete: it was trained to step 4" in run("train", *given, "--out", out, "--resume").err
    said = json.loads(run("info", out, "--json").out)
    assert said["settings"]["train"]["task"] == "summarize" and "rougeL" in said["validation"]
    assert "ROUGE-L" in run("info", out).out


def test_a_run_that_was_stopped_goes_on_to_the_same_weights(config: Config, trained: Path, tmp_path: Path) -> None:
    class StoppedHereError(Exception):
        pass

    def stop(record: dict[str, Any]) -> None:
        if record["step"] == 3:
            raise StoppedHereError

    with pytest.raises(StoppedHereError):
        clearhead.train(config, tmp_path / "out", on_step=stop, say=lambda _: None)
    out = clearhead.train(config, tmp_path / "out", resume=True, say=lambda _: None)
    assert (out / "model.safetensors").read_bytes() == (trained / "model.safetensors").read_bytes()


def test_long_documents_are_counted_where_they_are_cut(run: Run, data: Path, tmp_path: Path) -> None:
    given = ["--task", "summarize", *TINY, "--data.max_len=12", "--train.steps=1"]
    done = run("train", data, *given, "--out", tmp_path / "out")
    assert done.code == 0, done.err
    assert ": documents longer than 12 tokens (data.max_len); only the beginning is read\n" in done.err
    assert "not trained on" not in done.err and "tokens: 36 documents" in done.err
    short = run("train", data, *given, "--data.max_len=3", "--out", tmp_path / "other")
    assert short.code == 1 and "data.max_len" in short.err


@pytest.fixture
def documents() -> list[str]:
    return [it["dialogue"] for it in records(3)]


def test_a_text_a_line_and_a_file_is_a_document_each(
    run: Run, pipe: Run, trained: Path, documents: list[str], tmp_path: Path
) -> None:
    expected = "".join(f"{text}\n" for text in clearhead.load(trained, device="cpu")(documents))
    assert run("summarize", trained, *documents).out == expected
    files = [tmp_path / f"{number}.txt" for number in range(3)]
    for path, text in zip(files, documents):
        path.write_text(text + "\n", encoding="utf-8")
    assert run("summarize", trained, "--file", *files).out == expected
    assert run("summarize", trained, *(it for file in files for it in ("--file", file))).out == expected
    assert run("summarize", trained, documents[0], "--file", *files[1:]).out == expected
    lines = "".join(" ".join(text.split()) + "\n" for text in documents).encode()
    for arguments in ([], ["-"]):
        assert pipe(lines, "summarize", trained, *arguments).out == expected
    done = pipe(files[0].read_bytes(), "summarize", trained, "--file", "-")
    assert done.out == expected.splitlines(keepends=True)[0]


def test_json_has_what_python_gives(run: Run, trained: Path, documents: list[str]) -> None:
    done = run("summarize", trained, *documents, "--json", "--n-best", "2", "--beam", "2")
    results = clearhead.load(trained, device="cpu").results(documents, n_best=2, beam=2)
    for line, result in zip(done.out.splitlines(), results, strict=True):
        values = json.loads(line)
        assert values["format_version"] == 1 and values["source"] == result.source
        assert (values["text"], len(values["alternatives"])) == (result.text, len(result.alternatives))


def test_a_document_longer_than_those_of_training_is_read_to_its_cut_and_that_is_said(run: Run, trained: Path) -> None:
    done = run("summarize", trained, "red. " * 30)
    assert done.code == 0 and "text 1 is too long for the model, which ignores the last 40 tokens" in done.err
    assert done.out == run("summarize", trained, "red. " * 10).out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--file", "absent.txt"], 1, "absent.txt"),
        (["-", "--file", "a.txt"], 2, "standard input"),
        (["-", "a"], 2, "standard input"),
        (["a", "--stream", "--json"], 2, "--stream"),
        (["a", "--max-len", "0"], 2, "--max-len 0"),
    ],
)
def test_what_cannot_be_is_refused(run: Run, trained: Path, arguments: list[str], code: int, message: str) -> None:
    done = run("summarize", trained, *arguments)
    assert (done.code, done.out) == (code, "") and message in done.err


def test_a_verb_for_another_task_names_the_right_one(run: Run, trained: Path, model_folder: Path) -> None:
    done = run("translate", trained, "a")
    assert done.code == 1 and str(trained) in done.err
    assert f'clearhead summarize {trained} "a document"' in done.err
    done = run("summarize", model_folder, "a")
    assert done.code == 1 and "clearhead translate" in done.err


def test_evaluation_has_rouge_with_intervals_beside_no_model_and_is_kept(run: Run, model: Path, data: Path) -> None:
    values: dict[str, Any] = json.loads(run("evaluate", model, "--data", data, "--json").out)
    assert values == json.loads((model / "evaluation.json").read_text(encoding="utf-8"))
    low, high = values["rouge1_interval"]
    assert values["documents"] == 40 and low <= values["rouge1"] <= high
    assert set(values["baselines"]) == {"first_3", "longest_3"} and values["baselines"]["first_3"]["rouge1"] > 20
    text = run("evaluate", model, "--data", data, "--report", model / "page.txt").out
    assert f"95%: {low:.2f} to {high:.2f}\n" in text
    beside = f"the first 3 sentences or turns: ROUGE-1 {values['baselines']['first_3']['rouge1']:.2f}  ROUGE-2"
    page = (model / "page.txt").read_text(encoding="utf-8")
    assert beside in text and beside in page and "ROUGE-1" in run("info", model).out
    shown = " ".join(values["examples"][0]["source"].split())
    assert f"source          {shown}\n" in text and shown in page  # a document of several lines on one


def test_two_models_are_compared(run: Run, model: Path, trained: Path, data: Path, tmp_path: Path) -> None:
    values = json.loads(run("evaluate", model, model, "--data", data, "--json").out)
    assert [it["p_value"] for it in values["significance"]["rouge2"]] == [None, 1.0]
    text = run("evaluate", model, model, "--data", data).out
    rows = text.splitlines()
    assert [row.split() for row in rows[:9:3]] == [[f"ROUGE-{it}", "95%", "p"] for it in "12L"], "80 columns hold two"
    assert all(len(row) - len(str(model)) < 50 for row in rows[:9])
    assert "the longest 3 sentences or turns: ROUGE-1" in text


def test_further_references_are_those_of_the_documents(run: Run, model: Path, data: Path, tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text("".join(f"{it['summary']} too\n" for it in records()), encoding="utf-8")
    done = run("evaluate", model, "--data", data, "--references", tmp_path / "more.txt", "--json")
    assert done.code == 0, done.err
    assert [len(it["references"]) for it in json.loads(done.out)["examples"]] == [2] * 10


def test_summaries_of_others_are_scored_and_attention_is_explained(run: Run, model: Path, data: Path) -> None:
    done = run("score", model, data)
    assert done.code == 0 and len(done.out.splitlines()) == 40
    shown = run("explain", model, "red blue green.")
    assert shown.code == 0 and "blue" in shown.out
    refused = run("explain", model, "red. " * 30)
    assert refused.code == 1 and "60 tokens" in refused.err
    long = write(model / "long.jsonl", [{"dialogue": "red. " * 30, "summary": "red."}, *records(2)])
    done = run("score", model, long)
    assert len(done.out.splitlines()) == 3 and "1 document too long for the model: only the beginning" in done.err
