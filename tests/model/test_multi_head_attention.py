"""Several heads, with separate and with fused products, against the formula, each other, and torch."""

import pytest
import torch
from torch import Tensor, nn

from clearhead.errors import ModelError
from clearhead.model.attention import (
    CrossAttention,
    MultiHeadAttention,
    SelfAttention,
    merge_heads,
    scaled_dot_product_attention,
    split_heads,
)
from clearhead.model.masks import causal_mask, padding_mask
from clearhead.model.positions import Alibi, Rotary, rotate

B, T, S, D, H = 2, 4, 5, 8, 4
TOLERANCE = [pytest.param(torch.float32, 1e-5, id="float32"), pytest.param(torch.float64, 1e-12, id="float64")]
TARGET, SOURCE = torch.tensor([[1, 2, 3, 0], [4, 5, 6, 7]]), torch.tensor([[1, 2, 3, 0, 0], [4, 5, 6, 7, 8]])


def randomised(part: nn.Module) -> nn.Module:
    for parameter in part.parameters():
        nn.init.normal_(parameter, std=0.3)
    return part


def separate(dtype: torch.dtype = torch.float64) -> MultiHeadAttention:
    return randomised(MultiHeadAttention(D, H, dropout=0.0)).to(dtype)


def random(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, dtype=dtype, requires_grad=True)


def test_every_head_attends_to_its_own_projections_and_another_joins_them() -> None:
    part, query, key, value = separate(), random(B, T, D), random(B, S, D), random(B, S, D)
    mask = padding_mask(SOURCE)
    output, weights = part(query, key, value, mask=mask)
    heads = []
    for h in range(H):
        rows = slice(h * D // H, (h + 1) * D // H)  # W_i, the head's columns of W as the paper writes it
        q, k, v = (
            x @ linear.weight[rows].T + linear.bias[rows]
            for x, linear in zip((query, key, value), (part.w_q, part.w_k, part.w_v))
        )
        head, its_weights = scaled_dot_product_attention(q[:, None], k[:, None], v[:, None], mask=mask)
        torch.testing.assert_close(weights[:, h], its_weights[:, 0], rtol=0, atol=1e-12)
        heads.append(head[:, 0])
    joined = torch.cat(heads, dim=-1) @ part.w_o.weight.T + part.w_o.bias
    torch.testing.assert_close(output, joined, rtol=0, atol=1e-12)


def test_heads_split_and_merge_without_a_change() -> None:
    x = torch.randn(B, T, 12)
    heads = split_heads(x, 3)
    for h in range(3):
        assert heads[:, h].equal(x[..., 4 * h : 4 * h + 4])
    assert merge_heads(heads).equal(x)


@pytest.mark.parametrize(("dtype", "atol"), TOLERANCE)
@pytest.mark.parametrize("masked", [False, True])
def test_it_agrees_with_torchs_own_in_output_weights_and_gradients(masked, dtype, atol, gradients) -> None:
    ours, theirs = separate(dtype), nn.MultiheadAttention(D, H, batch_first=True, dtype=dtype)
    projections = (ours.w_q, ours.w_k, ours.w_v)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([linear.weight for linear in projections]))
        theirs.in_proj_bias.copy_(torch.cat([linear.bias for linear in projections]))
        theirs.out_proj.load_state_dict(ours.w_o.state_dict())
    inputs = [random(B, length, D, dtype=dtype) for length in (T, S, S)]
    output, weights = ours(*inputs, mask=padding_mask(SOURCE) & causal_mask(T, S) if masked else None)
    barred = {"key_padding_mask": SOURCE == 0, "attn_mask": ~causal_mask(T, S)[0, 0]} if masked else {}
    expected, their_weights = theirs(*inputs, average_attn_weights=False, **barred)
    torch.testing.assert_close(output, expected, rtol=0, atol=atol)
    torch.testing.assert_close(weights, their_weights, rtol=0, atol=atol)
    mine = gradients(output, *inputs, *(p for linear in (*projections, ours.w_o) for p in linear.parameters()))
    stacked = [torch.cat(mine[i : i + 6 : 2]) for i in (3, 4)]
    others = (theirs.in_proj_weight, theirs.in_proj_bias, theirs.out_proj.weight, theirs.out_proj.bias)
    torch.testing.assert_close(
        [*mine[:3], *stacked, *mine[9:]], gradients(expected, *inputs, *others), rtol=0, atol=atol
    )


@pytest.mark.parametrize(("dtype", "atol"), TOLERANCE)
def test_self_attention_is_it_with_one_input_and_its_weights_stacked(dtype, atol, gradients) -> None:
    parts, fused = separate(dtype), SelfAttention(D, H, dropout=0.0).to(dtype)
    projections = (parts.w_q, parts.w_k, parts.w_v)
    with torch.no_grad():
        fused.qkv.weight.copy_(torch.cat([linear.weight for linear in projections]))
        fused.qkv.bias.copy_(torch.cat([linear.bias for linear in projections]))
        fused.out.load_state_dict(parts.w_o.state_dict())
    x, mask = random(B, T, D, dtype=dtype), padding_mask(TARGET) & causal_mask(T)
    output, expected = fused(x, mask=mask), parts(x, x, x, mask=mask)[0]
    torch.testing.assert_close(output, expected, rtol=0, atol=atol)
    mine = gradients(output, x, fused.qkv.weight, fused.qkv.bias, fused.out.weight, fused.out.bias)
    theirs = gradients(expected, x, *(p for linear in (*projections, parts.w_o) for p in linear.parameters()))
    stacked = [torch.cat(theirs[i : i + 6 : 2]) for i in (1, 2)]
    torch.testing.assert_close(mine, [theirs[0], *stacked, *theirs[7:]], rtol=0, atol=atol)


