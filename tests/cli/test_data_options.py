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


def test_text_and_label_are_names_for_the_columns_of_source_and_target(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs: list[Config] = []
    monkeypatch.setattr("clearhead.api.train", lambda config, *_, **__: configs.append(config))
    assert run("train", "a.csv", "--out", "D", "--text", "subject,body", "--label", "queue").code == 0
    assert (configs[0].data.source_column, configs[0].data.target_column) == ("subject,body", "queue")


TICKETS = "subject,body,priority,queue\n" + "".join(
    f"Number {n} broke today,Please repair number {n} at once,{('low', 'high')[n % 2]},{('tech', 'sales')[n % 3 % 2]}\n"
    for n in range(40)
)


def test_a_dry_run_shows_what_would_be_used_and_writes_nothing(run: Run, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tickets.csv").write_text(f"{TICKETS},,low,tech\n", encoding="utf-8")
    done = run("train", "tickets.csv", "--task", "classify", "--text", "subject,body", "--label", "queue", "--dry-run")
    assert done.code == 0
    rows = done.out.splitlines()
    assert rows[0].startswith("task: classify")
    assert rows[1].startswith(
        "  text: subject (column 1) + body (column 2); label: queue (column 4); not used: priority"
    )
    assert "40 of 41 rows used" in done.out and "  skipped 1: empty text" in done.out
    assert '  "sales"' in done.out and '  "tech"' in done.out
    assert '  text   "Number 0 broke today Please repair number 0 at once"' in done.out
    assert [path.name for path in tmp_path.iterdir()] == ["tickets.csv"]


@pytest.mark.parametrize("dry", [["--dry-run"], ["--out", "D"]])
def test_a_table_in_doubt_stops_with_its_columns_and_the_options(
    run: Run, tmp_path: Path, monkeypatch, dry: list
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tickets.csv").write_text(TICKETS, encoding="utf-8")
    done = run("train", "tickets.csv", *dry)
    assert done.code == 1 and not Path("D").exists()
    assert "--task classify --source-column subject,body --target-column queue" in done.err
    for column in ("subject", "body", "priority", "queue"):
        assert f"\n    {column} " in done.err
    assert '"low", "high"' in done.err or '"high", "low"' in done.err


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"a.txt": "once upon a time\n" * 99}, "text"),
        ({"a.en": "Hello.\n" * 9 + "Yes.\n", "a.fr": "Salut.\n" * 9 + "Oui.\n"}, "target"),
        ({"a.json": json.dumps({"data": [{"paragraphs": [{"context": "Ann is here.", "qas": [
            {"question": "Who?", "answers": [{"text": "Ann", "answer_start": 0}]}]}]}]})}, "answer"),
    ],
)  # fmt: skip
def test_a_dry_run_shows_examples_of_every_task(
    run: Run, tmp_path: Path, monkeypatch, files: dict[str, str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in files.items():
        Path(name).write_text(content, encoding="utf-8")
    done = run("train", *files, "--dry-run")
    assert done.code == 0 and "example 1\n" in done.out and f"\n  {said} " in done.out
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(files)


def test_a_model_reads_a_file_in_its_own_direction_and_says_so(
    run: Run, model_folder: Path, table: Path, tmp_path: Path
) -> None:
    back = trained(model_folder, tmp_path / "back", reverse=True, source_column="en", target_column="fr")
    done = run("score", back, table, "--json")
    assert sources(done.out) == [fr for _, fr in ROWS]
    settings = "data.source_column='en', data.target_column='fr', data.reverse=true"
    assert f"as in the training of {back}: {settings} (override with --data.source_column=...)" in done.err
    assert sources(run("score", back, table, "--json", "--data.reverse=false").out) == [en for en, _ in ROWS]
    done = run("evaluate", back, "--data", table, "--json", "--beam", "1")
    assert [it["source"] for it in json.loads(done.out)["examples"]] == [fr for _, fr in ROWS]
    assert "as in the training of" in done.err


def test_a_model_that_reads_what_is_found_says_nothing(run: Run, model_folder: Path, table: Path) -> None:
    done = run("score", model_folder, table, "--json")
    assert sources(done.out) == [en for en, _ in ROWS] and "as in the training of" not in done.err


def test_options_tell_how_a_file_is_read(run: Run, model_folder: Path, table: Path) -> None:
    done = run("score", model_folder, table, "--json", "--source-column=fr", "--target-column=en")
    assert sources(done.out) == [fr for _, fr in ROWS]
    done = run("score", model_folder, table, "--source-column=f", "--target-column=en")
    assert done.code == 1 and "'f'" in done.err and "id, en, fr" in done.err


def test_models_of_two_directions_are_not_compared_on_one_file(
    run: Run, model_folder: Path, table: Path, tmp_path: Path
) -> None:
    there = trained(model_folder, tmp_path / "there")
    back = trained(model_folder, tmp_path / "back", reverse=True)
    done = run("evaluate", there, back, "--data", table)
    assert done.code == 2 and all(str(it) in done.err for it in (there, back, "data.reverse=true"))
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
    assert "only sources; 2 of 2 lines used" in done.err
    assert "CSV (comma), two columns" in run(*evaluate, "--separator", ",").err


def test_pairs_may_come_by_standard_input(
    run: Run, model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = trained(model_folder, tmp_path / "own")  # evaluating writes into the folder
    for arguments in (["score", own, "-"], ["evaluate", own, "--data", "-", "--beam", "1"]):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"She sings.\tElle chante.\n")))
        assert run(*arguments).code == 0
