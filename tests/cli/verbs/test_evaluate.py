import dataclasses
import errno
import json
import os
import shutil
import subprocess
import sys
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

import pytest

import clearhead
from clearhead.cli.output import new_file
from clearhead.folder.atomic import FolderLock

from ..conftest import Run

PAIRS = "I am hungry.\tJ'ai faim.\nShe sings.\tElle chante.\nI am hungry.\tJe suis affamé.\n"


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    path.write_text(PAIRS, encoding="utf-8")
    return path


def test_json_is_what_python_gives_and_what_the_folder_keeps(run: Run, folder: Path, pairs: Path) -> None:
    done = run("evaluate", folder, "--data", pairs, "--json", "--beam", "1")
    assert done.code == 0
    assert len(done.out.splitlines()) == 1
    values = json.loads(done.out)
    assert values == clearhead.load(folder).evaluate(clearhead.read_pairs([pairs]), beam=1).to_dict()
    assert values == json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))
    assert values["format_version"] == 1
    assert values["sentences"] == 2 and len(values["examples"][0]["references"]) == 2
    assert set(values["decode"]) == {field.name for field in dataclasses.fields(clearhead.DecodeConfig)}
    clearhead.load(folder)  # its manifest is still true


def test_people_get_scores_with_their_signatures_and_examples(run: Run, folder: Path, pairs: Path) -> None:
    values = json.loads(run("evaluate", folder, "--data", pairs, "--json").out)
    text = run("evaluate", folder, "--data", pairs).out
    for number in (f"{values['bleu']:.2f}", f"{values['perplexity']:.2f}", f"{values['token_accuracy']:.4f}"):
        assert number in text
    assert values["bleu_signature"] in text and values["chrf_signature"] in text
    assert "source          I am hungry.\n" in text
    assert f"translation     {values['examples'][0]['translation']}\n" in text
    assert "reference       J'ai faim.\nreference       Je suis affamé.\n" in text


def test_what_was_read_and_written_is_said_beside_the_scores(run: Run, folder: Path, pairs: Path) -> None:
    done = run("evaluate", folder, "--data", pairs)
    assert done.err == (
        f"{pairs}: TSV, two columns, no header; 3 of 3 lines used\nwrote {folder / 'evaluation.json'}\n"
    )


def test_scores_of_other_data_are_replaced_with_a_word_about_it_or_not_at_all(
    run: Run, folder: Path, pairs: Path, tmp_path: Path
) -> None:
    other, kept = tmp_path / "other.tsv", folder / "evaluation.json"
    other.write_text("She sings.\tElle chante.\n", encoding="utf-8")
    kept.unlink(missing_ok=True)
    done = run("evaluate", folder, "--data", pairs, "--no-save")
    assert done.code == 0 and "BLEU" in done.out and "evaluation.json" not in done.err and not kept.exists()
    run("evaluate", folder, "--data", pairs)
    assert "in place of" not in run("evaluate", folder, "--data", pairs).err
    before = kept.read_bytes()
    assert run("evaluate", folder, "--data", other, "--no-save").code == 0 and kept.read_bytes() == before
    assert f"wrote {kept}, in place of the scores on {pairs}\n" in run("evaluate", folder, "--data", other).err


def test_two_line_aligned_files_are_pairs(run: Run, folder: Path, pairs: Path, tmp_path: Path) -> None:
    sources, targets = zip(*(line.split("\t") for line in PAIRS.splitlines()))
    (tmp_path / "a.en").write_text("\n".join(sources), encoding="utf-8")
    (tmp_path / "a.fr").write_text("\n".join(targets), encoding="utf-8")
    aligned = run("evaluate", folder, "--data", tmp_path / "a.en", tmp_path / "a.fr", "--json")
    one, other = json.loads(aligned.out), json.loads(run("evaluate", folder, "--data", pairs, "--json").out)
    assert one.pop("data") == [str(tmp_path / "a.en"), str(tmp_path / "a.fr")] and other.pop("data") == [str(pairs)]
    assert one == other


