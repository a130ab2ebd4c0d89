import csv
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clearhead
from clearhead.cli.verbs.tasks import text_to_text
from clearhead.folder.adapters import weights_digest
from clearhead.folder.model_folder import model_files, save_files

from ...conftest import Done, Run

HOSTILE = [
    b"I am hungry.",
    b"",
    b"   \t ",
    b"caf\xe9",
    b"\x00nul \x01\x1b[31m\x7f",
    b"a\x0bb\x0cc\xc2\x85d\xe2\x80\xa8e\rf",
    "🙂 \u202e\u200b é e\u0301 \ufeff \U0010ffff".encode(),
    b"x" * 5000,
    b"</s> <pad> <unk>",
    b"last",
]


def test_each_text_of_the_command_line_is_answered_on_a_line_as_in_python(run: Run, model_folder: Path) -> None:
    texts = ["I am hungry.", "She sings.", "two\nlines"]
    done = run("translate", model_folder, *texts)
    assert (done.code, done.err) == (0, "")
    assert done.out.split("\n") == [*clearhead.load(model_folder)(texts), ""]


def test_options_of_the_search_are_those_of_python(run: Run, model_folder: Path) -> None:
    app, text = clearhead.load(model_folder), "They sleep well."
    short = run("translate", model_folder, text, "--beam", 2, "--alpha=0", "--batch-tokens", 64, "--json")
    dotted = run("translate", model_folder, text, "--decode.beam=2", "--decode.alpha", "0", "--json")
    assert short.out == dotted.out
    assert json.loads(short.out)["score"] == pytest.approx(app.results([text], beam=2, alpha=0)[0].score, rel=1e-5)
    assert json.loads(short.out)["score"] != pytest.approx(app.results([text])[0].score)


def test_every_line_of_standard_input_gets_one_line_whatever_it_holds(pipe: Run, model_folder: Path) -> None:
    done = pipe(b"\n".join(HOSTILE), "translate", model_folder)
    assert done.code == 0
    assert len(done.out.removesuffix("\n").split("\n")) == len(HOSTILE)
    assert len(done.out.splitlines()) == len(HOSTILE)


def test_lines_are_answered_as_texts_are(pipe: Run, run: Run, model_folder: Path) -> None:
    texts = ["I am hungry.", "She sings.", "We are here."]
    lines = pipe("".join(f"{text}\r\n" for text in texts).encode(), "translate", model_folder)
    assert lines == run("translate", model_folder, *texts)
    assert pipe("\n".join(texts).encode(), "translate", model_folder, "-") == lines


def test_blank_lines_give_empty_lines(pipe: Run, model_folder: Path) -> None:
    done = pipe(b"\n  \nI am hungry.\n\n", "translate", model_folder)
    first, second, third, fourth, end = done.out.split("\n")
    assert (first, second, fourth, end) == ("", "", "", "") and third


def test_no_input_gives_no_output(pipe: Run, model_folder: Path) -> None:
    assert pipe(b"", "translate", model_folder) == Done(0, "", "")


def test_json_gives_a_record_a_line_with_the_input_as_it_was_understood(pipe: Run, model_folder: Path) -> None:
    done = pipe(b"\n".join(HOSTILE), "translate", model_folder, "--json")
    records = [json.loads(line) for line in done.out.splitlines()]
    plain = pipe(b"\n".join(HOSTILE), "translate", model_folder).out.split("\n")[:-1]
    assert [record["source"] for record in records] == [line.decode(errors="replace") for line in HOSTILE]
    assert [record["text"] for record in records] == plain
    keys = {"format_version", "source", "text", "score", "log_probability", "tokens", "logprobs", "alternatives"}
    assert set(records[0]) == keys | {"unknown", "long", "cut", "confidence", "words"}
    assert records[0]["score"] < 0 and records[1]["score"] == 0


