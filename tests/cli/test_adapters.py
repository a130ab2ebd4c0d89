"""Adapters on the command line: `--adapter` with a model, or the adapter's own folder in place of the model's."""

from pathlib import Path

import pytest

from tests.builders import make_adapter_folder

from .conftest import Run


@pytest.fixture
def adapter(folder: Path, tmp_path: Path) -> Path:
    return make_adapter_folder(tmp_path / "adapter", folder)


def test_every_way_to_name_it_gives_the_same_answer(run: Run, folder: Path, adapter: Path, tmp_path: Path) -> None:
    merged = tmp_path / "merged"
    assert run("export", folder, "--adapter", adapter, "--merge", "--out", merged).code == 0
    models = [(adapter,), (folder, "--adapter", adapter), (merged,), (folder,)]
    found = [run("translate", *model, "--json", "I am hungry.").out for model in models]
    assert found[0] == found[1] == found[2] != found[3]


@pytest.mark.parametrize("verb", ["info", "verify", "evaluate", "explain"])
def test_other_verbs_read_it(run: Run, adapter: Path, tmp_path: Path, verb: str) -> None:
    (tmp_path / "pairs.tsv").write_text("I am hungry.\tJ'ai faim.\n" * 3)
    more = {"evaluate": ["--data", tmp_path / "pairs.tsv"], "explain": ["I am hungry."], "verify": ["--json"]}
    assert run(verb, adapter, *more.get(verb, [])).code == 0
    if verb == "evaluate":
        assert "outdated" not in run("info", adapter).out and "earlier weights" not in run("info", adapter).out


def test_an_adapter_of_another_model_is_an_error_without_a_traceback(
    run: Run, adapter: Path, word_model_folder: Path
) -> None:
    done = run("translate", word_model_folder, "--adapter", adapter, "I am hungry.")
    assert done.code == 1 and "adapter of other weights" in done.err and "Traceback" not in done.err


def test_merge_and_to_exclude_each_other(run: Run, adapter: Path, tmp_path: Path) -> None:
    done = run("export", adapter, "--merge", "--to", "onnx", "--out", tmp_path / "out")
    assert done.code == 2 and "--merge" in done.err


def test_an_adapter_goes_to_peft_and_back(run: Run, folder: Path, adapter: Path, tmp_path: Path) -> None:
    assert run("export", adapter, "--to", "peft", "--out", tmp_path / "peft").code == 0
    assert run("import", tmp_path / "peft", "--base", folder, "--out", tmp_path / "again").code == 0
    found = [run("translate", it, "--json", "I am hungry.").out for it in (adapter, tmp_path / "again")]
    assert found[0] == found[1] != ""
    done = run("import", tmp_path / "peft", "--out", tmp_path / "third")
    assert done.code == 1 and "--base" in done.err