def test_sources_that_are_cut_are_counted_and_said(run: Run, folder: Path, tmp_path: Path) -> None:
    long = " ".join(["hungry"] * 40)
    data = tmp_path / "long.tsv"
    data.write_text(PAIRS + f"{long}\tx\n{long}\ty\n{long} too\tz\nI\t{long}\n", encoding="utf-8")
    done = run("evaluate", folder, "--data", data, "--json")
    values = json.loads(done.out)
    assert (values["sentences"], values["too_long"], values["cut"]) == (5, 4, 2)
    said = "2 sentences too long for the model: only the beginning is read"
    assert f"{folder}: {said}" in done.err
    run("evaluate", folder, "--data", data, "--report", tmp_path / "report.txt")
    assert said in (tmp_path / "report.txt").read_text(encoding="utf-8")
    data.write_text(PAIRS, encoding="utf-8")
    assert "too long for the model" not in run("evaluate", folder, "--data", data).err


def test_a_number_that_is_none_is_null_in_the_folder_too(run: Run, folder: Path, pairs: Path) -> None:
    from clearhead.folder.model_folder import load_model_folder, model_files, save_files

    weights = load_model_folder(folder).weights
    sure = {name: 1e4 * weight if "embedding" in name else weight for name, weight in weights.items()}
    save_files(folder, model_files(weights=sure))
    done = run("evaluate", folder, "--data", pairs, "--json")
    values = json.loads(done.out)
    assert values["perplexity"] is None
    assert json.loads((folder / "evaluation.json").read_text(), parse_constant=pytest.fail) == values


def test_of_several_models_the_one_that_refuses_is_named(run: Run, folder: Path, pairs: Path, tmp_path: Path) -> None:
    from clearhead.folder.model_folder import model_files, save_files

    other = Path(shutil.copytree(folder, tmp_path / "other"))
    values = json.loads((other / "config.json").read_text())
    del values["format_version"]
    save_files(other, model_files(config=values | {"decode": values["decode"] | {"sample": True}}))
    done = run("evaluate", folder, other, "--data", pairs, "--beam", "2")
    assert done.code == 2 and f"error: {other}: --beam 2 would have no effect" in done.err
    narrow = run("evaluate", folder, folder, "--data", pairs, "--n-best", "9")
    assert narrow.code == 2 and f"error: {folder}: " in narrow.err and "--n-best 9" in narrow.err


def test_a_folder_that_cannot_be_written_to_loses_the_file_but_not_the_scores(
    run: Run, folder: Path, pairs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: Any, **_named: Any) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(FolderLock, "__init__", refuse)
    done = run("evaluate", folder, "--data", pairs, "--json")
    assert (done.code, json.loads(done.out)["sentences"]) == (0, 2)
    assert "the scores weren't stored in the model folder: " in done.err and "Read-only file system" in done.err


def test_a_folder_in_use_loses_the_file_but_not_the_scores(run: Run, folder: Path, pairs: Path) -> None:
    lock = FolderLock(folder, say=print)
    done = run("evaluate", folder, "--data", pairs, "--json")
    lock.release()
    assert (done.code, json.loads(done.out)["sentences"]) == (0, 2)
    assert f"the scores weren't stored in the model folder: {folder}" in done.err


def test_evaluating_without_data_is_a_wrong_use(run: Run, folder: Path) -> None:
    done = run("evaluate", folder)
    assert done.code == 2 and "--data" in done.err


