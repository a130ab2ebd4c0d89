"""The table of weights is that of the built model, and weights that don't fit it are named."""

import json
import random
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.config import ModelConfig
from clearhead.errors import ConfigError, ModelError
from clearhead.folder.model_folder import load_weights, model_files
from clearhead.folder.weight_table import (
    check_shapes,
    check_weights,
    missing_weights,
    stored_tensors,
    tied_names,
    weight_table,
)
from clearhead.model.transformer import build

SIZES = {
    "src_vocab_size": 11, "tgt_vocab_size": 11, "d_model": 8, "n_heads": 2, "d_ff": 12, "max_len": 20, "patch_size": 4,
    "n_encoder_layers": 2, "n_decoder_layers": 2, "image_size": 8, "image_channels": 3, "sample_rate": 8000,
}  # fmt: skip
CHOICES: dict[str, tuple[Any, ...]] = {
    "tie": ("all", "target", "embeddings", "none"), "norm": ("layer", "rms"), "pre_norm": (False, True),
    "positions": ("sinusoidal", "sinusoidal_halves", "sinusoidal_2d", "learned", "rotary", "relative", "alibi"),
    "final_norm": (None, False, True), "embedding_norm": (False, True), "bias": (True, False), "d_head": (None, 6),
    "qkv_bias": (None, True, False), "feed_forward": ("relu", "swiglu", "geglu", "gelu"),
    "n_kv_heads": (None, 1), "projection_bias": (None, True, False), "front": ("tokens", "patches", "frames"),
    "pooling": ("mean", "first"),
}  # fmt: skip
OF_TOPOLOGIES: dict[str, dict[str, tuple[Any, ...]]] = {
    "decoder-only": {},
    "encoder-decoder": {"copy": (False, True)},
    "encoder-only": {
        "head": ("none", "class", "span", "token"), "n_classes": (0, 3), "head_layer": ("none", "tanh", "norm"),
        "n_token_types": (0, 2), "projection_bias": (None,),
    },
}  # fmt: skip


def random_configs(topology: str, number: int) -> list[ModelConfig]:
    dice, found = random.Random(0), list[ModelConfig]()
    while len(found) < number:
        drawn = {name: dice.choice(values) for name, values in (CHOICES | OF_TOPOLOGIES[topology]).items()}
        try:
            config = ModelConfig(topology=topology, **SIZES, **drawn)
        except ConfigError:
            continue
        if config.head != "class" or config.n_classes:
            found.append(config)
    return found


@pytest.mark.parametrize("topology", OF_TOPOLOGIES)
def test_the_table_has_the_names_shapes_and_ties_of_the_model(topology: str) -> None:
    for config in random_configs(topology, 60):
        with torch.device("meta"):
            weights = build(config).state_dict(keep_vars=True)
        assert weight_table(config) == {name: tuple(it.shape) for name, it in weights.items()}, config
        names: dict[int, list[str]] = {}
        for name, it in weights.items():
            names.setdefault(id(it), []).append(name)
        tied = tied_names(config)
        assert [tuple(it) for it in names.values() if len(it) > 1] == [tied] * (len(tied) > 1), config
        assert missing_weights(config, [it[-1] for it in names.values()]) == []
        for group in names.values():
            assert missing_weights(config, weights.keys() - {*group}) == group[:1]


@pytest.fixture
def config() -> ModelConfig:
    return ModelConfig(**{**SIZES, "n_encoder_layers": 1, "n_decoder_layers": 1}, tie="target")


@pytest.fixture
def weights(config: ModelConfig) -> dict[str, torch.Tensor]:
    return {name: torch.ones(shape) for name, shape in weight_table(config).items()}


def check(config: ModelConfig, weights: dict[str, torch.Tensor]) -> None:
    data = model_files(weights={name: it.clone() for name, it in weights.items()})["model.safetensors"]
    check_weights(config, stored_tensors(Path("model.safetensors"), data))


NAME = "encoder.blocks.0.feed_forward.inner.weight"


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_numbers_of_every_float_type_are_read_as_torch_reads_them(config, weights, dtype) -> None:
    weights[NAME] = torch.randn(12, 8).to(dtype)
    check(config, weights)
    stored = stored_tensors(Path("w"), model_files(weights={"w": weights[NAME]})["model.safetensors"])["w"]
    assert torch.tensor(stored.array()).equal(weights[NAME].float() if dtype == torch.bfloat16 else weights[NAME])


