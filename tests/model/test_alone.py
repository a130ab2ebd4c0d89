"""Every part works alone, in three lines of a REPL, with plain numbers."""

import re
from typing import Any

import pytest
import torch
from torch import Tensor

PARTS = """
from clearhead.model.masks import causal_mask, padding_mask
mask = padding_mask(torch.tensor([[5, 6, 0]])) & causal_mask(3)
mask.int()

from clearhead.model.attention import scaled_dot_product_attention
q, k, v = torch.randn(1, 2, 3, 4), torch.randn(1, 2, 5, 4), torch.randn(1, 2, 5, 6)
scaled_dot_product_attention(q, k, v)

from clearhead.model.attention import fused_attention
q, k, v = torch.randn(1, 2, 3, 4), torch.randn(1, 2, 5, 4), torch.randn(1, 2, 5, 6)
fused_attention(q, k, v)

from clearhead.model.attention import masked_softmax
mask = torch.tensor([True, False, True])
masked_softmax(torch.randn(1, 1, 3, 3), mask)

from clearhead.model.attention import Attend
q, k, v = torch.randn(1, 4, 3, 2), torch.randn(1, 2, 5, 2), torch.randn(1, 2, 5, 2)
Attend()(q, k, v)

from clearhead.model.attention import MultiHeadAttention
query, memory = torch.randn(1, 3, 512), torch.randn(1, 5, 512)
MultiHeadAttention(d_model=512, n_heads=8, dropout=0.1)(query, memory, memory)

from clearhead.model.attention import SelfAttention
attention = SelfAttention(d_model=512, n_heads=8)
attention(torch.randn(1, 3, 512))

from clearhead.model.attention import CrossAttention
attention = CrossAttention(d_model=512, n_heads=8)
attention(torch.randn(1, 3, 512), attention.project(torch.randn(1, 5, 512)))

from clearhead.model.positions import Sinusoidal
positions = Sinusoidal(d_model=512)
positions.embed(torch.randn(1, 3, 512), torch.tensor([[0, 1, 2]]))

from clearhead.model.positions import Learned
positions = Learned(d_model=512)
positions.embed(torch.randn(1, 3, 512), torch.tensor([[0, 1, 2]]))

from clearhead.model.positions import Rotary, rotate
rotation = Rotary(d_head=64).rotation(torch.tensor([[0, 1, 2]]))
rotate(torch.randn(1, 8, 3, 64), rotation)

from clearhead.model.positions import Relative
at = torch.tensor([[0, 1, 2]])
Relative(n_heads=8).bias(at, at)

from clearhead.model.positions import Alibi
at = torch.tensor([[0, 1, 2]])
Alibi(n_heads=8, two_sided=False).bias(at, at)

from clearhead.model.norms import LayerNorm, layer_norm
x = torch.randn(2, 3, 512)
LayerNorm(512)(x), LayerNorm((3, 512), eps=1e-6, elementwise_affine=False)(x), layer_norm(x)

from clearhead.model.norms import RMSNorm, rms_norm
x = torch.randn(2, 3, 512)
RMSNorm(512)(x), rms_norm(x)

from clearhead.model.linear import Linear
linear = Linear(512, 64, 64, 64)
linear(torch.randn(2, 3, 512))

from clearhead.model.dropout import Dropout, dropout
x = torch.randn(2, 3, 512)
Dropout(0.1)(x), dropout(x, 0.1)

from clearhead.model.feed_forward import FeedForward
feed_forward = FeedForward(d_model=512, d_ff=2048, activation='gelu')
feed_forward(torch.randn(1, 3, 512))

from clearhead.model.feed_forward import SwiGLU
feed_forward = SwiGLU(d_model=512, d_ff=1365)
feed_forward(torch.randn(1, 3, 512))

from clearhead.model.assembly import AddNorm, LayerNorm
add_norm = AddNorm(LayerNorm(512), dropout=0.1, pre_norm=True)
add_norm(torch.randn(1, 3, 512), torch.nn.Linear(512, 512))

from clearhead.model.fronts.tokens import Embedding, Projection
embedding = Embedding(vocab_size=100, d_model=512)
Projection(512, 100, tied=embedding)(embedding(torch.tensor([[1, 2, 3]])))

from clearhead.model.cache import LayerCache
cache = LayerCache(torch.zeros(1, 8, 10, 64), torch.zeros(1, 8, 10, 64))
cache.append(torch.randn(1, 8, 3, 64), torch.randn(1, 8, 3, 64))

from clearhead.model.assembly import EncoderBlock, AddNorm, SwiGLU, LayerNorm, SelfAttention
block = EncoderBlock(SelfAttention(64, 8), SwiGLU(64, 256), [AddNorm(LayerNorm(64)), AddNorm(LayerNorm(64))])
block(torch.randn(1, 3, 64))

from clearhead.model.assembly import DecoderBlock, AddNorm, CrossAttention, SwiGLU, LayerNorm, SelfAttention
parts = SelfAttention(64, 8), CrossAttention(64, 8), SwiGLU(64, 256), [AddNorm(LayerNorm(64)) for _ in range(3)]
DecoderBlock(*parts)(torch.randn(1, 3, 64), parts[1].project(torch.randn(1, 5, 64)))

from clearhead.model.transformer import Encoder, Embedding, ModelConfig, build_encoder
encoder: Encoder = build_encoder(ModelConfig(n_encoder_layers=2), Embedding(100, d_model=512))
encoder(torch.tensor([[1, 2, 3]]))

from clearhead.model.transformer import Decoder, Embedding, ModelConfig, build_decoder
decoder: Decoder = build_decoder(ModelConfig(src_vocab_size=9, tgt_vocab_size=9), Embedding(9, d_model=512), cross=True)
decoder(torch.tensor([[1, 2]]), torch.randn(1, 5, 512))

from clearhead.model.pointer import Pointer
x, logits, weights = torch.randn(1, 3, 512), torch.randn(1, 3, 100), torch.rand(1, 8, 3, 5).softmax(-1)
Pointer(d_model=512)(x, logits, weights, Pointer.read(torch.tensor([[7, 8, 9, 7, 2]])))

from clearhead.model.heads import ClassPredictor
real = torch.tensor([[True, True, False]])
ClassPredictor(d_model=512, n_classes=4)(torch.randn(1, 3, 512), real)

from clearhead.model.heads import SpanFinder
allowed = torch.ones(1, 3, dtype=torch.bool)
SpanFinder(d_model=512)(torch.randn(1, 3, 512), allowed)

from clearhead.model.heads import Linear, TokenPredictor
hidden = torch.tensor([[False, True, False]])
TokenPredictor(Linear(512, 100))(torch.randn(1, 3, 512), hidden)

from clearhead.model.fronts.tokens import Embedding, TokenTypes
tokens, types = torch.tensor([[5, 6, 7]]), torch.tensor([[0, 1, 1]])
Embedding(100, d_model=512)(tokens) + TokenTypes(2, d_model=512)(types)

from clearhead import ModelConfig, build
model = build(ModelConfig(src_vocab_size=100, tgt_vocab_size=100))
model(torch.tensor([[1, 2, 3]]), torch.tensor([[1, 2]]))
""".strip().split("\n\n")


@pytest.mark.parametrize("lines", PARTS, ids=lambda lines: re.search("import (\\w+)", lines)[1])
def test_a_part_runs_alone_in_three_lines(lines) -> None:
    first, second, third = lines.splitlines()
    names: dict[str, Any] = {"torch": torch}
    exec(f"{first}\n{second}", names)
    result = eval(third, names)
    for tensor in [result] if isinstance(result, Tensor) else result:
        assert tensor.isfinite().all() and tensor.numel() > 1
