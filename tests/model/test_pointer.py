"""The pointer: its equation in plain loops, in a model with padding, cache and beams, and what it is good for."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor

from clearhead.config import ModelConfig
from clearhead.decode.engines.torch_engine import TorchEngine
from clearhead.errors import ModelError
from clearhead.inspection.record.recorder import record
from clearhead.model.attention import Attend
from clearhead.model.masks import padding_mask
from clearhead.model.pointer import Pointer
from clearhead.model.transformer import build
from tests.builders import small_model

V, D, H = 11, 8, 2
SOURCE = torch.tensor([[3, 4, 3, 6, 3, 2], [8, 9, 9, 2, 0, 0]])
TARGET = torch.tensor([[1, 2, 3, 4], [1, 5, 6, 7]])
MASK = padding_mask(SOURCE)


small = partial(
    small_model, vocab=V, d_model=D, n_heads=H, d_ff=12, max_len=400, n_encoder_layers=1, copy=True, moved_by=0.3
)


def written_out(x: Tensor, logits: Tensor, weights: Tensor, source: Tensor, pointer: Pointer) -> Tensor:
    """p(w) of every row, step and token, by the formula of the paper. (B, T, V)"""
    p = torch.empty_like(logits)
    for b, t in np.ndindex(*logits.shape[:2]):
        z = float(x[b, t] @ pointer.gate.weight[0] + pointer.gate.bias[0])
        g, total = 1 / (1 + math.exp(-z)), sum(math.exp(float(score)) for score in logits[b, t])
        for w in range(logits.size(2)):
            attention = [float(weights[b, :, t, s].mean()) for s in range(source.size(1)) if source[b, s] == w]
            p[b, t, w] = g * math.exp(float(logits[b, t, w])) / total + (1 - g) * sum(attention)
    return p


@torch.no_grad()
def test_it_is_the_papers_equation_also_where_a_token_stands_in_the_source_more_than_once() -> None:
    pointer, x, logits = Pointer(D), torch.randn(2, 4, D), torch.randn(2, 4, V)
    torch.nn.init.normal_(pointer.gate.bias)
    weights = torch.randn(2, H, 4, 6).masked_fill(~MASK, -math.inf).softmax(-1)
    log_p = pointer(x, logits, weights, pointer.read(SOURCE))
    torch.testing.assert_close(log_p.exp(), written_out(x, logits, weights, SOURCE, pointer))
    torch.testing.assert_close(log_p.exp().sum(-1), torch.ones(2, 4))


@torch.no_grad()
@pytest.mark.parametrize("pre_norm", [False, True])
def test_a_model_copies_by_the_last_blocks_attention_to_the_source(pre_norm) -> None:
    net, seen = small(pre_norm=pre_norm, n_kv_heads=1), []
    net.decoder.projection.register_forward_hook(lambda _, inputs, output: seen.extend([inputs[0], output]))
    with record(net) as trace:
        log_p = net(SOURCE, TARGET, source_mask=MASK)
    weights = trace["decoder.1.cross"].weights.values
    torch.testing.assert_close(log_p.exp(), written_out(*seen, weights, SOURCE, net.decoder.pointer))
    assert not weights[1, :, :, 4:].any()  # padding is no token to copy
    memory = net.encode(SOURCE, mask=MASK)
    newest = net.decoder(TARGET, memory, memory_mask=MASK, source=SOURCE, newest=True)
    torch.testing.assert_close(newest, log_p[:, -1:])


@torch.no_grad()
def test_without_it_the_same_seed_builds_the_same_weights() -> None:
    nets = []
    for copy in (False, True):
        torch.manual_seed(1)
        config = ModelConfig(src_vocab_size=V, tgt_vocab_size=V, d_model=D, n_heads=H, d_ff=12, copy=copy)
        nets.append(build(config).state_dict())
    assert set(nets[1]) - set(nets[0]) == {"decoder.pointer.gate.weight", "decoder.pointer.gate.bias"}
    assert all(nets[0][name].equal(nets[1][name]) for name in nets[0])


@torch.no_grad()
def test_cached_decoding_of_beams_is_the_full_forward() -> None:
    net, beams = small(), 3
    tokens = torch.randint(V, (2 * beams, 4))
    copies = [it.repeat_interleave(beams, 0) for it in (SOURCE, MASK)]
    expected = net(copies[0], tokens, source_mask=copies[1])
    cache = net.decoder.new_cache(2 * beams, 4, net.encode(SOURCE, mask=MASK), SOURCE)
    found = [net.decoder(tokens[:, t : t + 1], memory_mask=MASK, cache=cache) for t in range(2)]
    cache.select_memory(torch.tensor([1]))  # the second source alone goes on
    cache.select(torch.tensor([3, 4, 5]))
    found += [net.decoder(tokens[3:, t : t + 1], memory_mask=MASK[1:], cache=cache) for t in range(2, 4)]
    torch.testing.assert_close(torch.cat(found[:2], 1), expected[:, :2], rtol=0, atol=1e-12)
    torch.testing.assert_close(torch.cat(found[2:], 1), expected[3:, 2:], rtol=0, atol=1e-12)


@torch.no_grad()
def test_search_ranks_by_what_the_model_says() -> None:
    net = small()
    with TorchEngine(net, pad=0).prefill([[3, 4, 3, 6, 3, 2], [8, 9, 9, 2]], 4) as decoding:
        decoding.step(np.array([[1], [1]]), V)
        decoding.select(np.array([0, 1]), np.array([[0, 0], [0, 0]]))
        log_p, ids = decoding.step(np.array([[2, 3], [5, 4]]), V)
    prefixes = torch.tensor([[1, 2], [1, 3], [1, 5], [1, 4]])
    expected = net(SOURCE.repeat_interleave(2, 0), prefixes, source_mask=MASK.repeat_interleave(2, 0))[:, -1]
    expected = expected.view(2, 2, V).gather(-1, torch.from_numpy(ids))
    torch.testing.assert_close(torch.from_numpy(log_p), expected, rtol=0, atol=1e-12)


@torch.no_grad()
def test_long_sources_take_the_fused_path_without_a_difference() -> None:
    net, source = small(), torch.randint(1, V, (2, 270))
    source[1, 100:] = 0
    fused = net(source, TARGET, source_mask=padding_mask(source))
    for module in net.modules():
        if isinstance(module, Attend):
            assert module.fused_from <= 270
            module.fused_from = 10**9
    torch.testing.assert_close(fused, net(source, TARGET, source_mask=padding_mask(source)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float32])
def test_answers_and_gradients_are_finite_in_every_precision_also_of_an_empty_source(precision) -> None:
    net, source = small().float().train(), SOURCE.clone()
    source[1] = 0
    with torch.no_grad():
        net.decoder.pointer.gate.bias.fill_(-200.0)  # sigmoid is 0 in float32
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == torch.bfloat16):
        log_p = net(source, TARGET, source_mask=padding_mask(source))
    log_p.log_softmax(-1)[..., :8].sum().backward()
    assert log_p.dtype == torch.float32 and log_p.isfinite().all()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())


def test_gradients_are_those_of_the_equation() -> None:
    pointer, source = Pointer(D), Pointer.read(SOURCE)
    x, logits, scores = (torch.randn(shape, requires_grad=True) for shape in ((2, 3, D), (2, 3, V), (2, H, 3, 6)))
    assert torch.autograd.gradcheck(lambda *it: pointer(*it[:2], it[2].softmax(-1), source), (x, logits, scores))


@pytest.mark.parametrize("use", [lambda d, m: d(TARGET, m), lambda d, m: d.new_cache(2, 4, m)])
def test_a_decoder_that_copies_refuses_to_do_without_the_source(use) -> None:
    with pytest.raises(ModelError) as caught:
        use(small().decoder, torch.randn(2, 6, D))
    assert caught.value.name == "source" and "pass source" in caught.value.fix


@pytest.mark.parametrize("copy", [False, True])
def test_only_a_pointer_repeats_tokens_that_were_never_a_target(copy) -> None:
    """To repeat two tokens is learned from those below 100, and asked of those from 100 to 109."""
    sizes = {"src_vocab_size": 110, "tgt_vocab_size": 110, "d_model": 32, "n_heads": 2, "d_ff": 32, "max_len": 8}
    net = build(ModelConfig(**sizes, n_encoder_layers=1, n_decoder_layers=1, dropout=0.0, copy=copy))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)

    def batch(first: int, end: int) -> tuple[Tensor, Tensor]:
        source = torch.randint(first, end, (32, 2))
        return source, torch.cat([torch.ones(32, 1, dtype=torch.long), source[:, :-1]], 1)

    for _ in range(120):
        source, shifted = batch(3, 100)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(source, shifted).flatten(0, 1), source.flatten()).backward()
        optimizer.step()
    right = []
    for source, shifted in (batch(3, 100), batch(100, 110)):
        right.append(float((net.eval()(source, shifted).argmax(-1) == source).double().mean()))
    assert right[0] > 0.7  # either way
    assert right[1] > 0.6 if copy else right[1] < 0.1
