"""The whole model: its parts in their places, its parameters, its dropout. Its equations: test_combinations.py."""

import math
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from clearhead.config import Config, ModelConfig, preset
from clearhead.errors import ConfigError, ModelError
from clearhead.model import attention, dropout
from clearhead.model.attention import Attend
from clearhead.model.masks import padding_mask
from clearhead.model.positions import sinusoid
from clearhead.model.transformer import Decoder, Encoder, EncoderDecoder, build
from tests.builders import model_config, moved

V, D, F = 11, 8, 12
SOURCE, TARGET = torch.tensor([[3, 4, 5, 6, 7], [8, 9, 10, 1, 0]]), torch.tensor([[1, 2, 3, 4], [1, 5, 6, 7]])
POSITIONS = ["sinusoidal", "learned", "rotary", "relative", "alibi"]

all_positions = pytest.mark.parametrize("positions", POSITIONS)


small = partial(model_config, vocab=V, d_model=D, n_heads=2, d_ff=F, max_len=400)


def size(net: nn.Module) -> int:
    return sum(parameter.numel() for parameter in net.parameters())


@pytest.mark.parametrize(
    ("name", "source", "target", "tie", "expected"),
    [
        ("base", 37_000, 37_000, "all", 63_082_496),
        ("big", 37_000, 37_000, "all", 214_245_376),
        ("base", 10_000, 10_000, "none", 59_508_496),
    ],
)
def test_the_papers_models_have_the_parameters_that_are_stated(name, source, target, tie, expected) -> None:
    sizes = {"model.src_vocab_size": source, "model.tgt_vocab_size": target, "model.tie": tie}
    with torch.device("meta"):
        net = build(Config().override(preset(name) | sizes).model)
    assert size(net) == expected == sum(p.numel() for p in net.parameters() if p.requires_grad)


@pytest.mark.parametrize(
    ("row", "name", "values"),
    [
        ("A", "n_heads", (1, 4, 16, 32)),
        ("C", "n_layers", (2, 4, 8)),
        ("C", "d_model", (256, 1024)),
        ("C", "d_ff", (1024, 4096)),
    ],
)
def test_the_variations_of_table_3_have_the_parameters_of_the_formula(row, name, values) -> None:
    for value in values:
        changed = {"n_encoder_layers": value, "n_decoder_layers": value} if name == "n_layers" else {name: value}
        config = ModelConfig(src_vocab_size=37_000, tgt_vocab_size=37_000, **changed)
        with torch.device("meta"):
            net = build(config)
        d, f, n = config.d_model, config.d_ff, value if name == "n_layers" else 6
        attention, feed_forward, norm = 4 * (d * d + d), d * f + f + f * d + d, 2 * d
        encoder, decoder = attention + feed_forward + 2 * norm, 2 * attention + feed_forward + 3 * norm
        assert size(net) == 37_000 * d + n * (encoder + decoder)
        heads = {module.n_heads for module in net.modules() if hasattr(module, "n_heads")}
        assert heads == {value if name == "n_heads" else 8}


