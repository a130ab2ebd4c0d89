"""Figure 1: the two stacks, what joins them, and `build`, the one place where a configuration chooses the parts."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar, cast

import torch
from torch import Tensor, nn

from ..config import ModelConfig
from ..errors import ConfigError, ModelError
from .attention import CrossAttention, SelfAttention
from .blocks import DecoderBlock, EncoderBlock
from .cache import Cache, LayerCache
from .dropout import Dropout
from .embedding import Embedding, projection
from .feed_forward import FeedForward, SwiGLU
from .linear import Linear
from .masks import causal_mask
from .norms import LayerNorm, RMSNorm
from .positions import Alibi, Learned, Positions, Relative, Rotary, Sinusoidal
from .residual import AddNorm

A = TypeVar("A", SelfAttention, CrossAttention)


class Encoder(nn.Module):
    """Figure 1, left: embedding, positions, N blocks, and for a pre-norm stack a final norm."""

    def __init__(
        self,
        embedding: Embedding,
        positions: Positions,
        blocks: list[EncoderBlock],
        *,
        dropout: float,
        norm: nn.Module | None,
    ) -> None:
        super().__init__()
        self.embedding, self.positions, self.dropout = embedding, positions, Dropout(dropout)
        self.blocks, self.norm = nn.ModuleList(blocks), norm or nn.Identity()

    def forward(self, tokens: Tensor, *, mask: Tensor | None = None) -> Tensor:
        """(B, S), mask (B, 1, 1, S) -> (B, S, D)"""
        at = torch.arange(tokens.size(1), device=tokens.device)[None]
        x = self.dropout(self.positions.embed(self.embedding(tokens), at))
        bias, rotation = self.positions.bias(at, at), self.positions.rotation(at)
        for block in self.blocks:
            x = block(x, mask=mask, bias=bias, rotation=rotation)
        return self.norm(x)


class Decoder(nn.Module):
    """Figure 1, right: embedding, positions, N blocks that see only the past, projection. Alone, a language model."""

    def __init__(
        self,
        embedding: Embedding,
        positions: Positions,
        blocks: list[DecoderBlock],
        project: Linear,
        *,
        dropout: float,
        norm: nn.Module | None,
    ) -> None:
        super().__init__()
        self.embedding, self.positions, self.dropout = embedding, positions, Dropout(dropout)
        self.blocks, self.norm, self.projection = nn.ModuleList(blocks), norm or nn.Identity(), project

    def forward(
        self,
        tokens: Tensor,
        memory: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        positions: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """(B, T), memory (B, S, D), memory_mask (B, 1, 1, S) -> logits (B, T, V)

        With a cache the T tokens follow those that it holds, and `memory` is not read again (see `new_cache`). `mask`
        bars keys besides the future, such as the padding on the left of ragged prompts, whose `positions` (B, T) then
        differ a row.
        """
        past = cache.length if cache is not None else 0
        n_keys = past + tokens.size(1)
        at = torch.arange(past, n_keys, device=tokens.device)[None] if positions is None else positions
        keys_at = at[:, -1:] + torch.arange(1 - n_keys, 1, device=tokens.device)  # one key a position, up to the last
        if tokens.size(1) > 1:  # a single query is the last one, and sees everything before it
            past_only = causal_mask(tokens.size(1), n_keys, device=tokens.device)
            mask = past_only if mask is None else mask & past_only
        bias, rotation = self.positions.bias(at, keys_at), self.positions.rotation(at)
        x = self.dropout(self.positions.embed(self.embedding(tokens), at))
        for block, layer in zip(self._blocks(), cache.layers if cache is not None else [None] * len(self.blocks)):
            keys_values = self._memory(block, memory, layer)
            x = block(x, keys_values, mask=mask, memory_mask=memory_mask, bias=bias, rotation=rotation, cache=layer)
        return self.projection(self.norm(x))

    def new_cache(self, rows: int, capacity: int, memory: Tensor | None = None) -> Cache:
        """Room for `capacity` tokens a row, and the keys and values of the memory (B, S, D), projected here once."""
        layers = []
        for block in self._blocks():
            attention = block.attention
            weight = attention.qkv.weight
            shape = (rows, attention.n_kv_heads, capacity, weight.size(1) // attention.n_heads)
            keys, values = (torch.empty(shape, dtype=weight.dtype, device=weight.device) for _ in range(2))
            layers.append(LayerCache(keys, values, self._memory(block, memory, None)))
        return Cache(layers)

    def _blocks(self) -> list[DecoderBlock]:
        return cast(list[DecoderBlock], list(self.blocks))

    @staticmethod
    def _memory(block: DecoderBlock, memory: Tensor | None, layer: LayerCache | None) -> tuple[Tensor, Tensor] | None:
        if layer is not None and layer.memory is not None:
            return layer.memory
        if block.cross_attention is None:
            return None
        if memory is None:
            raise ModelError("this decoder attends to an encoder's memory; pass memory=..., or a cache made with it")
        return block.cross_attention.project(memory)


class EncoderDecoder(nn.Module):
    """The model of the paper."""

    def __init__(self, encoder: Encoder, decoder: Decoder) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def forward(self, source: Tensor, target: Tensor, *, source_mask: Tensor | None = None) -> Tensor:
        """(B, S), (B, T), source_mask (B, 1, 1, S) -> logits (B, T, V)

        Padding stands on the right of the target, where nothing before it can see it, so the target needs no mask.
        """
        return self.decoder(target, self.encode(source, mask=source_mask), memory_mask=source_mask)

    def encode(self, source: Tensor, *, mask: Tensor | None = None) -> Tensor:
        """(B, S), mask (B, 1, 1, S) -> memory (B, S, D)"""
        return self.encoder(source, mask=mask)


@contextmanager
def evaluation(model: nn.Module) -> Iterator[None]:
    """Evaluation mode inside; afterwards, whatever happens, every module is in the mode that it was in."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def build(config: ModelConfig) -> EncoderDecoder | Encoder | Decoder:
    """The model that the configuration describes, with initial weights from torch's random generator.

    An encoder-only model gives hidden states (B, S, D), a decoder-only one logits (B, T, V).
    """
    match config.topology:
        case "encoder-only":
            return build_encoder(config, _embedding(config, "src_vocab_size"))
        case "decoder-only":
            return build_decoder(config, _embedding(config, "tgt_vocab_size"), cross=False)
        case "encoder-decoder":
            source = _embedding(config, "src_vocab_size")
            target = source if config.tie == "all" else _embedding(config, "tgt_vocab_size")
            return EncoderDecoder(build_encoder(config, source), build_decoder(config, target, cross=True))


