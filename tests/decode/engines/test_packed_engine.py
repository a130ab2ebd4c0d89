"""Packed weights change an answer a little, and neighbours in the batch don't change it at all."""

import numpy as np
import pytest
import torch
from torch import nn

from clearhead.config import DecodeConfig, SpecialTokens
from clearhead.decode.engines import packed_engine
from clearhead.decode.engines.packed_engine import PRODUCTS, Int8Product, PackedLinear, packed
from clearhead.decode.model_handle import as_handle
from clearhead.decode.registry import choose_engine, open_engine
from clearhead.decode.session import Session
from clearhead.errors import ConfigError
from clearhead.model.linear import Linear
from clearhead.model.transformer import Decoder

from .conftest import SOURCES, model

# Attention may add in another order in another batch. A difference in its last bit is enough to round one of the int8
# inputs of the next product to its neighbour, one of 255 steps, and each layer can add such a step.
NEAR = {"bf16": 1e-4, "int8": 0.03}

in_every_precision = pytest.mark.parametrize("precision", ["bf16", "int8"])


@in_every_precision
@pytest.mark.parametrize("bias", [True, False])
def test_a_layer_computes_what_the_unpacked_one_does_within_the_rounding_of_its_numbers(precision, bias) -> None:
    torch.manual_seed(0)
    layer, x = Linear(96, 48, bias=bias), torch.randn(2, 5, 96) * torch.tensor([1e-3, 1, 50, 1e4, 0])[:, None]
    if bias:
        nn.init.normal_(layer.bias)
    with torch.inference_mode():
        found = PRODUCTS[precision](layer.weight, layer.bias)(x)
        exact, bias_value = layer(x), 0.0 if layer.bias is None else layer.bias
        # Each factor is off by at most half a step: of its row's range over 127, or of 8 binary digits.
        size_w, size_x = layer.weight.abs(), x.abs()
        if precision == "int8":
            half = [it.amax(-1, keepdim=True).expand_as(it) / 254 for it in (size_w, size_x)]
        else:
            half = [size_w / 2**8, size_x / 2**8]
        bound = size_x @ half[0].T + half[1] @ size_w.T + half[1] @ half[0].T
        bound = bound + (0 if precision == "int8" else (exact - bias_value).abs() / 2**7)
    assert found.dtype == torch.float32 and found.shape == (2, 5, 48)
    assert ((found - exact).abs() <= bound * 1.01 + 1e-5).all() and not torch.equal(found[:, 1:4], exact[:, 1:4])
    assert torch.equal(found[:, 4], torch.zeros(2, 48) + bias_value)


@in_every_precision
def test_a_row_is_the_same_bit_for_bit_whatever_its_neighbours(precision) -> None:
    torch.manual_seed(0)
    layer, x = Linear(96, 300), torch.randn(33, 96)
    other = torch.cat((x[:1], x[1:] * 1000))
    with torch.inference_mode():
        it = PRODUCTS[precision](layer.weight, layer.bias)
        assert torch.equal(it(x)[0], it(other)[0]) and torch.equal(it(x)[0], it(x[:1])[0])


@in_every_precision
@pytest.mark.parametrize("beam", [1, 3])
def test_batch_mates_change_no_answer(precision, beam) -> None:
    net, config = model()
    engine = open_engine(as_handle(net, config), DecodeConfig(engine="packed", precision=precision))
    session = Session(engine, DecodeConfig(beam=beam), SpecialTokens(), max_len=24)
    for source, together in zip(SOURCES, session.answers(SOURCES)):
        [alone] = session.answers([source])
        assert [it.ids for it in alone] == [it.ids for it in together]
        for one, other in zip(alone, together):
            np.testing.assert_allclose(one.token_log_probabilities, other.token_log_probabilities, atol=NEAR[precision])


@in_every_precision
@pytest.mark.parametrize("settings", [
    {}, {"tie": "none", "logit_scale": 0.3, "feed_forward": "swiglu"}, {"copy": True, "tie": "all"}, {"bias": False},
    {"topology": "decoder-only", "positions": "rotary", "n_kv_heads": 1},
], ids=str)  # fmt: skip
def test_probabilities_are_close_to_those_of_the_unpacked_model(precision, settings) -> None:
    net, _ = model(**settings)
    small = packed(net, precision)
    tokens, target = torch.tensor([[5, 6, 7, 8]]), torch.tensor([[1, 9, 4, 30]])
    with torch.inference_mode():
        both = [it(target) if isinstance(it, Decoder) else it(tokens, target) for it in (net, small)]
    exact, found = (it.log_softmax(-1) for it in both)
    assert 1e-6 < (exact - found).abs().max() < 0.1


@in_every_precision
def test_only_the_products_change_and_the_weights_are_shared(precision) -> None:
    net, _ = model()
    small = packed(net, precision)
    layers = [it for it in small.modules() if isinstance(it, Linear)]
    assert all(isinstance(it, PackedLinear) and isinstance(it.product, PRODUCTS[precision]) for it in layers)
    assert not any(isinstance(it, PackedLinear) or "forward" in vars(it) for it in net.modules())
    assert all(one is other for one, other in zip(net.parameters(), small.parameters(), strict=True))


def test_a_layer_in_two_places_keeps_its_hooks_and_attributes_and_is_packed_once() -> None:
    net, _ = model()
    layer, called = net.decoder.blocks[0].attention.out, []
    net.decoder.blocks[0].cross_attention.out = layer
    layer.gain = 2.0
    layer.register_forward_hook(lambda *_: called.append(1))
    block = packed(net, "int8").decoder.blocks[0]
    assert isinstance(block.attention.out, PackedLinear) and block.attention.out is block.cross_attention.out
    assert block.attention.out.gain == 2.0
    block.attention.out(torch.ones(1, 32))
    assert called == [1]


def test_in_float32_nothing_is_packed() -> None:
    net, config = model()
    answers = [
        Session(open_engine(as_handle(net, config), DecodeConfig(engine=it)), DecodeConfig(), SpecialTokens(),
                max_len=24).answers(SOURCES)
        for it in ("torch", "packed")
    ]  # fmt: skip
    assert answers[0] == answers[1]


def test_inputs_get_seven_bits_where_eight_could_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x = Linear(64, 32), torch.randn(3, 64)
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict)
    with torch.inference_mode():
        it = Int8Product(layer.weight, layer.bias)
        assert it.zero == 64 and 1e-5 < (it(x) - layer(x)).abs().max() < 0.1


@in_every_precision
def test_a_machine_that_can_t_compute_in_a_precision_is_named(precision, monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(*_: object) -> None:
        raise RuntimeError("not implemented")

    monkeypatch.setitem(packed_engine.PRODUCTS, precision, lacking)
    net, config = model()
    with pytest.raises(ConfigError) as caught:
        open_engine(as_handle(net, config), DecodeConfig(engine="packed", precision=precision))
    assert (caught.value.name, caught.value.value) == ("decode.precision", precision)


def test_it_runs_on_the_cpu() -> None:
    _, config = model()
    with pytest.raises(ConfigError, match="on the CPU only"):
        choose_engine(config, DecodeConfig(engine="packed"), "cuda:0")
    assert choose_engine(config, DecodeConfig(precision="bf16")) == "packed"
