"""The engine torch in bfloat16 answers almost as in float32, and copies only the weights of linear layers."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from clearhead.api import load
from clearhead.config import DecodeConfig, ModelConfig, SpecialTokens
from clearhead.decode.engines.torch_engine import TorchEngine
from clearhead.decode.model_handle import as_handle
from clearhead.decode.registry import choice_for, choose_engine, open_engine
from clearhead.decode.session import Session
from clearhead.errors import ConfigError
from clearhead.model.norms import LayerNorm
from clearhead.model.transformer import EncoderDecoder

from .conftest import SIZE, SOURCES, model

MODELS: list[dict[str, Any]] = [
    {},
    {"tie": "none", "logit_scale": 0.3, "feed_forward": "swiglu", "norm": "rms", "pre_norm": True},
    {"copy": True, "positions": "alibi"},
    {"topology": "decoder-only", "positions": "rotary", "n_kv_heads": 1, "bias": False},
    {"topology": "decoder-only", "positions": "relative"},
]


def steps(net: nn.Module, config: ModelConfig, precision: str) -> list[np.ndarray[Any, Any]]:
    """The log-probabilities (B, W, V) of three steps, with two beams from the second on."""
    engine, found = open_engine(as_handle(net, config), DecodeConfig(engine="torch", precision=precision)), []
    with engine.prefill(SOURCES, 3) as decoding:  # type: ignore[union-attr]
        tokens = np.array([[1], [1], [1], [1], [1]])
        for _ in range(3):
            log_p, ids = decoding.step(tokens, SIZE)
            found.append(np.take_along_axis(log_p, ids.argsort(-1), -1))
            decoding.select(np.arange(5), np.zeros((5, 2), np.int64))
            tokens = np.array([[6, 30]] * 5)
    return found


@pytest.mark.parametrize("settings", MODELS, ids=str)
def test_log_probabilities_are_close_to_those_in_float32(settings: dict[str, Any]) -> None:
    net, config = model(**settings)
    for exact, found in zip(steps(net, config, "fp32"), steps(net, config, "bf16")):
        assert found.dtype == np.float32 and 1e-6 < np.abs(exact - found).max() < 0.1
        np.testing.assert_allclose(np.exp(found).sum(-1), 1, atol=1e-5)


@pytest.mark.parametrize("beam", [1, 3])
def test_almost_every_answer_is_that_of_float32(beam: int) -> None:
    net, config = model()
    for weight in net.parameters():
        weight.data *= 1.5  # far enough from uniform that answers differ
    sources = [[4 + (3 * n + 5 * i) % 36 for i in range(1 + n % 7)] for n in range(40)]
    answers = {}
    for precision in ("fp32", "bf16"):
        decode = DecodeConfig(engine="torch", precision=precision, beam=beam, max_len=8)  # type: ignore[arg-type]
        session = Session(open_engine(as_handle(net, config), decode), decode, SpecialTokens(), max_len=24)
        answers[precision] = [it.ids for it, *_ in session.answers(sources)]
    assert len(set(answers["fp32"])) > 20
    assert sum(one == other for one, other in zip(answers["fp32"], answers["bf16"])) >= 32


def test_the_copy_has_linear_weights_of_its_own_and_shares_the_others() -> None:
    net, _ = model(tie="all")
    copy, _ = TorchEngine.in_precision(net, "bf16")
    assert TorchEngine.in_precision(net, "fp32")[0] is net and isinstance(copy, EncoderDecoder)
    linear = {id(p) for it in copy.modules() if isinstance(it, nn.Linear) for p in it.parameters()}
    for part, other in zip(net.modules(), copy.modules(), strict=True):
        for mine, theirs in zip(part.parameters(recurse=False), other.parameters(recurse=False), strict=True):
            assert mine.dtype == torch.float32
            assert theirs.dtype == torch.bfloat16 if id(theirs) in linear else theirs is mine
    assert copy.decoder.embedding.weight is net.decoder.embedding.weight  # type: ignore[union-attr]


def test_products_and_caches_are_bfloat16_and_norms_float32() -> None:
    net, _ = model()
    (copy, autocast), kinds = TorchEngine.in_precision(net, "bf16"), {}
    for it in copy.modules():
        if isinstance(it, nn.Linear | LayerNorm):
            it.register_forward_hook(lambda it, _, y: kinds.setdefault(isinstance(it, nn.Linear), set()).add(y.dtype))
    assert isinstance(copy, EncoderDecoder)
    with torch.inference_mode(), autocast:
        memory = copy.encode(torch.tensor([[5, 6]]))
        cache = copy.decoder.new_cache(1, 2, memory)
        copy.decoder(torch.tensor([[1]]), cache=cache)
    assert kinds == {True: {torch.bfloat16}, False: {torch.float32}}
    (layer, *_) = cache.layers
    assert layer.memory is not None and {layer.keys.dtype, layer.memory[0].dtype} == {torch.bfloat16}


def test_auto_takes_it_where_packed_weights_cannot_run() -> None:
    net, config = model()
    for device, precision, name in (("cpu", "bf16", "packed"), ("cuda", "bf16", "torch"), ("cuda", "fp32", "torch")):
        assert choose_engine(config, DecodeConfig(precision=precision), device) == name  # type: ignore[arg-type]
    assert "packed" not in choice_for(as_handle(net, config), DecodeConfig()).passed_over  # in fp32, torch is faster
    with pytest.raises(ConfigError) as caught:
        choose_engine(config, DecodeConfig(precision="int8"), "cuda")
    assert (caught.value.name, caught.value.value) == ("decode.precision", "int8")


def test_an_evaluation_records_it(model_folder) -> None:
    found = load(model_folder, device="cpu").evaluate(
        [("I am hungry.", "J'ai faim.")], engine="torch", precision="bf16"
    )
    assert {"engine": "torch", "precision": "bf16"}.items() <= found.to_dict().items()
