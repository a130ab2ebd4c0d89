"""Files of pairs in every form, on the command line."""

import io
import json
import shutil
import sys
from pathlib import Path

import pytest

from clearhead.config import Config

from .conftest import Run

ROWS = [("I am hungry.", "J'ai faim."), ("She sings.", "Elle chante.")]


def trained(folder: Path, path: Path, **data: object) -> Path:
    """A copy of a model folder that says that it was trained so."""
    from clearhead.folder.model_folder import model_files, read_config, save_files

    shutil.copytree(folder, path)
    config = read_config(path).override({f"data.{name}": value for name, value in data.items()})
    save_files(path, model_files(config=config.to_dict()))
    return path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.csv"
    path.write_text("id,en,fr\n" + "".join(f"{i},{en},{fr}\n" for i, (en, fr) in enumerate(ROWS)), encoding="utf-8")
    return path


def sources(out: str) -> list[str]:
    return [json.loads(line)["source"] for line in out.splitlines()]


def test_short_spellings_tell_how_files_are_read(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    configs: list[Config] = []
    monkeypatch.setattr("clearhead.api.train", lambda config, *_, **__: configs.append(config))
    arguments = ["train", "a.csv", "--out", "D", "--source-column", "en", "--target-column", "3", "--separator", ";"]
    assert run(*arguments, "--reverse").code == run(*arguments).code == 0
    data = configs[0].data
    assert (data.source_column, data.target_column, data.separator, data.reverse) == ("en", "3", ";", True)
    assert not configs[1].data.reverse


def test_a_model_reads_a_file_in_its_own_direction_and_says_so(
    run: Run, model_folder: Path, table: Path, tmp_path: Path
) -> None:
    back = trained(model_folder, tmp_path / "back", reverse=True, source_column="en", target_column="fr")
    done = run("score", back, table, "--json")
    assert sources(done.out) == [fr for _, fr in ROWS]
    said = "data.source_column = 'en', data.target_column = 'fr', data.reverse = true"
    assert f"read as {back} was trained: {said}; to read otherwise: --data.source_column=..." in done.err
    assert sources(run("score", back, table, "--json", "--data.reverse=false").out) == [en for en, _ in ROWS]
    done = run("evaluate", back, "--data", table, "--json", "--beam", "1")
    assert [it["source"] for it in json.loads(done.out)["examples"]] == [fr for _, fr in ROWS]
    assert "read as" in done.err


def test_a_model_that_reads_what_is_found_says_nothing(run: Run, model_folder: Path, table: Path) -> None:
    done = run("score", model_folder, table, "--json")
    assert sources(done.out) == [en for en, _ in ROWS] and "read as" not in done.err


def test_options_tell_how_a_file_is_read(run: Run, model_folder: Path, table: Path) -> None:
    done = run("score", model_folder, table, "--json", "--source-column=fr", "--target-column=en")
    assert sources(done.out) == [fr for _, fr in ROWS]
    done = run("score", model_folder, table, "--source-column=f", "--target-column=en")
    assert done.code == 1 and "has no column 'f'" in done.err and "columns: id, en, fr" in done.err


def test_models_of_two_directions_are_not_compared_on_one_file(
    run: Run, model_folder: Path, table: Path, tmp_path: Path
) -> None:
    there = trained(model_folder, tmp_path / "there")
    back = trained(model_folder, tmp_path / "back", reverse=True)
    done = run("evaluate", there, back, "--data", table)
    assert done.code == 2
    assert f"{there} was trained with data.reverse = false and {back} with true; expected models that read" in done.err
    assert run("evaluate", there, back, "--data", table, "--reverse", "--beam", "1").code == 0


def test_a_separator_that_a_model_was_trained_with_makes_no_columns_of_plain_sentences(
    run: Run, model_folder: Path, tmp_path: Path
) -> None:
    commas = trained(model_folder, tmp_path / "commas", separator=",")
    (tmp_path / "a.en").write_text("Yes, I am.\nShe sings.\n", encoding="utf-8")
    (tmp_path / "a.fr").write_text("Oui.\nElle chante.\n", encoding="utf-8")
    evaluate = ["evaluate", commas, "--data", tmp_path / "a.en", "--references", tmp_path / "a.fr", "--beam", "1"]
    done = run(*evaluate, "--json")
    assert [it["source"] for it in json.loads(done.out)["examples"]] == ["Yes, I am.", "She sings."]
    assert "sources alone; 2 of 2 lines used" in done.err
    assert "CSV (comma), two columns" in run(*evaluate, "--separator", ",").err


def test_pairs_may_come_by_standard_input(
    run: Run, model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = trained(model_folder, tmp_path / "own")  # evaluating writes into the folder
    for arguments in (["score", own, "-"], ["evaluate", own, "--data", "-", "--beam", "1"]):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"She sings.\tElle chante.\n")))
        assert run(*arguments).code == 0
