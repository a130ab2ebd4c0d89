import pytest
import torch
from torch import Tensor, nn

from clearhead.errors import ModelError
from clearhead.model.attention import CrossAttention, SelfAttention
from clearhead.model.blocks import DecoderBlock, EncoderBlock
from clearhead.model.feed_forward import FeedForward
from clearhead.model.masks import causal_mask, padding_mask
from clearhead.model.norms import AddNorm, LayerNorm

B, T, S, D, H, F = 2, 4, 5, 8, 2, 12
TOLERANCE = [pytest.param(torch.float32, 1e-5, id="float32"), pytest.param(torch.float64, 1e-12, id="float64")]
TARGET, SOURCE = torch.tensor([[1, 2, 3, 0], [4, 5, 6, 7]]), torch.tensor([[1, 2, 3, 0, 0], [4, 5, 6, 7, 8]])

same_for_both = pytest.mark.parametrize(("dtype", "atol"), TOLERANCE)
pre_and_post = pytest.mark.parametrize("pre_norm", [False, True])
activations = pytest.mark.parametrize("activation", ["relu", "gelu"])


def add_norms(count: int, *, pre_norm: bool = False) -> list[AddNorm]:
    return [AddNorm(LayerNorm(D), 0.0, pre_norm=pre_norm) for _ in range(count)]


def encoder_block(activation: str = "relu", *, pre_norm: bool = False) -> EncoderBlock:
    feed_forward = FeedForward(D, F, 0.0, activation=activation)
    return randomised(EncoderBlock(SelfAttention(D, H, 0.0), feed_forward, add_norms(2, pre_norm=pre_norm)))


def decoder_block(activation: str = "relu", *, pre_norm: bool = False, cross: bool = True) -> DecoderBlock:
    feed_forward = FeedForward(D, F, 0.0, activation=activation)
    cross_attention = CrossAttention(D, H, 0.0) if cross else None
    norms = add_norms(3 if cross else 2, pre_norm=pre_norm)
    return randomised(DecoderBlock(SelfAttention(D, H, 0.0), cross_attention, feed_forward, norms))


def randomised(block: nn.Module) -> nn.Module:
    for parameter in block.parameters():
        nn.init.normal_(parameter, std=0.4)
    return block


def attention_weights(attention: nn.Module, into: nn.MultiheadAttention) -> list[tuple[list[Tensor], Tensor]]:
    """Each parameter of torch's attention, and ours that stand in it below each other."""
    products = [attention.qkv] if isinstance(attention, SelfAttention) else [attention.q, attention.kv]
    return [
        ([product.weight for product in products], into.in_proj_weight),
        ([product.bias for product in products], into.in_proj_bias),
        ([attention.out.weight], into.out_proj.weight),
        ([attention.out.bias], into.out_proj.bias),
    ]


def paired(ours: nn.Module, theirs: nn.Module) -> list[tuple[list[Tensor], Tensor]]:
    """Each parameter of torch's layer, and ours that stand in it; torch's are made equal to ours."""
    pairs = attention_weights(ours.attention, theirs.self_attn)
    norms = [ours.add_norm_1.norm, ours.add_norm_2.norm]
    if isinstance(ours, DecoderBlock):
        pairs += attention_weights(ours.cross_attention, theirs.multihead_attn)
        norms.append(ours.add_norm_3.norm)
    modules = [(ours.feed_forward.inner, theirs.linear1), (ours.feed_forward.outer, theirs.linear2)]
    modules += [(norm, getattr(theirs, f"norm{i}")) for i, norm in enumerate(norms, 1)]
    pairs += [([getattr(a, name)], getattr(b, name)) for a, b in modules for name in ("weight", "bias")]
    with torch.no_grad():
        for mine, other in pairs:
            other.copy_(torch.cat(mine))
    assert len(pairs) == len(list(theirs.parameters()))
    return pairs