def test_what_is_not_utf_8_is_reported_with_its_line(pipe: Run, model_folder: Path) -> None:
    done = pipe(b"good\ncaf\xe9\n", "translate", model_folder)
    assert done.err == "line 2 isn't UTF-8; bytes that can't be decoded are read as U+FFFD\n"
    assert len(done.out.splitlines()) == 2


def test_a_line_that_is_too_long_is_reported_and_answered(pipe: Run, model_folder: Path) -> None:
    done = pipe(b"short\n" + b"a " * 500 + b"\n", "translate", model_folder, "--json")
    record = json.loads(done.out.splitlines()[1])
    assert record["cut"] > 0 and record["text"]
    assert f"line 2 is too long for the model, which ignores the last {record['cut']} tokens" in done.err


def test_words_that_the_model_does_not_know_are_named_with_what_does_not_print_escaped(
    pipe: Run, word_model_folder: Path
) -> None:
    done = pipe(b"I am hungry.\nI am a zebra\x1b.\n", "translate", word_model_folder)
    assert (done.code, len(done.out.splitlines())) == (0, 2)
    assert done.err.endswith(': "a", "zebra", "\\x1b"\n')


def test_a_dash_among_texts_is_a_wrong_use(run: Run, model_folder: Path) -> None:
    done = run("translate", model_folder, "a", "-")
    assert done.code == 2 and "standard input" in done.err


def test_a_text_that_begins_with_a_dash_follows_two_dashes(run: Run, model_folder: Path) -> None:
    assert run("translate", model_folder, "--", "-x").out == clearhead.load(model_folder)("-x") + "\n"


@pytest.mark.parametrize("kind", ["device", "pipe", "stdout"])
def test_an_output_file_that_is_no_regular_file_is_refused_before_anything_is_written(
    run: Run, model_folder: Path, tmp_path: Path, kind: str
) -> None:
    os.mkfifo(tmp_path / "pipe")
    out = {"device": "/dev/null", "pipe": str(tmp_path / "pipe"), "stdout": "/dev/stdout"}[kind]
    done = run("translate", model_folder, "x", "--out", out)
    assert (done.code, done.out) == (2, "") and out in done.err
    assert not Path(f"{out}.progress").exists()


@pytest.mark.parametrize("option", ["--min-len", "--min-ratio"])
def test_a_minimum_length_beyond_the_models_positions_is_rejected(run: Run, model_folder: Path, option: str) -> None:
    done = run("translate", model_folder, "x", option, 10**9)
    assert (done.code, done.out) == (2, "") and "model.max_len" in done.err


def test_translating_without_a_folder_is_a_wrong_use(run: Run) -> None:
    for verb in (["translate"], ["evaluate", "--data", "x"]):
        done = run(*verb)
        assert done.code == 2 and "no model folder" in done.err