def build_encoder(config: ModelConfig, embedding: Embedding) -> Encoder:
    """The left of Figure 1 over a given embedding."""
    blocks = [
        EncoderBlock(_attention(config, SelfAttention), _feed_forward(config), [_add_norm(config) for _ in range(2)])
        for _ in range(config.n_encoder_layers)
    ]
    positions, norm = _positions(config, two_sided=True), _norm(config) if config.pre_norm else None
    return Encoder(embedding, positions, blocks, dropout=config.dropout, norm=norm)


def build_decoder(config: ModelConfig, embedding: Embedding, *, cross: bool) -> Decoder:
    """The right of Figure 1 over a given embedding; without `cross`, a language model."""
    blocks = [
        DecoderBlock(
            _attention(config, SelfAttention),
            _attention(config, CrossAttention) if cross else None,
            _feed_forward(config),
            [_add_norm(config) for _ in range(3 if cross else 2)],
        )
        for _ in range(config.n_decoder_layers)
    ]
    project = projection(config.d_model, config.tgt_vocab_size, tied=None if config.tie == "none" else embedding)
    positions, norm = _positions(config, two_sided=False), _norm(config) if config.pre_norm else None
    return Decoder(embedding, positions, blocks, project, dropout=config.dropout, norm=norm)


def _embedding(config: ModelConfig, size: str) -> Embedding:
    vocab_size = getattr(config, size)
    if vocab_size < 1:
        raise ConfigError(f"model.{size} = {vocab_size}: expected at least 1; train a tokenizer, or give the size")
    return Embedding(vocab_size, config.d_model)


def _attention(config: ModelConfig, kind: type[A]) -> A:
    dropout = config.dropout if config.attention_dropout is None else config.attention_dropout
    return kind(config.d_model, config.n_heads, dropout, n_kv_heads=config.n_kv_heads, bias=config.bias)


def _feed_forward(config: ModelConfig) -> nn.Module:
    dropout = config.dropout if config.activation_dropout is None else config.activation_dropout
    if config.activation == "swiglu":
        return SwiGLU(config.d_model, config.d_ff, dropout, bias=config.bias)
    return FeedForward(config.d_model, config.d_ff, dropout, activation=config.activation, bias=config.bias)


def _norm(config: ModelConfig) -> nn.Module:
    return (LayerNorm if config.norm == "layer" else RMSNorm)(config.d_model, config.norm_eps)


def _add_norm(config: ModelConfig) -> AddNorm:
    return AddNorm(_norm(config), config.dropout, pre_norm=config.pre_norm)


def _positions(config: ModelConfig, *, two_sided: bool) -> Positions:
    match config.positions:
        case "sinusoidal":
            return Sinusoidal(config.d_model, config.max_len)
        case "learned":
            return Learned(config.d_model, config.max_len)
        case "rotary":
            return Rotary(config.d_model // config.n_heads)
        case "relative":
            return Relative(config.n_heads, two_sided=two_sided)
        case "alibi":
            return Alibi(config.n_heads, two_sided=two_sided)