def test_data_that_cannot_be_used_is_a_failure(run: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.tsv").write_text("no tab here\n")
    done = run("evaluate", folder, "--data", tmp_path / "bad.tsv")
    assert (done.code, done.out) == (1, "")
    assert str(tmp_path / "bad.tsv") in done.err


def test_several_models_are_compared_with_the_first(
    run: Run, folder: Path, word_model_folder: Path, pairs: Path, tmp_path: Path
) -> None:
    other = Path(shutil.copytree(word_model_folder, tmp_path / "other"))
    done = run("evaluate", folder, other, "--data", pairs, "--beam", "1")
    rows = done.out.splitlines()
    assert done.code == 0 and rows[0].split() == ["BLEU", "95%", "p", "chrF", "95%", "p"]
    assert [row.split()[0] for row in rows[1:3]] == [str(folder), str(other)]
    assert rows[3].startswith("p: two-tailed")
    values = json.loads(run("evaluate", folder, other, "--data", pairs, "--beam", "1", "--json").out)
    assert [model["model"] for model in values["models"]] == [str(folder), str(other)]
    assert [it["score"] for it in values["significance"]["bleu"]] == [model["bleu"] for model in values["models"]]


def test_a_report_has_the_best_the_worst_and_the_most_typical_lines(
    run: Run, folder: Path, pairs: Path, tmp_path: Path
) -> None:
    done = run("evaluate", folder, "--data", pairs, "--report", tmp_path / "report.txt")
    assert done.code == 0 and f"wrote {tmp_path / 'report.txt'}" in done.err
    text = (tmp_path / "report.txt").read_text(encoding="utf-8")
    assert all(f"\nThe {title}\n" in text for title in ("best", "worst", "most typical"))
    assert run("evaluate", folder, "--data", pairs, "--report", tmp_path / "report.json").code == 0
    values = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    lines = values.pop("lines")
    assert values == json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))
    assert f"\ntoken accuracy {values['token_accuracy']:.4f}  given the reference so far\n" in text
    assert f"\nperplexity {values['perplexity']:.2f}  per token\n" in text
    assert set(lines) == {"best", "worst", "typical"} and lines["best"] == lines["worst"][::-1]
    assert all(f"chrF {line['chrf']:6.2f}  {line['source']}" in text for line in lines["best"])
    done = run("evaluate", folder, folder, "--data", pairs, "--report", tmp_path / "x.txt")
    assert done.code == 2 and "--report" in done.err


@pytest.mark.parametrize("name", ["", " ", ".", "..", "{tmp}", "{tmp}/pairs.tsv/report.txt"])
def test_where_a_report_cannot_be_written_is_found_before_any_work(
    run: Run, tmp_path: Path, pairs: Path, name: str
) -> None:
    done = run("evaluate", "no model", "--data", pairs, "--report", name.replace("{tmp}", str(tmp_path)))
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: argument --report: ")


