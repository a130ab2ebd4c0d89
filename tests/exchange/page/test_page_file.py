"""What can be a page and what can't, and how its numbers are packed."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from torch import nn

from clearhead.api import load
from clearhead.config import Config, ModelConfig
from clearhead.errors import ModelError, TrainingError
from clearhead.exchange.page import page_file
from clearhead.exchange.page.page_file import check_settings, check_task, page_tokenizer
from clearhead.exchange.targets import export
from clearhead.folder.checkpoint import FILM
from clearhead.inspection.page import page_data

CUSTOM = "package.module:Class"
TASKS = [("train.task", "classify"), ("data.modality", "audio")]
TASKS_OF = {"translate": "encoder-decoder", "summarize": "encoder-decoder", "generate": "decoder-only"}
SETTINGS: list[tuple[str, Any]] = [
    ("model.topology", "encoder-only"),
    ("model.front", CUSTOM),
    ("model.attention", CUSTOM),
    ("model.positions", CUSTOM),
    ("model.positions", "sinusoidal_2d"),
    ("model.norm", CUSTOM),
    ("model.feed_forward", CUSTOM),
    ("model.feed_forward", CUSTOM),
    ("model.copy", True),
    ("model.end", False),
    ("model.pad_id", 9),
    ("model.unk_id", 7),
    ("model.head", "class"),
    ("model.n_token_types", 2),
]


@pytest.mark.parametrize(("name", "value"), TASKS)
def test_a_task_that_a_page_can_t_do_is_named(name: str, value: str) -> None:
    with pytest.raises(ModelError) as caught:
        check_task(Config().override({name: value}) if name == "train.task" else with_modality(value))
    assert (caught.value.name, caught.value.value) == (name, value) and caught.value.expected and caught.value.fix


def with_modality(value: str) -> Any:
    return SimpleNamespace(train=SimpleNamespace(task="translate"), data=SimpleNamespace(modality=value))


@pytest.mark.parametrize(("name", "value"), SETTINGS, ids=[name for name, _ in SETTINGS])
def test_a_setting_that_a_page_can_t_have_is_named(name: str, value: Any) -> None:
    model = object.__new__(ModelConfig)  # its other settings need not fit
    vars(model).update(vars(Config().model) | {name.removeprefix("model."): value})
    with pytest.raises(ModelError) as caught:
        check_settings(model)
    assert (caught.value.name, caught.value.value) == (name, value) and caught.value.expected and caught.value.fix


def test_all_that_training_offers_by_default_is_supported() -> None:
    for task in ("translate", "summarize", "generate"):
        config = Config().override({"train.task": task, "model.topology": TASKS_OF[task]})
        check_task(config)
        check_settings(config.model)


def test_another_program_s_tokenizer_is_rejected() -> None:
    with pytest.raises(ModelError) as caught:
        page_tokenizer(SimpleNamespace(is_foreign=True, kind="bpe"))  # type: ignore[arg-type]
    assert caught.value.name == "tokenizer.json" and caught.value.value == "bpe"


def test_a_model_that_is_too_large_for_a_browser_is_rejected_and_nothing_is_written(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_file, "LARGEST", 1000)
    for precision, fix in (("fp32", "precision=int8"), ("int8", "clearhead serve")):
        with pytest.raises(ModelError) as caught:
            export(load(model_folder, device="cpu").loaded, "page", tmp_path / "page.html", precision=precision)
        assert caught.value.name == "precision" and caught.value.value == precision and fix in caught.value.fix
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch])
def test_a_page_is_a_new_file(make: Callable[[Path], None], model_folder: Path, tmp_path: Path) -> None:
    make(tmp_path / "page.html")
    with pytest.raises(TrainingError) as caught:
        export(load(model_folder, device="cpu").loaded, "page", tmp_path / "page.html")
    assert (caught.value.name, caught.value.value) == ("out", tmp_path / "page.html")


def test_a_page_of_a_watched_run_has_its_film(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = {"text": "a", "answer": "b", "scores": {"loss": 1.0}, "weights": {"decoder.0.cross": [[[1.0]]]}, "lens": {}}
    shutil.copytree(model_folder, tmp_path / "model")
    frames = "".join(json.dumps({"step": step, **frame}) + "\n" for step in range(3))
    (tmp_path / "model" / FILM).write_text(frames, encoding="utf-8")
    loaded = load(tmp_path / "model", device="cpu").loaded
    assert len(page_file._page(loaded, "a")["film"]["frames"]) == 3
    monkeypatch.setattr(page_data, "_LARGEST_FILM", 1)
    page = page_file._page(loaded, "a")
    assert len(page["film"]["frames"]) == 2 and page["left_out"][-1]["what"] == "1 of 3 frames of the film"


def test_eight_bits_keep_each_row_within_a_254th_of_its_largest_number() -> None:
    model = nn.Linear(6, 5)
    weight = model.weight.detach().numpy()
    weight[2] = 0.0
    table, content = page_file._packed(model, "int8")
    named = {it["name"]: it for it in table}
    at, scales = named["weight"]["at"], named["weight"]["scales"]
    rounded = np.frombuffer(content, "i1", 30, at).reshape(5, 6) * np.frombuffer(content, "<f4", 5, scales)[:, None]
    assert (np.abs(rounded - weight) <= np.abs(weight).max(1, keepdims=True) / 253).all()
    np.testing.assert_array_equal(np.frombuffer(content, "<f4", 5, named["bias"]["at"]), model.bias.detach().numpy())
    assert len(content) == 30 + 4 * (5 + 5)


def test_a_tied_matrix_is_stored_once() -> None:
    model = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
    model[1].weight = model[0].weight
    table, content = page_file._packed(model, "fp32")
    assert [it["name"] for it in table] == ["0.weight"] and len(content) == 36
