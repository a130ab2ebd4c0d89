import tomllib
from collections.abc import Container
from pathlib import Path
from typing import Any

import pytest

from clearhead.config import TASKS, Config, ModelConfig
from clearhead.decode.registry import ENGINES
from clearhead.tasks.registry import task_named

from ..conftest import Run


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the function `train` was called with, instead of training."""
    found: list[dict[str, Any]] = []

    def train(config: Config, out: str, **named: Any) -> None:
        found.append({"config": config, "out": out, **named})

    monkeypatch.setattr("clearhead.api.train", train)
    return found


def test_the_spelling_of_the_contract_trains(run: Run, calls: list[dict[str, Any]]) -> None:
    arguments = "pairs.tsv --out DIR --preset nano --train.steps=300 --train.save_every=40 --train.seed=7 --resume"
    assert run("train", *arguments.split()).code == 0
    (call,) = calls
    config = call["config"]
    assert (config.data.train, call["out"], call["resume"]) == (("pairs.tsv",), "DIR", True)
    assert (config.train.steps, config.train.save_every, config.train.seed) == (300, 40, 7)
    assert (config.train.preset, config.model.d_model) == ("nano", 128)
    assert set(config.by_origin()["user"]) == {
        "data.train",
        "train.preset",
        "train.steps",
        "train.save_every",
        "train.seed",
    }


def test_short_spellings_are_settings(run: Run, calls: list[dict[str, Any]]) -> None:
    arguments = "train a.en a.fr --out D --device cpu --threads 2 --test t.en t.fr --split 0.1"
    assert run(*arguments.split()).code == 0
    data, train = calls[0]["config"].data, calls[0]["config"].train
    assert (data.train, data.test) == (("a.en", "a.fr"), ("t.en", "t.fr"))
    assert (train.device, train.threads, data.split) == ("cpu", 2, 0.1)
    assert not calls[0]["resume"]
    assert run("train", "a.tsv", "--out", "D", "--valid", "v.tsv").code == 0
    assert calls[1]["config"].data.valid == ("v.tsv",)


def test_a_share_to_hold_out_beside_a_file_to_validate_on_is_a_wrong_use(
    run: Run, calls: list[dict[str, Any]], tmp_path: Path
) -> None:
    done = run("train", "a.tsv", "--out", "D", "--valid", "v.tsv", "--split", "0.1")
    assert (done.code, calls) == (2, [])
    assert "--split" in done.err and "--valid" in done.err
    written = tmp_path / "all.toml"  # names every setting, the share too
    written.write_text(run("train", "a.tsv", "--print-config").out, encoding="utf-8")
    assert run("train", "--config", written, "--out", "D", "--valid", "v.tsv").code == 0


def test_files_may_stand_between_options(run: Run, calls: list[dict[str, Any]]) -> None:
    assert run("train", "--out", "D", "a.en", "--preset", "nano", "a.fr").code == 0
    assert calls[0]["config"].data.train == ("a.en", "a.fr")


def test_a_configuration_file_may_name_the_training_file(run: Run, calls: list[dict[str, Any]], tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('[data]\ntrain = ["a.tsv"]\n[train]\nsteps = 5\n')
    assert run("train", "--config", file, "--out", "D").code == 0
    assert (calls[0]["config"].data.train, calls[0]["config"].train.steps) == (("a.tsv",), 5)


def test_print_config_prints_the_settings_as_toml_and_does_not_train(run: Run, calls: list[dict[str, Any]]) -> None:
    done = run("train", "a.tsv", "--task", "translate", "--preset", "nano", "--train.steps=3", "--print-config")
    assert (done.code, done.err, calls) == (0, "", [])
    values = tomllib.loads(done.out)
    assert (values["train"]["steps"], values["train"]["preset"], values["data"]["train"]) == (3, "nano", ["a.tsv"])
    assert "\n# d_model = 128  # preset nano\n" in done.out


@pytest.mark.parametrize("verb", [it for it in TASKS if it != "embed"])  # which can't be trained on its own
def test_what_print_config_prints_is_what_a_run_begins_with(
    run: Run, calls: list[dict[str, Any]], tmp_path: Path, verb: str
) -> None:
    asked = ("--task", verb, "--preset", "nano", "--train.seed=3")
    file = tmp_path / "run.toml"
    file.write_text(run("train", *asked, "--print-config").out, encoding="utf-8")
    assert run("train", "--config", file, "--print-config").out == file.read_text(encoding="utf-8")
    for arguments in (asked, ("--config", file)):
        assert run("train", "a.tsv", *arguments, "--out", "D").code == 0
    begun, read = (task_named(verb).settle(it["config"]) for it in calls)
    assert read == begun


def test_print_config_finds_the_task_that_the_data_tell(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    path.write_text("once upon a time\n" * 99)
    done = run("train", path, "--preset", "nano", "--print-config")
    assert '# task = "generate"  # data' in done.out and done.err.startswith("task: generate, because")


def test_files_of_an_option_that_is_given_twice_add_up(run: Run, calls: list[dict[str, Any]]) -> None:
    assert run("train", "a", "--valid", "b", "c", "--valid", "d", "--out", "D").code == 0
    assert calls[0]["config"].data.valid == ("b", "c", "d")


def test_print_config_says_whose_settings_these_are_where_nothing_tells(run: Run) -> None:
    for files in ([], ["absent.tsv"]):
        done = run("train", *files, "--preset", "nano", "--print-config")
        assert '# task = "translate"  # data' in done.out
        assert done.err.startswith("note: assuming --task translate")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--out", "x"], "no training file"),
        (["a.tsv"], "--out"),
        (["a.tsv", "--out", ""], "--out"),
        (["a.tsv", "--out", " "], "--out"),
        (["a.tsv", "--out", "x", "--data.train", "b.tsv"], "--data.train"),
    ],
)
def test_missing_empty_and_repeated_files_are_wrong_usage(
    run: Run, calls: list[dict[str, Any]], arguments: list[str], named: str
) -> None:
    done = run("train", *arguments)
    assert (done.code, calls) == (2, []) and named in done.err


def test_a_file_that_is_absent_is_a_failure(run: Run, tmp_path: Path) -> None:
    done = run("train", tmp_path / "a.tsv", "--out", tmp_path / "out")
    assert done.code == 1
    assert str(tmp_path / "a.tsv") in done.err.split("error: ")[1]


@pytest.mark.parametrize("count", ["0", "-1", "x", "9" * 400, "9" * 5000])
def test_a_wrong_number_of_processes_is_a_wrong_use_of_a_dry_run_too(run: Run, count: str) -> None:
    done = run("train", "a.tsv", "--dry-run", f"--processes={count}")
    assert done.code == 2 and "--processes" in done.err and "expected: a whole number from 1" in done.err


@pytest.mark.parametrize("task", [["--task", "translate"], []])
@pytest.mark.parametrize(
    ("options", "name"),
    [
        (["--decode.engine", "xyz"], "decode.engine"),
        (["--train.best", "blue"], "train.best"),
        (["--train.best", "newest", "--train.patience", "3"], "train.patience"),
        (["--device", "cuda:99"], "--device 'cuda:99'"),
    ],
)
def test_a_bad_choice_is_reported_before_the_data_is_read(
    run: Run, tmp_path: Path, task: list[str], options: list[str], name: str
) -> None:
    data, out = tmp_path / "pairs.tsv", tmp_path / "model"
    data.write_text("a b\tc d\n" * 20, encoding="utf-8")
    done = run("train", data, "--out", out, *task, *options)
    assert done.code == 2 and name in done.err and not out.exists()
    assert "task:" not in done.err and done.err.startswith("error")


def test_settings_that_the_engine_does_not_support_are_reported_before_a_folder_is_made(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"{Greedy.__module__}:{Greedy.__name__}"
    monkeypatch.setitem(ENGINES, "greedy", {"encoder-decoder": path})
    data, out = tmp_path / "pairs.tsv", tmp_path / "model"
    data.write_text("a b\tc d\n" * 20, encoding="utf-8")
    for task in (["--task", "translate"], []):
        done = run("train", data, "--out", out, "--decode.engine", "greedy", *task)
        assert done.code == 2 and "decode.beam" in done.err and not out.exists()


class Greedy:
    """A batch engine that supports no setting."""

    name, settings = "greedy", frozenset()  # type: ignore[var-annotated]

    @classmethod
    def obstacle(cls, config: ModelConfig, device: str, formats: Container[str]) -> str:
        return ""