@same_for_both
@pre_and_post
@activations
def test_an_encoder_block_agrees_with_torchs_layer_in_output_and_gradients(
    activation, pre_norm, dtype, atol, gradients
) -> None:
    ours = encoder_block(activation, pre_norm=pre_norm).to(dtype)
    options = {"dropout": 0.0, "batch_first": True, "norm_first": pre_norm, "activation": activation, "dtype": dtype}
    theirs = nn.TransformerEncoderLayer(D, H, F, **options)
    pairs, x = paired(ours, theirs), torch.randn(B, S, D, dtype=dtype, requires_grad=True)
    output, expected = ours(x, mask=padding_mask(SOURCE)), theirs(x, src_key_padding_mask=SOURCE == 0)
    torch.testing.assert_close(output, expected, rtol=0, atol=atol)
    mine = gradients(output, x, *(part for parts, _ in pairs for part in parts))
    others = gradients(expected, x, *(other for _, other in pairs))
    torch.testing.assert_close(mine, others, rtol=0, atol=atol)


@same_for_both
@pre_and_post
@activations
def test_a_decoder_block_agrees_with_torchs_layer_in_output_and_gradients(
    activation, pre_norm, dtype, atol, gradients
) -> None:
    ours = decoder_block(activation, pre_norm=pre_norm).to(dtype)
    options = {"dropout": 0.0, "batch_first": True, "norm_first": pre_norm, "activation": activation, "dtype": dtype}
    theirs = nn.TransformerDecoderLayer(D, H, F, **options)
    pairs = paired(ours, theirs)
    x, memory = (torch.randn(B, length, D, dtype=dtype, requires_grad=True) for length in (T, S))
    mask = padding_mask(TARGET) & causal_mask(T)
    projected = ours.cross_attention.project(memory)
    output = ours(x, projected, mask=mask, memory_mask=padding_mask(SOURCE))
    barred = {"tgt_key_padding_mask": TARGET == 0, "memory_key_padding_mask": SOURCE == 0}
    expected = theirs(x, memory, tgt_mask=~causal_mask(T)[0, 0], **barred)
    torch.testing.assert_close(output, expected, rtol=0, atol=atol)
    inputs = (x, memory)
    mine = iter(gradients(output, *inputs, *(part for parts, _ in pairs for part in parts)))
    others = gradients(expected, *inputs, *(other for _, other in pairs))
    joined = [next(mine), next(mine), *(torch.cat([next(mine) for _ in parts]) for parts, _ in pairs)]
    torch.testing.assert_close(joined, others, rtol=0, atol=atol)


@pre_and_post
def test_a_block_joins_its_parts_in_the_order_of_figure_1(pre_norm) -> None:
    block, x, memory = decoder_block(pre_norm=pre_norm), torch.randn(B, T, D), torch.randn(B, S, D)
    projected, mask = block.cross_attention.project(memory), causal_mask(T)
    expected = block.add_norm_1(x, lambda x: block.attention(x, mask=mask))
    expected = block.add_norm_2(expected, lambda x: block.cross_attention(x, projected))
    expected = block.add_norm_3(expected, block.feed_forward)
    assert block(x, projected, mask=mask).equal(expected)


@pre_and_post
def test_a_decoder_block_without_cross_attention_is_an_encoder_block(pre_norm) -> None:
    decoder, encoder = decoder_block(pre_norm=pre_norm, cross=False), encoder_block(pre_norm=pre_norm)
    weights = {name.replace("norm_3", "norm_2"): weight for name, weight in decoder.state_dict().items()}
    encoder.load_state_dict(weights)
    x, mask = torch.randn(B, T, D), causal_mask(T)
    assert decoder(x, mask=mask).equal(encoder(x, mask=mask))


def test_a_block_with_cross_attention_refuses_to_go_without_a_memory() -> None:
    with pytest.raises(ModelError) as caught:
        decoder_block()(torch.randn(B, T, D))
    assert (caught.value.name, caught.value.value) == ("memory", None)


@pytest.mark.parametrize(("cross", "count"), [(True, 2), (True, 4), (False, 1), (False, 3)])
def test_a_decoder_block_needs_an_add_norm_for_each_sub_layer(cross, count) -> None:
    with pytest.raises(ModelError) as caught:
        DecoderBlock(SelfAttention(D, H), CrossAttention(D, H) if cross else None, FeedForward(D, F), add_norms(count))
    assert (caught.value.name, caught.value.value) == ("add_norms", count)