@pytest.mark.parametrize("tie", ["all", "target", "none"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("norm", "per_norm"), [("layer", 2 * D), ("rms", D)])
@pytest.mark.parametrize(("activation", "inner"), [("relu", 1), ("swiglu", 2)])
@pytest.mark.parametrize("n_kv_heads", [1, None])
def test_parameters_are_those_of_the_formula(tie, bias, norm, per_norm, activation, inner, n_kv_heads) -> None:
    net = build(small(tie=tie, bias=bias, norm=norm, feed_forward=activation, n_kv_heads=n_kv_heads, pre_norm=True))
    shared = D // 2 if n_kv_heads else D
    per_attention = 2 * D * D + 2 * D * shared + bias * (2 * D + 2 * shared)
    per_feed_forward = D * inner * F + F * D + bias * (inner * F + D)
    encoder = 2 * (per_attention + per_feed_forward + 2 * per_norm) + per_norm
    decoder = 2 * (2 * per_attention + per_feed_forward + 3 * per_norm) + per_norm
    matrices = {"all": 1, "target": 2, "none": 3}[tie]
    assert size(net) == encoder + decoder + matrices * V * D + (V if tie == "none" else 0)


def test_ties_are_one_matrix_and_a_projection_of_its_own_has_a_bias() -> None:
    for tie in ("all", "target", "none"):
        net = build(small(tie=tie))
        source, target = net.encoder.embedding.weight, net.decoder.embedding.weight
        project = net.decoder.projection
        assert (source is target) == (tie == "all")
        assert (project.weight is target) == (tie != "none")
        assert (project.bias is None) == (tie != "none")
    for tie in ("all", "target", "none"):
        net = build(small(tie=tie, topology="decoder-only"))
        assert (net.projection.weight is net.embedding.weight) == (net.projection.bias is None) == (tie != "none")


def test_the_topology_decides_which_stacks_there_are() -> None:
    assert isinstance(build(small()), EncoderDecoder)
    assert isinstance(build(small(topology="encoder-only", tgt_vocab_size=0)), Encoder)
    alone = build(small(topology="decoder-only", src_vocab_size=0))
    assert isinstance(alone, Decoder) and all(block.cross_attention is None for block in alone.blocks)


@pytest.mark.parametrize(
    ("topology", "side"), [("encoder-only", "src"), ("decoder-only", "tgt"), ("encoder-decoder", "src")]
)
def test_a_model_without_a_vocabulary_is_refused_with_what_to_do(topology, side) -> None:
    with pytest.raises(ConfigError) as caught:
        build(small(topology=topology, src_vocab_size=0, tgt_vocab_size=0))
    assert (caught.value.name, caught.value.value) == (f"model.{side}_vocab_size", 0)


def test_the_same_seed_builds_the_same_weights() -> None:
    nets = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        nets.append(torch.nn.utils.parameters_to_vector(build(small()).parameters()))
    assert nets[0].equal(nets[1]) and not nets[0].equal(nets[2])


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_embeddings_are_scaled_then_positions_added_then_dropped_out(side) -> None:
    net = build(small(dropout=0.5))
    stack, tokens = (net.encoder, SOURCE) if side == "encoder" else (net.decoder, TARGET)
    seen: list[Tensor] = []
    stack.blocks[0].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    net.eval()(SOURCE, TARGET)
    net.train()(SOURCE, TARGET)
    expected = stack.embedding.weight[tokens] * math.sqrt(D) + sinusoid(tokens.size(1), D)
    torch.testing.assert_close(seen[0], expected, rtol=0, atol=1e-12)
    kept = seen[1] != 0
    torch.testing.assert_close(seen[1][kept], 2 * expected[kept], rtol=0, atol=1e-12)
    assert 0.2 < kept.double().mean() < 0.8


@pytest.mark.parametrize("pre_norm", [False, True])
def test_dropout_stands_where_the_paper_has_it_and_nowhere_while_evaluating(pre_norm, monkeypatch) -> None:
    shapes: list[tuple[int, ...]] = []

    def spy(x: Tensor, p: float) -> Tensor:
        shapes.append(tuple(x.shape)) if p else None
        return x

    monkeypatch.setattr(attention, "drop", spy)
    monkeypatch.setattr(dropout, "dropout", spy)
    net = build(small(dropout=0.1, pre_norm=pre_norm))
    net.train()(SOURCE, TARGET)
    source, target, between, own = (2, 5, D), (2, 4, D), (2, 2, 4, 5), (2, 2, 4, 4)
    encoder_block = [(2, 2, 5, 5), source, (2, 5, F), source]  # weights, sub-layer; inner layer, sub-layer
    decoder_block = [own, target, between, target, (2, 4, F), target]
    assert shapes == [source, *2 * encoder_block, target, *2 * decoder_block]
    shapes.clear()
    net.eval()(SOURCE, TARGET)
    assert shapes == []


@pytest.mark.parametrize("activation", ["relu", "swiglu"])
def test_attention_weights_and_the_feed_forward_network_may_have_a_dropout_of_their_own(activation) -> None:
    def probabilities(**settings: float) -> tuple[set[float], set[float], set[float]]:
        parts = list(build(small(feed_forward=activation, dropout=0.3, **settings)).named_modules())
        drops = {name: it.p for name, it in parts if isinstance(it, dropout.Dropout)}
        inside = {p for name, p in drops.items() if name.endswith("feed_forward.dropout")}
        others = {p for name, p in drops.items() if not name.endswith("feed_forward.dropout")}
        return {it.dropout for _, it in parts if isinstance(it, Attend)}, inside, others

    assert probabilities() == ({0.3}, {0.3}, {0.3})
    assert probabilities(attention_dropout=0.0, activation_dropout=0.2) == ({0.0}, {0.2}, {0.3})


def test_training_repeats_from_its_seed_and_evaluation_needs_none() -> None:
    net, outputs = build(small(dropout=0.3)), []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outputs.append((net.train()(SOURCE, TARGET), net.eval()(SOURCE, TARGET)))
    (first, still), (again, still_again), (other, _) = outputs
    assert first.equal(again) and not first.equal(other) and still.equal(still_again)


@pytest.mark.parametrize("pre_norm", [False, True])
def test_a_pre_norm_stack_alone_ends_in_a_final_norm(pre_norm) -> None:
    net = moved(build(small(pre_norm=pre_norm)))
    for stack in (net.encoder, net.decoder):
        outputs: list[Tensor] = []
        stack.blocks[-1].register_forward_hook(lambda _, inputs, output, outputs=outputs: outputs.append(output))
        final = net.encode(SOURCE) if stack is net.encoder else net(SOURCE, TARGET)
        expected = stack.norm(outputs[0]) if pre_norm else outputs[0]
        assert final.equal(expected if stack is net.encoder else stack.projection(expected))
        assert bool(list(stack.norm.parameters())) == pre_norm


@pytest.mark.parametrize("positions", ["relative", "alibi"])
def test_biases_look_both_ways_in_the_encoder_and_back_in_the_decoder(positions) -> None:
    net, at = moved(build(small(positions=positions))), torch.arange(6)[None]
    ahead, behind = (0, 0, 1, 4), (0, 0, 4, 1)
    for stack, two_sided in ((net.encoder, True), (net.decoder, False)):
        bias, nearest = stack.positions.bias(at, at), stack.positions.bias(at, at)[0, 0, 3, 3]
        assert bias[behind] != nearest
        assert (bias[ahead] != nearest) == two_sided


@all_positions
def test_cross_attention_knows_no_positions(positions) -> None:
    net, memory = moved(build(small(positions=positions))), torch.randn(2, 5, D)
    mask, order = padding_mask(SOURCE), torch.tensor([4, 2, 0, 1, 3])
    logits = net.decoder(TARGET, memory, memory_mask=mask)
    shuffled = net.decoder(TARGET, memory[:, order], memory_mask=mask[..., order])
    torch.testing.assert_close(shuffled, logits, rtol=0, atol=1e-12)


@all_positions
@torch.no_grad()
def test_beams_read_one_memory_as_if_each_had_its_own(positions) -> None:
    net, beams, mask = moved(build(small(positions=positions, n_kv_heads=1))), 3, padding_mask(SOURCE)
    tokens, memory = torch.randint(V, (2 * beams, 4)), net.encode(SOURCE, mask=mask)
    cache, copies = net.decoder.new_cache(2 * beams, 4, memory), memory.repeat_interleave(beams, 0)
    expected = net.decoder(tokens, copies, memory_mask=mask.repeat_interleave(beams, 0))
    for t in range(4):
        logits = net.decoder(tokens[:, t : t + 1], memory_mask=mask, cache=cache)
        torch.testing.assert_close(logits[:, 0], expected[:, t], rtol=0, atol=1e-12)


@torch.no_grad()
def test_a_memory_is_projected_once_a_source_and_not_read_again() -> None:
    net = moved(build(small()))
    cache = net.decoder.new_cache(2, 4, net.encode(SOURCE))
    nothing = torch.full((2, 5, D), torch.nan)
    torch.testing.assert_close(net.decoder(TARGET, nothing, cache=cache), net(SOURCE, TARGET), rtol=0, atol=1e-12)


@pytest.mark.parametrize("use", [lambda decoder: decoder(TARGET), lambda decoder: decoder.new_cache(2, 4)])
def test_a_decoder_without_its_memory_is_refused_with_what_to_do(use) -> None:
    with pytest.raises(ModelError) as caught:
        use(build(small()).decoder)
    assert caught.value.name == "memory" and "pass memory" in caught.value.fix


@all_positions
def test_long_sequences_take_the_fused_path_without_a_difference(positions) -> None:
    net = moved(build(small(positions=positions)))
    source, target = torch.randint(1, V, (2, 270)), torch.randint(1, V, (2, 260))
    source[1, 100:] = 0
    mask = padding_mask(source)
    fused = net(source, target, source_mask=mask)
    for module in net.modules():
        if isinstance(module, Attend):
            assert module.fused_from <= 260
            module.fused_from = 10**9
    torch.testing.assert_close(fused, net(source, target, source_mask=mask), rtol=0, atol=1e-12)


@all_positions
@pytest.mark.parametrize("fused_from", [1, 10**9])
@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float32])
def test_an_empty_source_gives_finite_logits_and_gradients_in_every_precision(positions, fused_from, precision) -> None:
    net = build(small(positions=positions)).float()
    for module in net.modules():
        if isinstance(module, Attend):
            module.fused_from = fused_from
    source = SOURCE.clone()
    source[1] = 0
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == torch.bfloat16):
        logits = net(source, TARGET, source_mask=padding_mask(source))
    logits.float().square().sum().backward()
    assert logits.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in net.parameters())


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_a_text_longer_than_the_table_of_positions_is_refused(positions) -> None:
    net = build(small(positions=positions, max_len=4))
    with pytest.raises(ModelError) as caught:
        net(SOURCE, TARGET)
    assert (caught.value.name, caught.value.value) == ("positions", 4)


@torch.no_grad()
def test_a_cache_keeps_the_heads_of_keys_and_values_only_and_refuses_what_it_has_no_room_for() -> None:
    net = build(small(n_kv_heads=1)).eval()
    cache = net.decoder.new_cache(2, 5, net.encode(SOURCE))
    assert all(layer.keys.shape == (2, 1, 5, D // 2) and layer.memory[0].size(1) == 1 for layer in cache.layers)
    net.decoder(TARGET, cache=cache)
    with pytest.raises(ModelError) as caught:
        net.decoder(TARGET, cache=cache)
    assert (caught.value.name, caught.value.value) == ("tokens", 8)
