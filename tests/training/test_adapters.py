"""Training an adapter of a model (LoRA), and training only some parts of a model."""

import json
import math
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.api import load, train
from clearhead.config import Config, TrainConfig
from clearhead.errors import ClearheadError, ConfigError, ModelError
from clearhead.folder.adapters import base_weights
from clearhead.folder.model_folder import load_model_folder, model_files, save_files
from clearhead.model.transformer import build
from clearhead.training.init_from import Lora
from clearhead.training.signals import StoppedError
from tests.builders import make_encoder_folder, model_config, quiet
from tests.training.conftest import Toy, quick


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A toy model. Not to be written to."""
    with quick():
        toy = Toy(tmp_path_factory.mktemp("base"))
        return train(toy.config(), toy.folder / "base", say=quiet)


def trained(toy: Toy, base: Path, changes: dict[str, Any] | None = None, name: str = "adapter", **options: Any) -> Path:
    """An adapter of rank 2, or what the changes make of it."""
    values = {"data.train": (str(toy.pairs(30)),), "train.init_from": str(base), "train.adapter": ("lora", "rank=2")}
    values |= {"train.lr": 1e-2, "train.warmup": 0, "train.steps": 6, "train.threads": 1, "train.precision": "fp32"}
    values |= {"data.batch_tokens": 300, "train.eval_every": 3, "train.save_every": 2}
    given = {name: value for name, value in {**values, **(changes or {})}.items() if value is not None}
    return train(Config().override(given), toy.folder / name, **{"say": quiet, **options})


def changed(before: Path, after: Path) -> set[str]:
    """The weights that differ."""
    one, other = load_model_folder(before).weights, load_model_folder(after).weights
    return {name for name in one if not torch.equal(one[name], other[name])}


def stop_at(step: int) -> Any:
    def stop(record: dict[str, Any]) -> None:
        if record["step"] == step:
            signal.raise_signal(signal.SIGTERM)

    return stop


# --- adapters -------------------------------------------------------------------------------------------------------


def test_only_the_matrices_of_attention_change_by_updates_of_the_rank(toy: Toy, base: Path) -> None:
    folder = trained(toy, base)
    before, after = load_model_folder(base).weights, load_model_folder(folder).weights
    found = changed(base, folder)
    assert found == {name for name in before if "attention" in name and name.endswith("weight")}
    for name in found:
        assert torch.linalg.matrix_rank((after[name] - before[name]).double(), rtol=1e-4) == 2
    files = json.loads((folder / "manifest.json").read_bytes())["files"]
    assert set(files) >= {"config.json", "tokenizer.json", "adapter.json", "adapter.safetensors", "README.md"}
    assert not (folder / "model.safetensors").exists() and "model.safetensors" not in files


def test_the_rank_keeps_the_adapter_below_two_percent_of_the_weights(toy: Toy, base: Path) -> None:
    with torch.device("meta"):
        models = [build(model_config(d_model=width, d_ff=4 * width, vocab=8000)) for width in (32, 128, 512)]
    ranks = []
    for model in models:
        lora = Lora.of(model, TrainConfig(adapter=("lora",), init_from="base"))
        assert lora is not None and lora.scale == 2.0
        each = sum(layer.in_features + layer.out_features for layer in map(model.get_submodule, lora.layers))
        share = each / sum(weight.numel() for weight in model.parameters())
        assert lora.rank * share <= 0.02 and (lora.rank == 8 or (lora.rank + 1) * share > 0.02)
        ranks.append(lora.rank)
    assert ranks[-1] == 8
    config = load(trained(toy, base, {"train.adapter": ("lora", "attention.qkv")})).config.train
    assert config.optimizer == "adam" and config.adapter == ("lora", "attention.qkv")


def test_the_loss_of_the_last_evaluation_is_that_of_the_merged_weights(toy: Toy, base: Path) -> None:
    seen: list[float] = []
    pairs = str(toy.pairs(20, name="valid.tsv"))
    folder = trained(toy, base, {"data.valid": (pairs,)}, on_eval=lambda record: seen.append(record["loss"]))
    assert load(folder).evaluate([pairs]).scores.perplexity == pytest.approx(math.exp(min(seen)), rel=1e-4)
    assert min(seen) < math.log(load(base).evaluate([pairs]).scores.perplexity)


@pytest.mark.parametrize("average", [0.0, 0.9, 2.0])
def test_an_adapter_resumes_bit_for_bit(toy: Toy, base: Path, average: float) -> None:
    changes = {"train.average": average, "model.dropout": 0.2}
    expected = trained(toy, base, changes, "whole")
    with pytest.raises(StoppedError):
        trained(toy, base, changes, "parts", on_step=stop_at(3))
    found = trained(toy, base, changes, "parts", resume=True)
    assert (found / "adapter.safetensors").read_bytes() == (expected / "adapter.safetensors").read_bytes()


def test_a_run_that_was_begun_on_other_weights_does_not_resume(toy: Toy, base: Path) -> None:
    own = Path(shutil.copytree(base, toy.folder / "own"))
    with pytest.raises(StoppedError):
        trained(toy, own, on_step=stop_at(3))
    weights = {name: weight + 1 for name, weight in load_model_folder(own).weights.items()}
    save_files(own, model_files(weights=weights))
    with pytest.raises(ModelError) as caught:
        trained(toy, own, resume=True)
    assert caught.value.name == "base"


@pytest.mark.parametrize("task", ["fill", "embed"])
def test_another_head_is_part_of_the_adapter(toy: Toy, task: str) -> None:
    encoder = make_encoder_folder(toy.folder / "encoder", task=task)
    data = toy.folder / "topics.tsv"
    data.write_text("".join(f"{text}\t{'ab'[i % 2]}\n" for i, text in enumerate(["I am", "You are", "She is"] * 8)))
    changes = {"data.train": (str(data),), "train.task": "classify"}
    folder = trained(toy, encoder, changes)
    found, after = load_model_folder(encoder), load_model_folder(folder).weights
    before = base_weights(found.weights, found.config.model, load(folder).config.model)
    assert not torch.equal(after["head.linear.weight"], torch.zeros_like(after["head.linear.weight"]))
    same = {name for name in before if name in after and torch.equal(before[name], after[name])}
    assert "encoder.embedding.weight" in same and not any("attention" in it and "weight" in it for it in same)
    assert {it.label for it in load(folder).results(["I am", "You are"])} <= {"a", "b"}
    with pytest.raises(StoppedError):
        trained(toy, encoder, changes, "parts", on_step=stop_at(3))
    found = trained(toy, encoder, changes, "parts", resume=True)
    assert (found / "adapter.safetensors").read_bytes() == (folder / "adapter.safetensors").read_bytes()


def test_a_model_can_be_trained_further_from_an_adapter_but_an_adapter_has_one_base(toy: Toy, base: Path) -> None:
    folder = trained(toy, base)
    further = trained(toy, folder, {"train.adapter": None}, "further")
    assert len(changed(folder, further)) > 10 and (further / "model.safetensors").exists()
    with pytest.raises(ConfigError) as caught:
        trained(toy, folder, name="third")
    assert caught.value.name == "train.init_from" and not (toy.folder / "third").exists()


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"train.init_from": None}, "train.adapter"),
        ({"train.optimizer": "muon"}, "train.optimizer"),
        ({"train.shard": "full"}, "train.adapter"),
        *(
            ({"train.adapter": ("lora", it)}, "train.adapter")
            for it in ("rank=0", "rank=x", "alpha=0", "a=1", "", "mlp")
        ),
        ({"train.adapter": ("dora",)}, "train.adapter"),
        ({"train.adapter": ("lora", "rank=2", "rank=4")}, "train.adapter"),
        ({"train.freeze": ("encoder", "decoder")}, "train.freeze"),
    ],
)
def test_unsuitable_settings_are_errors_that_name_them(
    toy: Toy, base: Path, changes: dict[str, Any], name: str
) -> None:
    with pytest.raises(ClearheadError) as caught:
        trained(toy, base, changes)
    assert caught.value.name == name and not (toy.folder / "adapter").exists()


# --- frozen parts ---------------------------------------------------------------------------------------------------


def test_frozen_parts_keep_their_weights(toy: Toy, base: Path) -> None:
    plain = {"train.adapter": None, "train.freeze": ("embeddings", "encoder")}
    folder = trained(toy, base, plain)
    found = changed(base, folder)
    assert found and all(name.startswith("decoder.") and "embedding" not in name for name in found)
    with pytest.raises(StoppedError):
        trained(toy, base, plain, "parts", on_step=stop_at(3))
    again = trained(toy, base, plain, "parts", resume=True)
    assert (again / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()


def test_frozen_parts_get_no_adapter(toy: Toy, base: Path) -> None:
    found = changed(base, trained(toy, base, {"train.freeze": ("encoder",)}))
    assert found and all(name.startswith("decoder.") for name in found)


def test_a_part_that_the_model_lacks_is_an_error_that_lists_its_parts(toy: Toy) -> None:
    for part in ("encodr", ""):
        with pytest.raises(ConfigError) as caught:
            train(toy.config({"train.freeze": (part,)}), toy.folder / "run", say=quiet)
        assert (caught.value.name, caught.value.value) == ("train.freeze", part)
        assert "embeddings" in caught.value.expected and "encoder" in caught.value.expected
    assert not (toy.folder / "run").exists()
