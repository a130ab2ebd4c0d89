"""Settings of the parts that other families of models need: each does what its formula says."""

import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.config.notations import read_rotary
from clearhead.errors import ConfigError
from clearhead.model.attention import CrossAttention, SelfAttention
from clearhead.model.feed_forward import FeedForward, GeGLU
from clearhead.model.fronts.tokens import Embedding, Projection
from clearhead.model.heads import ClassPredictor, TokenPredictor, TokenTransform
from clearhead.model.masks import recent_mask
from clearhead.model.norms import LayerNorm
from clearhead.model.positions import Rotary, SinusoidalHalves, sinusoid
from clearhead.model.transformer import Decoder, build
from tests.builders import model_config, moved

B, T, D, H, K, V = 2, 6, 12, 3, 6, 17
TOKENS = torch.tensor([[5, 6, 7, 8, 9, 10], [11, 4, 5, 1, 2, 3]])


small = partial(model_config, vocab=V, d_model=D, n_heads=H, d_ff=20, max_len=30, dropout=0.0)


def heads(x: Tensor, n: int) -> Tensor:
    return x.view(*x.shape[:2], n, -1).transpose(1, 2)


def test_heads_may_be_wider_or_narrower_than_their_share_of_the_model() -> None:
    part, x = moved(SelfAttention(D, H, d_head=K, n_kv_heads=1)), torch.randn(B, T, D)
    q, k, v = part.qkv(x).split([H * K, K, K], -1)
    scores = heads(q, H) @ heads(k, 1).transpose(-1, -2) / math.sqrt(K)
    mixed = (scores.softmax(-1) @ heads(v, 1)).transpose(1, 2).flatten(2)
    torch.testing.assert_close(part(x), part.out(mixed), rtol=0, atol=1e-12)
    assert part.out.in_features == H * K and part.out.out_features == D


@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_the_scale_of_the_scores_can_be_another_than_equation_1_has(scale) -> None:
    x, memory = torch.randn(B, T, D), torch.randn(B, 4, D)
    own, cross = moved(SelfAttention(D, H, scale=scale)), moved(CrossAttention(D, H, scale=scale))
    q, k, v = (heads(it, H) for it in own.qkv(x).chunk(3, -1))
    mixed = ((q @ k.transpose(-1, -2) * scale).softmax(-1) @ v).transpose(1, 2).flatten(2)
    torch.testing.assert_close(own(x), own.out(mixed), rtol=0, atol=1e-12)
    q, (k, v) = heads(cross.q(x), H), cross.project(memory)
    mixed = ((q @ k.transpose(-1, -2) * scale).softmax(-1) @ v).transpose(1, 2).flatten(2)
    torch.testing.assert_close(cross(x, (k, v)), cross.out(mixed), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("bias", "qkv_bias"), [(True, False), (False, True), (True, None)])
def test_the_projections_into_attention_have_their_own_setting_for_biases(bias, qkv_bias) -> None:
    net = build(small("encoder-decoder", bias=bias, qkv_bias=qkv_bias))
    wanted = bias if qkv_bias is None else qkv_bias
    for block in net.decoder.blocks:
        parts = (block.attention.qkv, block.cross_attention.q, block.cross_attention.kv)
        assert all((part.bias is not None) == wanted for part in parts)
        assert (block.attention.out.bias is not None) == bias == (block.feed_forward.inner.bias is not None)


@pytest.mark.parametrize(("tie", "shared", "tied"), [
    ("all", True, True), ("target", False, True), ("embeddings", True, False), ("none", False, False),
])  # fmt: skip
@pytest.mark.parametrize("bias", [None, True, False])
def test_tying_and_the_bias_of_the_projection_are_independent(tie, shared, tied, bias) -> None:
    net = build(small("encoder-decoder", tie=tie, projection_bias=bias))
    assert (net.encoder.embedding is net.decoder.embedding) == shared
    assert (net.decoder.projection.weight is net.decoder.embedding.weight) == tied
    assert (net.decoder.projection.bias is not None) == ((not tied) if bias is None else bias)


def test_embeddings_and_logits_have_scales() -> None:
    embedding, x = Embedding(V, D, scale=0.5), torch.randn(B, T, D)
    assert embedding(TOKENS).equal(F.embedding(TOKENS, embedding.weight) * 0.5)
    assert Embedding(V, D).scale == math.sqrt(D)
    project = Projection(D, V, tied=embedding, bias=True, scale=0.25)
    torch.testing.assert_close(project(x), (0.25 * x) @ embedding.weight.T + project.bias)
    net = build(small("decoder-only", embedding_scale=1.0, logit_scale=2.0, projection_bias=True))
    assert (net.embedding.scale, net.projection.scale) == (1.0, 2.0) and net.projection.bias is not None


