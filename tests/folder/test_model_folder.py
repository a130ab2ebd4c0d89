"""A model that was saved is loaded, or the message says why not."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import nn

from clearhead.config import Config
from clearhead.errors import ModelError, TrainingError
from clearhead.folder.atomic import FolderLock
from clearhead.folder.manifest import MANIFEST, digest
from clearhead.folder.model_folder import (
    load_model_folder,
    load_weights,
    model_files,
    read_config,
    read_tokenizer,
    save_files,
    weights_from_bytes,
    weights_to_bytes,
)

pytestmark = pytest.mark.usefixtures("weights_of_any_module")
CONFIG = Config().override({"model.d_model": 8, "model.n_heads": 2, "data.name": "é"})


class Tied(nn.Module):
    """Two names for one matrix, as an embedding and the projection that is its transpose."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.projection = nn.Embedding(7, 4), nn.Linear(4, 7)
        self.projection.weight = self.embedding.weight


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A saved model."""
    path = tmp_path / "model"
    weights = Tied().state_dict()
    save_files(
        path, model_files(config=CONFIG.to_dict(), tokenizer='{"vocab": "é"}', weights=weights, card="# A model\n")
    )
    return path


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    model, other = Tied(), Tied()
    files = model_files(
        config=CONFIG.to_dict(), tokenizer='{"vocab": "é"}', weights=model.state_dict(), card="# A model\n"
    )
    save_files(tmp_path / "model", files)
    loaded = load_model_folder(tmp_path / "model")
    assert loaded.config == CONFIG
    assert loaded.tokenizer == read_tokenizer(tmp_path / "model") == '{"vocab": "é"}'
    assert loaded.weights_digest == digest((tmp_path / "model" / "model.safetensors").read_bytes())
    load_weights(other, loaded.weights)
    for name, tensor in model.state_dict().items():
        assert torch.equal(other.state_dict()[name], tensor)
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == sorted([*files, MANIFEST])


def test_a_tied_tensor_is_written_once_and_stays_tied(folder: Path) -> None:
    weights = load_model_folder(folder).weights
    assert sorted(weights) == ["embedding.weight", "projection.bias"]
    model = Tied()
    load_weights(model, weights)
    assert model.projection.weight is model.embedding.weight


def test_a_tied_tensor_is_found_under_either_name() -> None:
    model, weight = Tied(), torch.randn(7, 4)
    load_weights(model, {"projection.weight": weight, "projection.bias": torch.zeros(7)})
    assert torch.equal(model.embedding.weight, weight)


def test_views_transposes_and_empty_tensors_are_written_by_value() -> None:
    whole = torch.randn(4, 6)
    tensors = {
        "rows": whole[1:3],
        "columns": whole.T,
        "one": whole[0, 0],
        "none": torch.empty(0, 3),
        "nil": torch.empty(0),
    }
    found = weights_from_bytes(Path("w"), weights_to_bytes(tensors))
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert torch.equal(found[name], tensor)


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.uint8]
)
def test_every_bit_of_a_tensor_comes_back(dtype: torch.dtype) -> None:
    tensor = torch.randint(0, 255, (64, 8), dtype=torch.uint8).view(dtype)  # any bits: NaNs with payloads, too
    found = weights_from_bytes(Path("w"), weights_to_bytes({"t": tensor}))["t"]
    assert found.dtype == dtype and torch.equal(found.view(torch.uint8), tensor.view(torch.uint8))


def test_the_folder_is_read_by_safetensors_itself(folder: Path) -> None:
    assert safetensors.torch.load_file(folder / "model.safetensors").keys() == load_model_folder(folder).weights.keys()


def test_a_save_that_is_killed_at_any_call_leaves_a_model_that_loads(folder: Path, crash_points) -> None:
    old, new = ({"w": torch.full((3,), value)} for value in (1.0, 2.0))
    save_files(folder, model_files(weights=old))
    seen = set()
    for _ in crash_points(lambda: save_files(folder, model_files(weights=new))):
        seen.add(load_model_folder(folder).weights["w"][0].item())
        save_files(folder, model_files(weights=old))
    assert seen == {1.0, 2.0}
    assert load_model_folder(folder).weights["w"][0] == 2


def test_a_full_disk_while_saving_leaves_the_model_as_it_was(folder: Path, fail_from, disk_full) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for number in range(1, 4):  # the three writes before anything moves
        with pytest.raises(TrainingError, match="No space left on device"), fail_from(number, disk_full):
            save_files(folder, model_files(weights={"w": torch.ones(3)}))
        assert {p.name: p.read_bytes() for p in folder.iterdir() if not p.name.startswith(".")} == before


def test_a_folder_that_a_run_holds_is_not_written_by_another(folder: Path) -> None:
    held = FolderLock(folder, say=print)
    with pytest.raises(TrainingError, match="in use by another run") as caught:
        save_files(folder, {"evaluation.json": b"{}"})
    assert caught.value.fix == "wait for it, or stop it"
    held.release()
    save_files(folder, {"evaluation.json": b"{}"})
    assert "evaluation.json" in json.loads((folder / MANIFEST).read_bytes())["files"]


def test_a_tokenizer_that_is_no_utf_8_is_named(folder: Path) -> None:
    save_files(folder, {"tokenizer.json": b"\xff"})
    with pytest.raises(ModelError, match="UTF-8") as caught:
        load_model_folder(folder)
    assert caught.value.name == "tokenizer.json"


def test_the_settings_alone_are_read_of_what_is_a_model_folder(tmp_path: Path, folder: Path) -> None:
    assert read_config(folder) == CONFIG
    for absent in (tmp_path / "nowhere", folder / "config.json", tmp_path / "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        with pytest.raises(ModelError) as caught:
            read_config(absent)
        assert (caught.value.name, caught.value.value) == ("folder", absent)


def test_an_absent_folder_is_said_with_the_command_that_makes_one(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="doesn't exist") as caught:
        load_model_folder(tmp_path / "nowhere")
    assert "clearhead train" in caught.value.expected


def test_a_file_is_no_model_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ModelError, match="is a file") as caught:
        load_model_folder(tmp_path / "file")
    assert "clearhead train" in caught.value.expected


def test_a_folder_of_other_things_is_no_model_folder(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").touch()
    with pytest.raises(ModelError, match=r"neither config\.json nor manifest\.json"):
        load_model_folder(tmp_path)


def test_a_folder_that_cannot_be_looked_at_is_said(tmp_path: Path, monkeypatch) -> None:
    def denied(_) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "is_dir", denied)
    with pytest.raises(ModelError, match="Permission denied"):
        load_model_folder(tmp_path)


def test_a_run_that_has_not_saved_weights_is_said(tmp_path: Path) -> None:
    save_files(tmp_path, model_files(config=CONFIG.to_dict(), tokenizer="{}"))
    with pytest.raises(ModelError, match="has no weights yet") as caught:
        load_model_folder(tmp_path)
    assert caught.value.name == "model.safetensors" and "resume=True" in caught.value.fix


def test_a_complete_model_whose_weights_are_gone_is_not_taken_for_a_run_on_its_way(folder: Path) -> None:
    values = json.loads((folder / "manifest.json").read_bytes())
    (folder / "manifest.json").write_text(json.dumps(values | {"finished": 9}))
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="has lost its weights") as caught:
        load_model_folder(folder)
    assert caught.value.name == "model.safetensors"


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "manifest.json"])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(ModelError, match="is missing") as caught:
        load_model_folder(folder)
    assert caught.value.name == name


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
@pytest.mark.parametrize("damage", ["a flipped bit", "cut short", "emptied", "longer"])
def test_damage_of_any_file_is_found_and_named(folder: Path, name: str, damage: str) -> None:
    data = bytearray((folder / name).read_bytes())
    data[len(data) // 2] ^= 1 if damage == "a flipped bit" else 0
    cut = {"cut short": data[:-1], "emptied": b"", "longer": data + b"\0"}.get(damage, data)
    (folder / name).write_bytes(cut)
    with pytest.raises(ModelError, match=rf"\({len(cut):,} bytes") as caught:
        load_model_folder(folder)
    assert caught.value.name == name


def forge(folder: Path, name: str, data: bytes) -> None:
    """Change a file and its digest with it."""
    (folder / name).write_bytes(data)
    values = json.loads((folder / MANIFEST).read_bytes())
    values["files"][name] = digest(data)
    (folder / MANIFEST).write_text(json.dumps(values))


def test_a_config_changed_on_purpose_is_accepted_with_its_new_digest(folder: Path) -> None:
    forge(folder, "config.json", b'{"format_version": 1, "model": {}}')
    assert load_model_folder(folder).config == Config()


@pytest.mark.parametrize(
    ("name", "data", "wrong"),
    [
        ("config.json", b'{"format_version": 99}', "format_version"),
        ("config.json", b"{}", "format_version"),
        ("config.json", b"not json", "config.json"),
        ("config.json", b'{"format_version": 1, "modle": {}}', None),
        ("config.json", b"[]", "config.json"),
        ("model.safetensors", b"\x08\0\0\0\0\0\0\0{}", "model.safetensors"),
        ("model.safetensors", b"", "model.safetensors"),
    ],
)
def test_a_file_of_another_format_is_said(folder: Path, name: str, data: bytes, wrong: str | None) -> None:
    forge(folder, name, data)
    with pytest.raises(ModelError) as caught:
        load_model_folder(folder)
    assert name in caught.value.what and wrong in (None, caught.value.name)


@pytest.mark.parametrize(
    ("values", "name", "newer"),
    [
        ({"model": {"n_heads": 3}}, "model.n_heads", False),
        ({"train": {"optimizer": []}}, "train.optimizer", False),
        ({"model": 3}, "model", False),
        ({"origins": 3}, "origins", False),
        ({"model": {"zzqqxx": 3}}, "model.zzqqxx", True),
        ({"zzqqxx": {}}, "zzqqxx", True),
    ],
)
def test_only_unknown_settings_may_come_from_a_newer_version(
    folder: Path, values: dict[str, Any], name: str, newer: bool
) -> None:
    forge(folder, "config.json", json.dumps({"format_version": 1, **values}).encode())
    with pytest.raises(ModelError) as caught:
        load_model_folder(folder)
    assert caught.value.name == name and caught.value.fix and ("newer Clearhead" in caught.value.fix) == newer


def test_a_pickle_is_not_read(folder: Path, tmp_path: Path) -> None:
    torch.save({"w": torch.ones(3)}, tmp_path / "w.pt")
    forge(folder, "model.safetensors", (tmp_path / "w.pt").read_bytes())
    with pytest.raises(ModelError) as caught:
        load_model_folder(folder)
    assert caught.value.name == "model.safetensors"


def test_weights_that_do_not_fit_are_said_and_nothing_is_copied() -> None:
    model = Tied()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    wrong = {"projection.bias": torch.zeros(8), "other": torch.zeros(1), "embedding.weight": torch.ones(7, 5)}
    with pytest.raises(ModelError) as raised:
        load_weights(model, wrong)
    assert (raised.value.name, raised.value.value) == ("model.safetensors", 3)
    for problem in (
        "projection.bias has shape (8,), expected (7,)",
        "other is unknown to the model",
        "embedding.weight has shape (7, 5), expected (7, 4)",
    ):
        assert problem in str(raised.value)
    with pytest.raises(ModelError, match=r"projection.bias is missing"):
        load_weights(model, {"embedding.weight": torch.ones(7, 4)})
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
