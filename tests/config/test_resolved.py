"""Two configurations of the same model resolve to the same settings."""

import pytest

from clearhead.config import ModelConfig


@pytest.mark.parametrize(
    ("short", "whole"),
    [
        ({}, {"n_kv_heads": 4, "d_head": 8, "attention_scale": 8**-0.5, "embedding_scale": 32**0.5}),
        ({}, {"attention_dropout": 0.1, "activation_dropout": 0.1, "feed_forward": "relu", "final_norm": False}),
        ({"bias": False}, {"qkv_bias": False, "bias": False}),
        ({"tie": "none"}, {"tie": "none", "projection_bias": True, "start_id": 1}),
        ({"topology": "decoder-only"}, {"topology": "decoder-only", "tie": "target", "projection_bias": False}),
    ],
)
def test_a_default_resolves_to_its_value(short, whole) -> None:
    sizes = {"d_model": 32, "n_heads": 4}
    assert ModelConfig(**sizes, **short).resolved() == ModelConfig(**sizes, **whole).resolved()


def test_another_value_is_told_from_the_default() -> None:
    assert ModelConfig(qkv_bias=False).resolved() != ModelConfig().resolved()