def test_embeddings_can_be_normalised_after_positions_and_types() -> None:
    net = moved(build(small("encoder-only", embedding_norm=True, n_token_types=2)))
    seen: list[Tensor] = []
    net.blocks[0].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    types = torch.tensor([[0, 0, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1]])
    net(TOKENS, types)
    summed = net.embedding(TOKENS) + net.types(types)
    expected = net.embedding_norm(net.positions.embed(summed, torch.arange(T)[None]))
    torch.testing.assert_close(seen[0], expected)
    assert moved(build(small("decoder-only", embedding_norm=True))).embedding_norm is not None


@pytest.mark.parametrize(("pre", "final", "found"), [(True, None, True), (False, None, False), (False, True, True)])
def test_a_stack_can_end_with_a_norm_whatever_its_blocks(pre, final, found) -> None:
    for topology in ("encoder-only", "decoder-only"):
        net = build(small(topology, pre_norm=pre, final_norm=final))
        assert isinstance(net.norm, LayerNorm) == found


@pytest.mark.parametrize("positions", ["learned", "rotary", "alibi"])
def test_a_window_hides_all_but_the_latest_tokens_with_and_without_a_cache(positions) -> None:
    net, whole = (moved(build(small("decoder-only", positions=positions, window=w))) for w in (3, None))
    whole.load_state_dict(net.state_dict())
    assert isinstance(net, Decoder)
    at = torch.arange(T)
    near = ((at[:, None] - at[None]) < 3)[None, None]
    expected = whole(TOKENS, mask=near)
    torch.testing.assert_close(net(TOKENS), expected, rtol=0, atol=1e-12)
    assert not torch.allclose(net(TOKENS), whole(TOKENS))
    cache = net.new_cache(B, T)
    parts = [net(TOKENS[:, start:end], cache=cache) for start, end in ((0, 2), (2, 3), (3, 5), (5, 6))]
    torch.testing.assert_close(torch.cat(parts, 1), expected, rtol=0, atol=1e-12)


def test_the_mask_of_a_window_counts_positions_of_each_row() -> None:
    seen = recent_mask(torch.tensor([[4, 5]]), torch.tensor([[2, 3, 4, 5]]), 2)
    assert seen[0, 0].int().tolist() == [[0, 1, 1, 1], [0, 0, 1, 1]]  # the future is the causal mask's business


def test_waves_in_halves_are_the_interleaved_ones_in_another_order() -> None:
    table = SinusoidalHalves(7, max_len=9).table
    for position in range(9):
        sines = [math.sin(position / 10_000 ** (2 * i / 7)) for i in range(4)]
        cosines = [math.cos(position / 10_000 ** (2 * i / 7)) for i in range(3)]
        torch.testing.assert_close(table[position], torch.tensor(sines + cosines))
    assert table.sort(1).values.equal(sinusoid(9, 7).sort(1).values)


def test_rotary_frequencies_have_a_base_and_can_be_stretched() -> None:
    at = torch.tensor([[0, 1, 7]])
    plain = [1 / 500 ** (2 * i / 8) for i in range(4)]

    def angles(scaling: str) -> Tensor:
        base, _, numbers = read_rotary(scaling)
        rotation = Rotary(8, base=base, scaling=numbers).rotation(at)
        return torch.atan2(rotation.sin, rotation.cos)[0, 0, 1, :4]

    torch.testing.assert_close(angles("500"), torch.tensor(plain))
    torch.testing.assert_close(angles("500:linear:4"), torch.tensor(plain) / 4)
    expected = []
    for frequency in plain:
        wavelength = 2 * math.pi / frequency
        if wavelength < 64 / 4:
            expected.append(frequency)
        elif wavelength > 64 / 1:
            expected.append(frequency / 8)
        else:
            smooth = (64 / wavelength - 1) / (4 - 1)
            expected.append((1 - smooth) * frequency / 8 + smooth * frequency)
    torch.testing.assert_close(angles("500:llama3:8:1:4:64"), torch.tensor(expected))
    kept = [min(1, max(0, math.log(60 * f / (2 * math.pi)) / math.log(60 / 10))) for f in plain]
    yarn = [k * f + (1 - k) * f / 8 for k, f in zip(kept, plain)]
    torch.testing.assert_close(angles("500:yarn:8:10:60"), torch.tensor(yarn))
    assert kept[0] == 1 and 0 < kept[1] < 1 and kept[-1] == 0
    assert expected[0] == plain[0] and expected[-1] == plain[-1] / 8 and plain[1] / 8 < expected[1] < plain[1]


