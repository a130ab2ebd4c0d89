"""Tables through every verb that answers texts or files."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

import clearhead
from tests.builders import make_encoder_folder, save_untrained, write_wave
from tests.serving.small_models import make

from ...conftest import Run


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "in.csv"
    path.write_text('id,text\n1,"She sings, late."\n2,\n3,We are here.\n', encoding="utf-8")
    return path


def test_translations(run: Run, model_folder: Path, table: Path) -> None:
    out = table.with_name("out.csv")
    options = ["--beam", "2", "--max-len", "3", "--prefix", "Elle"]
    assert run("translate", model_folder, "--data", table, "--out", out, *options).code == 0
    app = clearhead.load(model_folder)
    expected = app(["She sings, late.", "We are here."], beam=2, max_len=3, prefix="Elle")
    assert [row["translation"] for row in rows_of(out.read_text(encoding="utf-8"))] == [expected[0], "", expected[1]]


def test_the_column_that_a_model_of_the_other_direction_reads(run: Run, model_folder: Path, tmp_path: Path) -> None:
    made = clearhead.load(model_folder)
    folder = save_untrained(tmp_path / "model", made.config.override({"data.reverse": True}), made.tokenizers)
    table = tmp_path / "in.csv"
    table.write_text("en,fr\nShe sings.,Elle chante.\n", encoding="utf-8")
    for options, column in (([], "fr"), (["--text", "en"], "en"), (["--text", "fr"], "fr")):
        assert f"reads {column}; " in run("translate", folder, "--data", table, *options).err


def test_answers_to_questions_about_the_texts_of_their_rows(run: Run, answer_folder: Path, tmp_path: Path) -> None:
    rows = [
        ("Who was there?", "Ann and ten owls and Rome and June."), ("When was it?", "Bob and Oslo and May."),
        ("Where was it?", "Bob and Oslo and May."), ("Who was there?", ""), ("", "Ann"),
    ]  # fmt: skip
    path = tmp_path / "in.jsonl"
    path.write_text(
        "".join(f"{json.dumps({'q': q, 'context': c, 'question': q})}\n" for q, c in rows), encoding="utf-8"
    )
    app = clearhead.load(answer_folder)
    expected = [app(question, context) if question and context else None for question, context in rows]
    for text in ([], ["--text", "q,context"]):
        done = run("answer", answer_folder, "--data", path, *text)
        assert [json.loads(line)["answer"] for line in done.out.splitlines()] == expected
    assert "2 of 5 rows have no text" in done.err
    assert run("answer", answer_folder, "--data", path, "--text", "q").code == 1
    path.write_text('{"question": "Who?", "text": "Ann"}\n', encoding="utf-8")
    done = run("answer", answer_folder, "--data", path)
    assert done.code == 1 and "question and context" in done.err and "--text question,context" in done.err
    assert run("answer", answer_folder, "--data", path, "--context", path).code == 2


def test_continuations(run: Run, table: Path, tmp_path: Path) -> None:
    app = clearhead.load(make(tmp_path / "model", "generate"))
    done = run("generate", app.path, "--data", table, "--chars", "5", "--decode.unknown", "unk")
    expected = [it.text for it in app.results(["She sings, late.", "We are here."], chars=5, unknown="unk")]
    assert [row["continuation"] for row in rows_of(done.out)] == [expected[0], "", expected[1]]


def test_filled_masks_and_the_line_of_a_text_without_one(run: Run, table: Path, tmp_path: Path) -> None:
    app = clearhead.load(make_encoder_folder(tmp_path / "model", task="fill"))
    table.write_text("id,text\n1,She [MASK].\n2,We are [MASK].\n", encoding="utf-8")
    done = run("fill", app.path, "--data", table)
    assert [row["filled"] for row in rows_of(done.out)] == app(["She [MASK].", "We are [MASK]."])
    table.write_text("id,text\n1,She [MASK].\n2,We are here.\n", encoding="utf-8")
    done = run("fill", app.path, "--data", table, "--out", table.with_name("out.csv"))
    assert done.code == 1 and "line 3: " in done.err and not table.with_name("out.csv").exists()
    assert run("fill", app.path, "--data", table, "--top", "2").code == 2


def test_vectors(run: Run, table: Path, tmp_path: Path) -> None:
    app = clearhead.load(make_encoder_folder(tmp_path / "model", task="embed"))
    out = table.with_name("out.csv")
    assert run("embed", app.path, "--data", table, "--out", out, "--normalize").code == 0
    found = [row["vector"] for row in rows_of(out.read_text(encoding="utf-8"))]
    expected = app.embed(["She sings, late.", "We are here."], normalize=True)
    np.testing.assert_array_equal(np.float32([json.loads(found[0]), json.loads(found[2])]), expected)
    assert found[1] == ""
    done = run("embed", app.path, "a text", "--out", out)
    assert done.code == 2 and ".npy" in done.err


def test_files_relative_to_their_table_and_one_that_cannot_be_read(run: Run, tmp_path: Path) -> None:
    app = clearhead.load(make(tmp_path / "model", "transcribe"))
    (tmp_path / "calls").mkdir()
    for name in ("a.wav", "b.wav"):
        write_wave(tmp_path / "calls" / name, np.sin(np.arange(400) * (1 + len(name))), rate=1000)
    (tmp_path / "calls" / "bad.wav").write_bytes(b"none")
    table = tmp_path / "calls" / "in.csv"
    table.write_text(f"path,n\na.wav,1\nbad.wav,2\n,3\nb.wav,4\n{'x' * 300},5\n", encoding="utf-8")
    done = run("transcribe", app.path, "--data", table, "--out", tmp_path / "out.csv")
    expected = app([str(tmp_path / "calls" / name) for name in ("a.wav", "b.wav")])
    assert done.code == 1 and "line 3: " in done.err and "2 of 5 recordings can't be read" in done.err
    rows = rows_of((tmp_path / "out.csv").read_text(encoding="utf-8"))
    assert [row["transcript"] for row in rows] == [expected[0], "", "", expected[1], ""]


@pytest.mark.parametrize("options", [["--out", "x.csv"], ["--workers", "2"], ["--resume"]])
def test_a_verb_without_output_files_has_them_for_tables_alone(run: Run, tmp_path: Path, options: list[str]) -> None:
    folder = make(tmp_path / "model", "generate")
    done = run("generate", folder, "a text", *options)
    assert done.code == 2 and f"{options[0]} is for tables" in done.err


def test_predictions_keep_the_line_of_each_file_and_that_of_one_that_cannot_be_read(run: Run, tmp_path: Path) -> None:
    app, out = clearhead.load(make(tmp_path / "model", "transcribe")), tmp_path / "out.csv"
    for name in ("a.wav", "b.wav"):
        write_wave(tmp_path / name, np.sin(np.arange(400) * (1 + len(name))), rate=1000)
    (tmp_path / "bad.wav").write_bytes(b"none")
    (tmp_path / "in.tsv").write_text("path\ttext\na.wav\tshe\nbad.wav\twe\nb.wav\tshe\n", encoding="utf-8")
    assert run("evaluate", app.path, "--data", tmp_path / "in.tsv", "--predictions", out).code == 0
    rows = rows_of(out.read_text(encoding="utf-8"))
    assert [(row["line"], Path(row["source"]).name) for row in rows] == [
        ("2", "a.wav"),
        ("3", "bad.wav"),
        ("4", "b.wav"),
    ]
    assert [row["prediction"] for row in rows] == [app(rows[0]["source"]), "", app(rows[2]["source"])]
    assert rows[1]["gold"] == "we" and rows[1]["cer"] == "" != rows[0]["cer"]
