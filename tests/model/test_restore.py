"""A configuration that doesn't belong to the weights is found before a model of its size is built."""

import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

import pytest
import torch

from clearhead.config import ModelConfig
from clearhead.errors import ConfigError, ModelError
from clearhead.model import restore as module
from clearhead.model.feed_forward import FEED_FORWARDS, FeedForward
from clearhead.model.restore import restore
from clearhead.model.transformer import build

HUGE = 10**9
DEEP = 1000
SHAPES = {"encoder-decoder": {}, "decoder-only": {}, "encoder-only": {"head": "class", "n_classes": 3}}


def small(topology: str = "encoder-decoder", **changed: Any) -> ModelConfig:
    sizes = {"src_vocab_size": 11, "tgt_vocab_size": 11, "d_model": 8, "n_heads": 2, "d_ff": 12, "max_len": 20}
    return ModelConfig(
        topology=topology, **sizes | {"n_encoder_layers": 2, "n_decoder_layers": 2} | SHAPES[topology] | changed
    )


@pytest.mark.parametrize("topology", SHAPES)
@pytest.mark.parametrize("changed", [{}, {"tie": "none", "pre_norm": True}, {"positions": "learned", "n_kv_heads": 1}])
def test_a_model_is_restored_with_its_weights(topology, changed) -> None:
    config = small(topology, **changed)
    weights = {name: torch.randn(weight.shape) for name, weight in build(config).state_dict().items()}
    if config.tie != "none":  # as they are written, each once
        weights = {name: weight for name, weight in weights.items() if not name.endswith("projection.weight")}
    found = restore(config, weights).state_dict()
    assert all(found[name].equal(weights[name]) for name in weights if "decoder.embedding" not in name)


@pytest.mark.parametrize(
    ("topology", "setting", "value"),
    [
        ("encoder-decoder", "n_encoder_layers", DEEP),
        ("encoder-decoder", "n_decoder_layers", DEEP),
        ("encoder-only", "n_encoder_layers", 1),
        ("decoder-only", "n_decoder_layers", DEEP),
        ("encoder-decoder", "d_model", 2**17),
        ("encoder-decoder", "d_ff", 2**20),
        ("encoder-decoder", "n_kv_heads", 1),
        ("encoder-only", "src_vocab_size", HUGE),
        ("decoder-only", "tgt_vocab_size", HUGE),
        ("encoder-only", "n_classes", HUGE),
        ("encoder-decoder", "feed_forward", "swiglu"),
    ],
)
def test_a_size_that_the_weights_do_not_have_is_an_error_at_once(topology, setting, value) -> None:
    config = small(topology)
    weights, start = build(config).state_dict(), time.monotonic()
    with pytest.raises(ModelError) as caught:
        restore(replace(config, **{setting: value}), weights)
    assert time.monotonic() - start < 2
    if "layers" in setting:
        assert (caught.value.name, caught.value.value) == (f"model.{setting}", value)
    else:
        assert caught.value.name in weights


def test_a_table_of_positions_is_no_larger_than_what_fits() -> None:
    weights = build(small(positions="learned")).state_dict()
    with pytest.raises(ModelError):
        restore(small(positions="learned", max_len=HUGE), weights)
    for positions in ("sinusoidal", "sinusoidal_halves"):
        with pytest.raises(ConfigError) as caught:
            small(positions=positions, max_len=HUGE)
        assert (caught.value.name, caught.value.value) == ("model.max_len", HUGE)


def test_numbers_that_no_tensor_can_have_are_an_error() -> None:
    with pytest.raises(ModelError):
        restore(small("encoder-only", src_vocab_size=2**62), build(small("encoder-only")).state_dict())


def test_nothing_is_built_where_the_shapes_are_wrong(monkeypatch) -> None:
    weights = build(small()).state_dict()
    monkeypatch.setattr(module, "build", None)
    with pytest.raises(ModelError):
        restore(small(n_encoder_layers=DEEP), weights)


def test_a_custom_part_is_built_once_and_never_without_memory(monkeypatch) -> None:
    class Reading(FeedForward):
        def __init__(self, d_model: int, d_ff: int) -> None:
            super().__init__(d_model, d_ff)
            self.inner.weight.detach().sum().item()  # impossible on the meta device

    monkeypatch.setitem(FEED_FORWARDS, "reading", Reading)
    monkeypatch.setattr(module, "is_custom", lambda name: name == "reading")
    config = small(feed_forward="reading")
    assert isinstance(restore(config, build(config).state_dict()).encoder.blocks[0].feed_forward, Reading)


def test_no_initial_weights_are_drawn_except_by_custom_parts(monkeypatch) -> None:
    class Random(FeedForward):
        def __init__(self, d_model: int, d_ff: int) -> None:
            super().__init__(d_model, d_ff)
            self.drawn = torch.empty(d_model).uniform_(5, 6)

    weights, before = build(small()).state_dict(), torch.get_rng_state()
    restore(small(), weights)
    assert torch.get_rng_state().equal(before)
    monkeypatch.setitem(FEED_FORWARDS, "random", Random)
    monkeypatch.setattr(module, "is_custom", lambda name: name == "random")
    model = restore(small(feed_forward="random"), weights)
    assert model.encoder.blocks[0].feed_forward.drawn.min() >= 5


def test_weights_of_another_model_name_what_is_missing() -> None:
    config, weights = small(), build(small()).state_dict()
    del weights["encoder.blocks.0.attention.qkv.weight"]
    with pytest.raises(ModelError, match=r"encoder\.blocks\.0\.attention\.qkv\.weight is missing"):
        restore(config, weights)


def test_a_model_is_restored_without_importing_the_compiler_of_torch() -> None:
    code = """if True:
        import sys
        from clearhead.config import ModelConfig
        from clearhead.model.restore import restore
        from clearhead.model.transformer import build
        config = ModelConfig(src_vocab_size=11, tgt_vocab_size=11, d_model=8, n_heads=2, d_ff=12, max_len=20)
        restore(config, build(config).state_dict())
        print(sorted({"sympy", "torch._dynamo"} & sys.modules.keys()))
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
