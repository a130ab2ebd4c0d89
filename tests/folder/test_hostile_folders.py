"""A model folder from anywhere is loaded or an error at once: it neither hangs, fills the memory nor runs code."""

import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from clearhead.api import load
from clearhead.cli import main
from clearhead.errors import ModelError
from clearhead.folder.model_folder import save_files
from clearhead.tokenization.source_and_target import Tokenizers
from clearhead.tokenization.tokenizer import Tokenizer


@pytest.fixture
def folder(model_folder: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    return Path(shutil.copytree(model_folder, tmp_path / "model"))


def change(folder: Path, **model: Any) -> None:
    config = json.loads((folder / "config.json").read_bytes())
    config["model"] |= model
    save_files(folder, {"config.json": json.dumps(config).encode()})


@pytest.mark.parametrize(
    ("setting", "value"),
    [("n_encoder_layers", 10**9), ("n_decoder_layers", 10**9), ("d_model", 2**20), ("d_ff", 10**9), ("max_len", 10**9)],
)
def test_a_size_that_the_weights_do_not_have_is_an_error_at_once(folder: Path, setting: str, value: int) -> None:
    change(folder, **{setting: value})
    start = time.monotonic()
    with pytest.raises(ModelError):
        _ = load(folder, device="cpu").model
    assert time.monotonic() - start < 20


def test_info_compares_sizes_before_it_lays_out_a_model(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(folder, n_encoder_layers=10**9)
    assert main(["info", str(folder)]) == 1
    assert "n_encoder_layers=1000000000" in capsys.readouterr().err


def test_info_rejects_a_depth_that_no_model_has_without_weights_and_without_a_folder(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(folder, n_encoder_layers=10**9)
    (folder / "model.safetensors").unlink()
    told = "n_encoder_layers=1000000000"
    for arguments, status, named in (([str(folder)], 1, told), ([f"--model.{told}"], 2, told.replace("=", " "))):
        start = time.monotonic()
        assert main(["info", *arguments]) == status
        assert named in capsys.readouterr().err
        assert time.monotonic() - start < 20


def test_another_models_tokenizer_is_an_error(folder: Path) -> None:
    config = load(folder, device="cpu").config.data
    other = Tokenizer.train(["entirely other words than those of the model " * 3], config)
    save_files(folder, {"tokenizer.json": Tokenizers(other, other).to_json().encode()})
    with pytest.raises(ModelError) as caught:
        load(folder, device="cpu")("one")
    assert caught.value.name == "model.src_vocab_size" and caught.value.value == other.vocab_size


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors", "manifest.json"])
def test_a_pipe_in_place_of_a_file_is_an_error(folder: Path, name: str) -> None:
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(ModelError) as caught:
        _ = load(folder, device="cpu").model
    assert (caught.value.name, caught.value.expected) == (name, "a regular file")


def test_code_in_the_folder_does_not_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "evilmod.py").write_text("raise SystemExit('it ran')\n")
    change(folder, attention="evilmod:A")
    monkeypatch.chdir(folder)
    with pytest.raises(ModelError) as caught:
        _ = load(folder, device="cpu").model
    assert (caught.value.name, caught.value.value) == ("model.attention", "evilmod:A")
    assert "evilmod" not in sys.modules


@pytest.mark.parametrize("verb", ["verify", "info", "evaluate"])
def test_a_pipe_in_place_of_the_evaluation_does_not_block(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    (folder / "evaluation.json").unlink(missing_ok=True)
    os.mkfifo(folder / "evaluation.json")
    os.mkfifo(folder / ".evaluation.json.partial")
    (data := tmp_path / "data.tsv").write_text("one two\ttwo one\n")
    more = ["--data", str(data)] if verb == "evaluate" else []
    assert main([verb, str(folder), *more]) == (1 if verb == "info" else 0)
    assert ("a pipe or a device" in capsys.readouterr().err) == (verb == "info")


@pytest.mark.parametrize(
    "values",
    [{"weights": 1}, {"sentences": "x"}, {"sentences": 1, "bleu": [], "data": [], "decode": {}}, {"sentences": 1}],
)
def test_info_reports_an_evaluation_with_strange_values(
    folder: Path, capsys: pytest.CaptureFixture[str], values: dict[str, Any]
) -> None:
    save_files(folder, {"evaluation.json": json.dumps(values).encode()})
    assert main(["info", str(folder)]) == 1
    assert f"{folder / 'evaluation.json'} has missing or strange values" in capsys.readouterr().err


@pytest.mark.parametrize("values", [{"step": "x"}, {"step": "x", "valid_loss": "y"}, {"valid_loss": 1.0}, {"step": []}])
def test_info_reports_metrics_with_strange_values(
    folder: Path, capsys: pytest.CaptureFixture[str], values: dict[str, Any]
) -> None:
    from clearhead.folder.model_folder import read_config

    best = read_config(folder).train.best
    values = {f"valid_{best}" if name == "valid_loss" else name: value for name, value in values.items()}
    lines = [{"step": 1, f"valid_{best}": 1.0}, {f"valid_{best}": 1.0, **values}]
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(it)}\n" for it in lines))
    assert main(["info", str(folder)]) == 1
    assert f"{folder / 'metrics.jsonl'} has missing or strange values" in capsys.readouterr().err