@pytest.mark.parametrize(
    "value",
    [
        torch.full((12, 8), torch.nan), torch.full((12, 8), -torch.inf, dtype=torch.bfloat16),
        torch.full((12, 8), torch.inf, dtype=torch.float16), torch.full((12, 8), 1e300, dtype=torch.float64),
        torch.ones(12, 8, dtype=torch.int32), torch.ones(12, 8, dtype=torch.bool), torch.ones(8, 12), torch.ones(12),
        torch.ones(12, 8).to(torch.float8_e4m3fn), torch.ones(0, 8),
    ],
    ids=lambda it: f"{it.dtype} {tuple(it.shape)}",
)  # fmt: skip
def test_a_weight_that_does_not_fit_is_named(config, weights, value: torch.Tensor) -> None:
    with pytest.raises(ModelError) as caught:
        check(config, {**weights, NAME: value})
    assert caught.value.name == NAME and caught.value.fix


HEADERS = ["{}", "[]", "null", '"w"', "[" * 9, '{"w": 1}', '{"w": {}}']
ENTRY = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
CHANGES: list[dict[str, Any]] = [
    {"shape": [-1]}, {"shape": [2]}, {"shape": 1}, {"shape": ["a"]}, {"shape": [2**70]}, {"dtype": []}, {"more": 1},
    {"data_offsets": [4, 8]}, {"data_offsets": [0, 3]}, {"data_offsets": [4, 0]}, {"data_offsets": [0.0, 4.0]},
    {"data_offsets": [0]}, {"data_offsets": [0, 2**70]}, {"data_offsets": None},
]  # fmt: skip


@pytest.mark.parametrize("header", [*HEADERS, *(json.dumps({"w": ENTRY | it}) for it in CHANGES)])
def test_a_damaged_header_is_an_error(header: str) -> None:
    for data in (struct.pack("<Q", len(header)) + header.encode() + bytes(4), b"", bytes(7), struct.pack("<Q", 99)):
        with pytest.raises(ModelError) as caught:
            stored_tensors(Path("model.safetensors"), data)
        assert caught.value.name == "model.safetensors" and caught.value.fix


def test_missing_and_unknown_weights_are_named(config, weights) -> None:
    value = weights.pop(NAME)
    with pytest.raises(ModelError) as caught:
        check(config, {**weights, "other": value})
    assert caught.value.name == NAME and "other is unknown" in caught.value.what and "(12, 8)" in caught.value.expected
    with pytest.raises(ModelError) as caught:
        check(config, {**weights, NAME: value, "other": value})
    assert caught.value.name == "other"


def test_a_missing_block_names_the_setting(config, weights) -> None:
    with pytest.raises(ModelError) as caught:
        check(replace(config, n_decoder_layers=2), weights)
    assert (caught.value.name, caught.value.value) == ("model.n_decoder_layers", 2)


def test_tied_weights_may_have_both_names_if_they_are_equal(config, weights) -> None:
    check(config, weights)
    with pytest.raises(ModelError) as caught:
        check(config, {**weights, "decoder.projection.weight": torch.zeros(11, 8)})
    assert caught.value.name == "decoder.projection.weight"


def test_only_its_class_knows_the_weights_of_a_custom_part(config, weights) -> None:
    own = replace(config, feed_forward="my:Net", attention="my:Attend")
    weights |= {NAME: torch.ones(3, dtype=torch.int64), "encoder.blocks.0.attention.attend.slope": torch.ones(2)}
    check(own, weights)
    for name, shape in {"decoder.norm.weight": (8,), "decoder.blocks.0.attention.out.weight": (8, 9)}.items():
        with pytest.raises(ModelError) as caught:
            check_shapes(own, {**weight_table(own), name: shape})
        assert caught.value.name == name


def test_a_decoder_reads_no_custom_front(config) -> None:
    own = replace(config, topology="decoder-only", front="my:Front")
    with pytest.raises(ModelError) as caught:
        check_shapes(own, {**weight_table(own), "embedding.weight": (10, 8)})
    assert caught.value.name == "embedding.weight"


def test_what_the_check_accepts_loads(config, weights) -> None:
    load_weights(build(config), weights)