def test_a_wrong_setting_is_refused_before_the_weights_are_read(
    run: Run, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clearhead.loading.load_model_folder", None)
    for options, named in (
        (["--beam", "0"], "--beam 0"),
        (["--alpha", "much"], "'much'"),
        (["--threads=0"], "threads"),
    ):
        done = run("translate", model_folder, "x", *options)
        assert done.code == 2 and named in done.err


@pytest.fixture
def searching(model_folder: Path, tmp_path: Path) -> Callable[..., Path]:
    """`searching(beam=5)`: a model folder whose config.json holds these settings of the search."""

    def make(**decode: Any) -> Path:
        shutil.copytree(model_folder, tmp_path / "model")
        values = json.loads((tmp_path / "model" / "config.json").read_text())
        del values["format_version"]
        save_files(tmp_path / "model", model_files(config=values | {"decode": values["decode"] | decode}))
        return tmp_path / "model"

    return make


def test_the_search_that_a_model_has_stored_allows_what_the_defaults_would_not(
    run: Run, searching: Callable[..., Path]
) -> None:
    done = run("translate", searching(beam=5), "She sings.", "--n-best", "5", "--json")
    assert done.code == 0 and len(json.loads(done.out)["alternatives"]) == 4


def test_a_model_that_draws_takes_more_answers_than_beams_and_its_seed(
    run: Run, searching: Callable[..., Path]
) -> None:
    done = run("translate", searching(sample=True), "She sings.", "--n-best", "8", "--seed", "3", "--json")
    assert done.code == 0 and len(json.loads(done.out)["alternatives"]) == 7


@pytest.mark.parametrize(
    ("stored", "given", "named"),
    [
        ({"beam": 2}, ["--n-best", "3"], "--n-best 3"),
        ({"beam": 5, "n_best": 5}, ["--beam", "4"], "--beam 4"),
        ({"min_len": 9}, ["--max-len", "8"], "--max-len 8"),
        ({"sample": True}, ["--diverse", "--n-best", "2"], "--diverse"),
        ({"sample": True}, ["--beam", "2"], "--beam"),
    ],
)
def test_what_the_stored_search_contradicts_is_rejected_before_any_input_is_read(
    run: Run, searching: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, stored: dict, given: list, named: str
) -> None:
    monkeypatch.setattr("clearhead.cli.input_lines.read_groups", None)
    done = run("translate", searching(**stored), "--json", *given)
    assert (done.code, done.out) == (2, "") and named in done.err


def test_a_device_that_is_absent_is_rejected(run: Run, model_folder: Path) -> None:
    done = run("translate", model_folder, "x", "--device", "tpu")
    assert done.code == 2 and "tpu" in done.err


def test_a_closed_standard_input_is_a_wrong_use(run: Run, model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    done = run("translate", model_folder)
    assert done.code == 2 and "standard input is closed" in done.err


def test_a_person_at_a_terminal_is_told_what_to_do(
    run: Run, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    master, slave = os.openpty()
    os.write(master, b"I am hungry.\n\x04")
    with os.fdopen(slave) as terminal, os.fdopen(master), monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", terminal)
        done = run("translate", model_folder)
    assert (done.code, done.err) == (0, "type a sentence per line; end with Ctrl-D\n")
    assert done.out == clearhead.load(model_folder)("I am hungry.") + "\n"


def test_several_answers_are_json(run: Run, model_folder: Path) -> None:
    done = run("translate", model_folder, "She sings.", "--n-best", "3", "--json")
    values = json.loads(done.out)
    assert values["format_version"] == 1 and len(values["alternatives"]) == 2
    assert {"text", "score", "tokens", "logprobs"} <= values["alternatives"][0].keys() <= values.keys()
    done = run("translate", model_folder, "She sings.", "--n-best", "3")
    assert (done.code, done.out) == (2, "") and "--json" in done.err


@pytest.mark.parametrize("stored", [{"n_best": 3}, {"n_best": 3, "diverse": True}, {"n_best": 3, "sample": True}])
def test_a_model_that_stores_several_answers_gives_one_where_there_is_room_for_one(
    run: Run, searching: Callable[..., Path], stored: dict
) -> None:
    folder = searching(**stored)
    for more in ([], ["--stream"]):
        done = run("translate", folder, "She sings.", "We are here.", *more)
        assert (done.code, len(done.out.splitlines()), done.err) == (0, 2, "")
    assert len(json.loads(run("translate", folder, "She sings.", "--json").out)["alternatives"]) == 2


def test_one_hypothesis_is_enough_for_one_answer_whatever_the_model_stores(
    run: Run, searching: Callable[..., Path], tmp_path: Path
) -> None:
    folder, pairs = searching(n_best=3), tmp_path / "pairs.tsv"
    pairs.write_text("She sings.\tElle chante.\n", encoding="utf-8")
    calls = [("translate", folder, "I"), ("translate", folder, "I", "--stream"), ("explain", folder, "I")]
    for call in (*calls, ("evaluate", folder, "--data", pairs)):
        assert run(*call, "--beam", "1").code == 0
    assert json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))["decode"]["n_best"] == 1


def test_no_output_is_longer_than_asked_for_and_each_comes_to_its_end(run: Run, model_folder: Path) -> None:
    for options in (["--max-len", "1"], ["--max-ratio", "0.01"], ["--max-len", "1", "--n-best", "3", "--diverse"]):
        values = json.loads(run("translate", model_folder, "She sings.", "--json", *options).out)
        for answer in (values, *values["alternatives"]):
            assert (len(answer["tokens"]), len(answer["logprobs"])) == (1, 2)
    ratios = ["--min-ratio", "30", "--max-ratio", "1e308"]
    values = json.loads(run("translate", model_folder, "She sings.", "--json", *ratios).out)
    assert len(values["tokens"]) in (39, 40), "the model's own positions"


def test_pieces_are_written_one_line_a_text(run: Run, model_folder: Path) -> None:
    texts = ["She sings.", "I", " "]
    streamed = run("translate", model_folder, *texts, "--stream")
    assert (streamed.code, streamed.out) == (0, run("translate", model_folder, *texts, "--beam", "1").out)
    done = run("translate", model_folder, "I", "--stream", "--json")
    assert done.code == 2 and "--stream" in done.err
    done = run("translate", model_folder, "I", "--stream", "--beam", "4")
    assert done.code == 2 and "--beam 4" in done.err


def test_what_could_not_be_read_is_said_of_streamed_lines_too(
    pipe: Run, run: Run, model_folder: Path, word_model_folder: Path
) -> None:
    lines = b"I am a zebra.\n\ncaf\xe9\n" + b"I " * 100 + b"\n"
    for folder in (model_folder, word_model_folder):
        streamed = pipe(lines, "translate", folder, "--stream")
        whole = pipe(lines, "translate", folder, "--beam", "1")
        assert streamed == whole
        assert "line 3 isn't UTF-8" in streamed.err and "line 4 is too long" in streamed.err
    assert '"a", "zebra"' in streamed.err
    assert run("translate", word_model_folder, "zebra", "--stream").err.startswith("text 1 has words")


def test_settings_of_sampling_without_it_and_of_the_beam_beside_it_are_refused(run: Run, model_folder: Path) -> None:
    for option, value in (("--temperature", 2), ("--top-k", 5), ("--top-p", 0.5), ("--min-p", 0.1), ("--seed", 7)):
        done = run("translate", model_folder, "I", option, value)
        assert (done.code, done.out) == (2, "") and f"{option} {value}" in done.err and "--sample" in done.err
        assert run("translate", model_folder, "I", option, value, "--sample").code == 0
    done = run("translate", model_folder, "I", "--sample", "--beam", "4")
    assert done.code == 2 and done.err.startswith("error: --beam can't be combined with --sample\n")
    assert "leave one of them out" in done.err


def test_an_error_names_the_option_that_was_typed_and_a_setting_that_was_not(
    run: Run, searching: Callable[..., Path], tmp_path: Path
) -> None:
    folder, file = searching(beam=2), tmp_path / "beam.toml"
    for typed, named in ((["--decode.n_best=3"], "--decode.n_best 3"), (["--n-best", "3"], "--n-best 3")):
        done = run("translate", folder, "I", *typed)
        assert done.code == 2 and done.err.startswith(f"error: {named} is larger than --beam 2\n")
        assert done.err.endswith("increase --beam, or set --sample\n")
    file.write_text("[decode]\nbeam = 0\n", encoding="utf-8")
    done = run("train", "pairs.tsv", "--out", tmp_path / "model", "--config", file)
    assert done.code == 2 and "decode.beam=0 is out of range" in done.err


def test_a_text_that_an_option_swallows_is_missed_before_standard_input_is_read(
    run: Run, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clearhead.cli.input_lines.read_groups", None)
    done = run("translate", model_folder, "--suppress", "e", "I am hungry.")
    assert (done.code, done.out) == (2, "")
    assert "'I am hungry.'" in done.err and "before --suppress" in done.err
    done = run("translate", model_folder, "I", "--suppress", "no token")
    assert done.code == 1 and "before --suppress" not in done.err
    done = run("translate", "--suppress", "e", model_folder, "I am hungry.")
    assert done.code == 2 and "before options" in done.err


def test_a_flag_alone_says_yes_and_the_setting_takes_a_value(run: Run, model_folder: Path) -> None:
    drawn = run("translate", model_folder, "She sings.", "--sample", "--seed", "7").out
    assert drawn == run("translate", model_folder, "She sings.", "--decode.sample=true", "--decode.seed=7").out
    assert drawn != run("translate", model_folder, "She sings.", "--decode.sample=false").out


def test_every_translation_begins_with_the_prefix(run: Run, model_folder: Path) -> None:
    assert run("translate", model_folder, "She sings.", "--prefix", "Elle").out.startswith("Elle")


@pytest.mark.parametrize(
    ("decode", "compares", "rival"),
    [
        ({"beam": 2, "prefix": ""}, True, "torch"),
        ({}, False, ""),  # for --json, since scores may differ in their last digits
        ({"engine": "torch"}, True, ""),
        ({"precision": "int8"}, True, ""),  # engines round differently
    ],
)
def test_the_engine_of_many_lines_changes_only_if_their_answers_do_not(
    decode: dict[str, Any], compares: bool, rival: str, model_folder: Path
) -> None:
    app = clearhead.load(model_folder)
    engines = text_to_text._engines(app, decode, compares=compares)
    assert engines.rival == rival
    engines.sample(lambda _: [], [])
    assert decode["engine"] == engines.in_use  # a worker opens no other one
    chosen, before = engines.in_use, app.brief_results(["I am hungry."], **decode)
    if rival:
        engines._open("packed")
        assert (chosen, decode["engine"], engines.in_use) == ("torch", "packed", "packed")
        assert app.brief_results(["I am hungry."], **decode) == before


@pytest.mark.parametrize("kind", ["text", "json", "table"])
def test_uncertain_translations_are_marked(run: Run, folder: Path, tmp_path: Path, kind: str) -> None:
    texts = ["She sings.", "The cat is black and sleeps."]
    certainty = [it.log_probability / len(it.logprobs) for it in clearhead.load(folder).results(texts)]
    middle, half = sum(certainty) / 2, abs(certainty[0] - certainty[1]) / 4
    assert half > 0
    known = {
        "measure": "chrf",
        "total": 20,
        "weights": weights_digest(folder),
        "certainty": [middle - half] * 10 + [middle + half] * 10,
        "quality": [0.1] * 10 + [0.9] * 10,
    }
    save_files(folder, model_files(confidence=known))
    expected = [it > middle for it in certainty]
    if kind == "table":
        (tmp_path / "in.csv").write_text("".join(f'"{it}"\n' for it in ["text", *texts]), encoding="utf-8")
        done = run("translate", folder, "--data", tmp_path / "in.csv", "--error-rate", "20%")
        rows = list(csv.DictReader(done.out.splitlines()))
        assert [it["translation"] != "?" for it in rows] == expected
        assert [float(it["confidence"]) > 0.8 for it in rows] == expected
        return
    done = run("translate", folder, *texts, "--error-rate", "20%", *["--json"] * (kind == "json"))
    lines = done.out.splitlines()
    if kind == "json":
        assert [not json.loads(it)["rejected"] for it in lines] == expected
        assert all(json.loads(it)["text"] != "?" for it in lines)
    else:
        assert [it != "?" for it in lines] == expected


def test_pieces_cannot_be_rejected(run: Run, model_folder: Path) -> None:
    done = run("translate", model_folder, "She sings.", "--stream", "--reject-below", "0.5")
    assert done.code == 2 and "--stream" in done.err
