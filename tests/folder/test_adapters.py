"""An adapter's folder is read as the model that it makes of its base, or the message says why not."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clearhead.errors import ModelError
from clearhead.folder.adapters import Adapter, weights_digest
from clearhead.folder.manifest import digest
from clearhead.folder.model_folder import load_model_folder, model_files, read_config, save_files, weights_from_bytes
from tests.builders import make_adapter_folder


@pytest.fixture
def base(model_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(model_folder, tmp_path / "base"))


@pytest.fixture
def adapter(base: Path, tmp_path: Path) -> Path:
    return make_adapter_folder(tmp_path / "adapter", base)


def rewrite(folder: Path, **changes: Any) -> None:
    values = json.loads((folder / "adapter.json").read_bytes()) | changes
    save_files(folder, {"adapter.json": json.dumps(values).encode()})


def test_it_adds_the_product_of_each_pair_to_the_matrix(base: Path, adapter: Path) -> None:
    before, after = load_model_folder(base).weights, load_model_folder(adapter).weights
    pairs = weights_from_bytes(adapter, (adapter / "adapter.safetensors").read_bytes())
    assert before.keys() == after.keys()
    for name, weight in before.items():
        stem = name.removesuffix(".weight")
        if f"{stem}.lora_a" in pairs:
            weight = weight + 0.5 * pairs[f"{stem}.lora_b"] @ pairs[f"{stem}.lora_a"]
            torch.testing.assert_close(after[name], weight)
        else:
            assert torch.equal(after[name], weight)


def test_numpy_and_torch_read_the_same_bits(adapter: Path) -> None:
    arrays, tensors = load_model_folder(adapter, numpy=True), load_model_folder(adapter)
    assert arrays.weights_digest == tensors.weights_digest == weights_digest(adapter)
    assert arrays.weights.keys() == tensors.weights.keys()
    assert all(np.array_equal(array, tensors.weights[name].numpy()) for name, array in arrays.weights.items())


def test_both_folders_may_be_moved_together(base: Path, adapter: Path, tmp_path: Path) -> None:
    expected = load_model_folder(adapter).weights
    (tmp_path / "elsewhere").mkdir()
    for folder in (base, adapter):
        folder.rename(tmp_path / "elsewhere" / folder.name)
    found = load_model_folder(tmp_path / "elsewhere" / "adapter").weights
    assert all(torch.equal(found[name], weight) for name, weight in expected.items())


def test_a_missing_base_can_be_named(base: Path, adapter: Path, tmp_path: Path) -> None:
    moved = base.rename(tmp_path / "moved")
    with pytest.raises(ModelError) as caught:
        load_model_folder(adapter)
    assert (caught.value.name, caught.value.value) == ("base", base) and "--adapter" in caught.value.fix
    assert load_model_folder(adapter, base=moved).weights
    assert read_config(adapter).model == read_config(moved).model


def test_a_base_with_other_weights_is_rejected(base: Path, adapter: Path) -> None:
    weights = {name: weight + 1 for name, weight in load_model_folder(base).weights.items()}
    save_files(base, model_files(weights=weights))
    with pytest.raises(ModelError) as caught:
        load_model_folder(adapter)
    assert caught.value.name == "base" and caught.value.value == weights_digest(base)
    assert Adapter.read(adapter).base_weights in caught.value.expected


def test_an_adapter_is_no_base(adapter: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(adapter, tmp_path / "other"))
    rewrite(other, base="../adapter")
    rewrite(adapter, base="../adapter")
    for folder in (other, adapter):
        with pytest.raises(ModelError) as caught:
            load_model_folder(folder)
        assert caught.value.name == "base" and "--merge" in caught.value.fix


@pytest.mark.parametrize("changes", [
    {"base": 3}, {"base": "a\0b"}, {"base_weights": None}, {"scale": "2"}, {"scale": True}, {"scale": 1e999},
    {"scale": 10**400},
])  # fmt: skip
def test_a_damaged_description_is_an_error(adapter: Path, changes: dict[str, Any]) -> None:
    rewrite(adapter, **changes)
    with pytest.raises(ModelError) as caught:
        load_model_folder(adapter)
    assert caught.value.name == "adapter.json"


@pytest.mark.parametrize("shape", [(3, 16), (2, 15), (2, 16, 1)])
def test_updates_that_do_not_fit_are_named(adapter: Path, shape: tuple[int, ...]) -> None:
    pairs = weights_from_bytes(adapter, (adapter / "adapter.safetensors").read_bytes())
    name = "decoder.blocks.0.attention.out"
    save_files(adapter, model_files(weights={**pairs, f"{name}.lora_a": torch.zeros(shape)}))
    with pytest.raises(ModelError) as caught:
        load_model_folder(adapter)
    assert caught.value.name == name


def test_a_matrix_that_the_base_lacks_is_named(adapter: Path) -> None:
    more = {"decoder.blocks.9.attention.out.lora_a": torch.zeros(2, 16)}
    save_files(adapter, model_files(weights=more))
    with pytest.raises(ModelError) as caught:
        load_model_folder(adapter)
    assert caught.value.name == "decoder.blocks.9.attention.out"


def test_numbers_that_are_not_finite_are_rejected(adapter: Path) -> None:
    name = "decoder.blocks.0.attention.out.lora_a"
    save_files(adapter, model_files(weights={name: torch.full((2, 16), torch.nan)}))
    with pytest.raises(ModelError) as caught:
        load_model_folder(adapter)
    assert caught.value.name == name


def test_an_adapter_that_lost_its_weights_says_so(adapter: Path) -> None:
    (adapter / "adapter.safetensors").unlink()
    with pytest.raises(ModelError) as caught:
        load_model_folder(adapter)
    assert caught.value.name == "adapter.safetensors"


def test_the_digest_changes_with_the_adapter(base: Path, adapter: Path, tmp_path: Path) -> None:
    other = make_adapter_folder(tmp_path / "other", base, seed=1)
    assert len({weights_digest(it) for it in (base, adapter, other)}) == 3
    assert weights_digest(base) == digest((base / "model.safetensors").read_bytes())


def test_a_base_on_another_drive_is_named_by_its_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def other_drive(*_: object) -> str:
        raise ValueError("path is on mount 'D:', start on mount 'C:'")

    monkeypatch.setattr("os.path.relpath", other_drive)
    assert Adapter.of(tmp_path / "a", tmp_path / "b", "digest", 1.0).base == (tmp_path / "b").resolve().as_posix()