@pytest.mark.parametrize(("dtype", "atol"), TOLERANCE)
def test_cross_attention_is_it_with_a_memory_and_its_weights_stacked(dtype, atol, gradients) -> None:
    parts, fused = separate(dtype), CrossAttention(D, H, dropout=0.0).to(dtype)
    with torch.no_grad():
        fused.kv.weight.copy_(torch.cat([parts.w_k.weight, parts.w_v.weight]))
        fused.kv.bias.copy_(torch.cat([parts.w_k.bias, parts.w_v.bias]))
    fused.q.load_state_dict(parts.w_q.state_dict())
    fused.out.load_state_dict(parts.w_o.state_dict())
    x, memory, mask = random(B, T, D, dtype=dtype), random(B, S, D, dtype=dtype), padding_mask(SOURCE)
    output, expected = fused(x, fused.project(memory), mask=mask), parts(x, memory, memory, mask=mask)[0]
    torch.testing.assert_close(output, expected, rtol=0, atol=atol)
    mine = gradients(output, x, memory, fused.q.weight, fused.kv.weight, fused.kv.bias, fused.out.weight)
    separately = (parts.w_q.weight, parts.w_k.weight, parts.w_v.weight, parts.w_k.bias, parts.w_v.bias)
    theirs = gradients(expected, x, memory, *separately, parts.w_o.weight)
    stacked = [torch.cat(theirs[3:5]), torch.cat(theirs[5:7])]
    torch.testing.assert_close(mine, [*theirs[:3], *stacked, theirs[7]], rtol=0, atol=atol)


def test_grouped_heads_equal_full_ones_whose_keys_and_values_repeat() -> None:
    grouped, full = randomised(SelfAttention(D, H, n_kv_heads=2)).eval(), SelfAttention(D, H).eval()
    for name in ("weight", "bias"):
        q, *shared = grouped.qkv.matrices(getattr(grouped.qkv, name))
        repeated = [rows.unflatten(0, (2, -1)).repeat_interleave(2, 0).flatten(0, 1) for rows in shared]
        getattr(full.qkv, name).data.copy_(torch.cat([q, *repeated]))
    full.out.load_state_dict(grouped.out.state_dict())
    x = torch.randn(B, T, D)
    torch.testing.assert_close(grouped(x, mask=causal_mask(T)), full(x, mask=causal_mask(T)), rtol=0, atol=1e-12)


def test_rotation_turns_queries_and_keys_and_a_bias_is_added_to_their_scores() -> None:
    part, x, at = randomised(SelfAttention(D, H)).eval(), torch.randn(B, T, D), torch.arange(T)[None]
    rotation, bias = Rotary(D // H).rotation(at), Alibi(H).bias(at, at)
    q, k, v = (split_heads(rows, H) for rows in part.qkv(x).chunk(3, dim=-1))
    heads, _ = scaled_dot_product_attention(rotate(q, rotation), rotate(k, rotation), v, bias=bias)
    expected = part.out(merge_heads(heads))
    torch.testing.assert_close(part(x, rotation=rotation, bias=bias), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("length", [1, 3])
def test_hypotheses_of_one_source_read_one_memory_as_if_each_had_its_own(length) -> None:
    part, beams = randomised(CrossAttention(D, H, n_kv_heads=2)).eval(), 3
    x, (keys, values), mask = (
        torch.randn(B * beams, length, D),
        part.project(torch.randn(B, S, D)),
        padding_mask(SOURCE),
    )
    copies = [tensor.repeat_interleave(beams, 0) for tensor in (keys, values, mask)]
    expected = part(x, (copies[0], copies[1]), mask=copies[2])
    torch.testing.assert_close(part(x, (keys, values), mask=mask), expected, rtol=0, atol=1e-12)


def test_rows_that_cannot_share_the_memories_evenly_are_refused() -> None:
    part = CrossAttention(D, H)
    memory = part.project(torch.randn(2, S, D))
    with pytest.raises(ModelError) as caught:
        part(torch.randn(3, 4, D), memory)
    assert (caught.value.name, caught.value.value) == ("x", 3)


@pytest.mark.parametrize("part", [MultiHeadAttention, SelfAttention, CrossAttention])
@pytest.mark.parametrize("n_heads", [0, 3, 16])
def test_heads_that_do_not_divide_the_width_are_refused(part, n_heads) -> None:
    with pytest.raises(ModelError) as caught:
        part(8, n_heads)
    assert (caught.value.name, caught.value.value) == ("n_heads", n_heads)


@pytest.mark.parametrize("part", [SelfAttention, CrossAttention])
@pytest.mark.parametrize("n_kv_heads", [0, 3, 8])
def test_heads_of_keys_and_values_that_do_not_divide_those_of_queries_are_refused(part, n_kv_heads) -> None:
    with pytest.raises(ModelError) as caught:
        part(8, 4, n_kv_heads=n_kv_heads)
    assert (caught.value.name, caught.value.value) == ("n_kv_heads", n_kv_heads)


def test_evaluation_repeats_itself_and_training_drops_weights() -> None:
    part, x = MultiHeadAttention(D, H, dropout=0.5), torch.randn(B, T, D)
    assert part.eval()(x, x, x)[0].equal(part(x, x, x)[0])
    first, second = part.train()(x, x, x), part(x, x, x)
    assert not first[0].equal(second[0]) and first[1].equal(second[1])