_BAD = [
    "",
    "x",
    "1",
    "inf",
    "9:linear",
    "9:linear:0",
    "9:linear:x",
    "9:linear:inf",
    "9:llama3:8",
    "9:yarn:4",
    "9:yarn:4:60:10",
    "9:llama3:8:4:1:64",
    "9:none:1",
    "9:linear:2:3",
    "9:",
]


@pytest.mark.parametrize("text", _BAD)
def test_a_scaling_that_is_none_is_an_error(text) -> None:
    with pytest.raises(ConfigError) as caught:
        small("decoder-only", positions="rotary", rotary=text)
    assert (caught.value.name, caught.value.value) == ("model.rotary", text)


def test_activations_follow_their_formulas() -> None:
    x = torch.linspace(-4, 4, 33)[:, None].expand(33, D)
    tanh = 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    for name, expected in (("gelu_tanh", tanh), ("silu", x * x.sigmoid())):
        part = FeedForward(D, D, 0.0, activation=name)
        with torch.no_grad():
            part.inner.weight.copy_(torch.eye(D))
            part.outer.weight.copy_(torch.eye(D))
        torch.testing.assert_close(part(x), expected)
    part = moved(GeGLU(D, 20))
    gate, value = part.inner(x).chunk(2, -1)
    expected = part.outer(F.gelu(gate, approximate="tanh") * value)
    torch.testing.assert_close(part(x), expected)


@pytest.mark.parametrize(("name", "function"), [("tanh", torch.tanh), ("relu", torch.relu)])
def test_a_pooler_is_a_hidden_layer_before_the_classes(name, function) -> None:
    head, x = moved(ClassPredictor(D, 4, "first", pooler=name)), torch.randn(B, T, D)
    real = torch.ones(B, T, dtype=torch.bool)
    torch.testing.assert_close(head(x, real), head.linear(function(head.hidden(x[:, 0]))))
    assert build(small("encoder-only", head="class", n_classes=3, head_layer=name)).head.hidden is not None
    assert build(small("encoder-only", head="class", n_classes=3)).head.hidden is None


def test_a_token_head_can_transform_states_before_the_projection() -> None:
    x, at = torch.randn(B, T, D), torch.tensor([3, 7])
    transform = moved(TokenTransform(D, LayerNorm(D)))
    head = TokenPredictor(Projection(D, V), transform)
    expected = head.projection(transform.norm(F.gelu(transform.linear(x.flatten(0, 1)[at]))))
    torch.testing.assert_close(head(x, at), expected)
    net = build(small("encoder-only", head="token", head_layer="norm", projection_bias=True))
    assert net.head.projection.weight is net.encoder.embedding.weight and net.head.projection.bias is not None


@pytest.mark.parametrize(("topology", "name", "value"), [
    ("decoder-only", "d_head", 0), ("decoder-only", "attention_scale", 0.0), ("decoder-only", "logit_scale", math.inf),
    ("decoder-only", "embedding_scale", -1.0), ("decoder-only", "window", 0), ("encoder-only", "window", 4),
    ("decoder-only", "rotary", "500"), ("decoder-only", "rotary", "10000:linear:2"),
    ("decoder-only", "relative_buckets", (16, 128)), ("decoder-only", "relative_buckets", (3, 128)),
    ("decoder-only", "relative_buckets", (32, 2**30)), ("decoder-only", "relative_buckets", (32,)),
    ("encoder-only", "logit_scale", 2.0), ("encoder-only", "projection_bias", True),
    ("encoder-only", "head_layer", "tanh"), ("encoder-only", "head_layer", "norm"),
    ("encoder-only", "n_separators", 2),
])  # fmt: skip
def test_a_setting_without_effect_or_out_of_range_is_an_error(topology, name, value) -> None:
    with pytest.raises(ConfigError) as caught:
        small(topology, **{name: value})
    assert (caught.value.name, caught.value.value) == (f"model.{name}", value)