def test_a_report_in_a_folder_that_may_not_be_written_to_is_refused_before_any_work(
    run: Run, tmp_path: Path, pairs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    done = run("evaluate", "no model", "--data", pairs, "--report", tmp_path / "new" / "report.txt")
    assert done.code == 2 and str(tmp_path) in done.err


@pytest.mark.parametrize("stream", [0, 1])
def test_a_report_to_the_file_of_the_scores_or_of_the_input_is_rejected(
    pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: int
) -> None:
    out = tmp_path / "out"
    out.write_text("")
    monkeypatch.setattr(os, "fstat", lambda it: (out if it == stream else tmp_path).stat())
    with pytest.raises(ArgumentTypeError):
        new_file(str(out))
    assert new_file(str(pairs)) == pairs


@pytest.mark.parametrize(
    "outputs", [("--report", "{}"), ("--predictions", "{}"), ("--report", "new.tsv", "--predictions", "./new.tsv")]
)
def test_a_report_replaces_neither_the_data_nor_the_predictions(
    run: Run, pairs: Path, outputs: tuple[str, ...]
) -> None:
    before = pairs.read_bytes()
    done = run("evaluate", "no model", "--data", pairs, *(it.format(pairs) for it in outputs))
    assert done.code == 2 and "would be overwritten" in done.err and pairs.read_bytes() == before


@pytest.mark.parametrize("name", ["-", "report.txt.gz"])
def test_a_name_that_promises_another_file_is_rejected(name: str) -> None:
    with pytest.raises(ArgumentTypeError):
        new_file(name)


def test_a_report_may_go_to_a_new_folder_and_to_stdout(run: Run, folder: Path, pairs: Path, tmp_path: Path) -> None:
    given = ("evaluate", folder, "--data", pairs, "--engine", "torch", "--report")
    assert run(*given, tmp_path / "new" / "report.txt").code == 0
    report = (tmp_path / "new" / "report.txt").read_text(encoding="utf-8")
    called = [sys.executable, "-m", "clearhead", *given, "/dev/stdout"]
    done = subprocess.run(called, capture_output=True, check=True, text=True)
    assert done.stdout.endswith(report) and done.stdout.startswith("sentences")


def test_data_that_cannot_be_read_is_found_before_weights_are_read(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clearhead.loading.load_model_folder", None)
    for verb in (["evaluate", folder, "--data"], ["score", folder]):
        done = run(*verb, tmp_path / "absent.tsv")
        assert done.code == 1 and str(tmp_path / "absent.tsv") in done.err


def test_a_model_that_is_not_there_is_said_as_everywhere(run: Run, pairs: Path, tmp_path: Path) -> None:
    done = run("evaluate", tmp_path / "absent", "--data", pairs)
    assert done.code == 1 and str(tmp_path / "absent") in done.err


def test_a_model_that_an_option_swallowed_is_missed_with_the_reason(run: Run, folder: Path, pairs: Path) -> None:
    done = run("evaluate", "--data", pairs, folder)
    assert done.code == 2 and "before options" in done.err


def test_info_tells_of_a_search_that_was_sampling(run: Run, folder: Path, pairs: Path) -> None:
    run("evaluate", folder, "--data", pairs, "--sample", "--temperature", "2", "--seed", "3")
    assert "sampled at temperature 2, seed 3)" in run("info", folder).out
    assert json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))["decode"]["sample"] is True


def test_further_references_are_scored_against_too(run: Run, folder: Path, pairs: Path, tmp_path: Path) -> None:
    translation = clearhead.load(folder)("She sings.", beam=1)
    (tmp_path / "2.fr").write_text(f"-\n{translation}\n\n", encoding="utf-8")
    arguments = ["evaluate", folder, "--json", "--beam", "1", "--data"]
    without = json.loads(run(*arguments, pairs).out)
    done = run(*arguments, pairs, "--references", tmp_path / "2.fr")
    values = json.loads(done.out)
    assert (without["exact_match"], values["exact_match"]) == (0, 0.5)
    assert values["data"] == [str(pairs), str(tmp_path / "2.fr")]
    assert values["examples"][0]["references"] == ["J'ai faim.", "-", "Je suis affamé."]
    assert f"{tmp_path / '2.fr'}: references; 2 of 3 lines used" in done.err and "skipped 1: blank line" in done.err


def test_sources_alone_are_scored_against_files_of_references(run: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("I am hungry.\nShe sings.\n", encoding="utf-8")
    (tmp_path / "1.fr").write_text("J'ai faim.\nElle chante.\n", encoding="utf-8")
    arguments = ["evaluate", folder, "--json", "--beam", "1", "--data", tmp_path / "a.en"]
    one, other = run(*arguments, "--references", tmp_path / "1.fr"), run(*arguments, tmp_path / "1.fr")
    assert (one.code, one.out) == (0, other.out)
    (tmp_path / "1.fr").write_text("J'ai faim.\n", encoding="utf-8")
    done = run(*arguments, "--references", tmp_path / "1.fr")
    assert (done.code, done.out) == (1, "") and "a.en has 2 lines" in done.err and "1.fr has 1" in done.err


def test_a_data_file_among_the_model_folders_is_named(run: Run, model_folder: Path, tmp_path: Path) -> None:
    (file := tmp_path / "test.tsv").write_text("a\tb\n")
    done = run("evaluate", model_folder, file)
    assert done.code == 2 and f"--data {file}" in done.err and "taken for a model folder" in done.err
    assert "taken for" not in run("evaluate", model_folder).err
