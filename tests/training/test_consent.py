"""What a folder names is not imported when a run goes on from it, unless the user names or allows it too."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from clearhead.api import train
from clearhead.cli import main
from clearhead.config import Config
from clearhead.errors import ConfigError, ModelError
from clearhead.folder.manifest import Manifest, mark_finished
from clearhead.folder.model_folder import read_config, save_files
from clearhead.training.warm_start import PRETRAINED, WITHOUT, write_request
from tests.builders import quiet


@pytest.fixture(autouse=True)
def evil(toy, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that must not be imported."""
    folder = toy.folder / "here"
    folder.mkdir()
    (folder / "evilmod.py").write_text("raise SystemExit('it ran')\n")
    monkeypatch.chdir(folder)
    sys.modules.pop("evilmod", None)
    sys.modules.pop("mine", None)  # another test's


def expect_error(name: str, files: Path, out: Path) -> None:
    """What somebody runs who was told that a run can be continued."""
    with pytest.raises(ModelError) as caught:
        train(Config().override({"data.train": (str(files),)}), out, resume=True, say=quiet)
    assert caught.value.name == name and str(caught.value.value).startswith("evilmod:")
    assert "evilmod" not in sys.modules


@pytest.mark.parametrize(("name", "part"), [("train.task", "evilmod:T"), ("model.norm", "evilmod:N")])
def test_a_forged_request_of_a_warm_start(toy, name: str, part: str) -> None:
    (out := toy.folder / "out").mkdir()
    write_request(out, toy.config({"train.warm_start": "denoise", name: part}))
    expect_error(name, toy.pairs(), out)


@pytest.mark.parametrize("forged", [WITHOUT, PRETRAINED])
def test_a_forged_stage_of_a_warm_start(toy, finished_run: Path, forged: str) -> None:
    (out := toy.folder / "out").mkdir()
    write_request(out, toy.config({"train.warm_start": "denoise", "train.task": "translate"}))
    for stage in (WITHOUT, PRETRAINED):
        shutil.copytree(finished_run, out / stage)
    config = json.loads((out / forged / "config.json").read_bytes())
    config["model"]["norm"] = "evilmod:N"
    save_files(out / forged, {"config.json": json.dumps(config).encode()})
    mark_finished(out / forged, 12)
    assert Manifest.read(out / forged).finished == 12
    expect_error("model.norm", toy.pairs(), out)


@pytest.mark.parametrize("finished", [True, False])
def test_a_forged_run(toy, finished_run: Path, finished: bool) -> None:
    out = Path(shutil.copytree(finished_run, toy.folder / "out"))
    config = json.loads((out / "config.json").read_bytes())
    config["model"]["norm"] = "evilmod:N"
    save_files(out, {"config.json": json.dumps(config).encode()})
    mark_finished(out, 12 if finished else None)
    expect_error("model.norm", toy.pairs(), out)


def test_a_record_may_name_custom_parts_only_with_consent() -> None:
    record = Config().override({"model.norm": "evilmod:N"}).to_record()
    with pytest.raises(ModelError):
        Config.from_record(record, source="a file")
    with pytest.raises(ModelError):
        Config.from_record(record, source="a file", allow_custom_code=["other:N"])
    assert Config.from_record(record, source="a file", allow_custom_code=["evilmod:N"]).model.norm == "evilmod:N"


def test_consent_is_yes_or_no(toy) -> None:
    with pytest.raises(ConfigError) as caught:
        train(toy.config(), toy.folder / "out", say=quiet, allow_custom_code="yes")
    assert (caught.value.name, caught.value.value) == ("allow_custom_code", "yes")


def test_a_model_can_start_from_one_with_custom_parts_by_the_option_that_the_error_names(
    toy, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("mine.py").write_text("from torch import nn\n\nclass N(nn.LayerNorm): pass\n")
    said: list[str] = []
    first = train(toy.config({"model.norm": "mine:N", "train.steps": 2}), toy.folder / "first", say=said.append)
    assert said[-1].endswith("--allow-custom-code") and f" {first} " in said[-1]
    assert " --allow-custom-code\n```" in (first / "README.md").read_text()
    again = ["train", str(toy.pairs()), "--out", str(toy.folder / "second"), "--init-from", str(first)]
    again += ["--train.steps=2", "--train.threads=1", "--data.max_len=12", "--data.batch_tokens=32"]
    assert main(again) == 1
    error = capsys.readouterr().err
    assert "--allow-custom-code" in error and "--model.norm=" not in error
    assert main([*again, "--allow-custom-code"]) == 0
    assert read_config(toy.folder / "second", allow_custom_code=["mine:N"]).model.norm == "mine:N"
    assert main([*again, "--resume"]) == 1
    assert main([*again, "--resume", "--allow-custom-code"]) == 0
    sys.modules.pop("mine", None)
