"""Figure 1: the two stacks, what joins them or stands on top, and `build`: from a configuration to a model."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import torch
from torch import Tensor, nn

from ..config import ModelConfig
from ..errors import ModelError
from .assembly import (
    check_parts,
    decoder_blocks,
    encoder_blocks,
    final_norm,
    make_embedding,
    make_head,
    make_positions,
)
from .blocks import DecoderBlock, EncoderBlock
from .cache import Cache, LayerCache
from .dropout import Dropout
from .embedding import Embedding, TokenTypes, projection
from .heads import Classifier, SpanFinder, TokenPredictor
from .linear import Linear
from .masks import causal_mask, padding_mask
from .pointer import Pointer
from .positions import Positions


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
        types: TokenTypes | None = None,
    ) -> None:
        super().__init__()
        self.embedding, self.positions, self.dropout = embedding, positions, Dropout(dropout)
        self.blocks, self.norm, self.types = nn.ModuleList(blocks), norm or nn.Identity(), types

    def forward(self, tokens: Tensor, types: Tensor | None = None, *, mask: Tensor | None = None) -> Tensor:
        """(B, S), types (B, S), mask (B, 1, 1, S) -> (B, S, D)

        The types are 0 where none are given; only an encoder that was built with some takes them.
        """
        at = torch.arange(tokens.size(1), device=tokens.device)[None]
        x = self.embedding(tokens)
        if self.types is not None:
            x = x + self.types(torch.zeros_like(tokens) if types is None else types)
        elif types is not None:
            raise ModelError("this model has no types of tokens; build it with model.n_token_types, or pass no types")
        x = self.dropout(self.positions.embed(x, at))
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
        pointer: Pointer | None = None,
    ) -> None:
        super().__init__()
        self.embedding, self.positions, self.dropout = embedding, positions, Dropout(dropout)
        self.blocks, self.norm, self.projection = nn.ModuleList(blocks), norm or nn.Identity(), project
        self.pointer = pointer

    def forward(
        self,
        tokens: Tensor,
        memory: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        positions: Tensor | None = None,
        cache: Cache | None = None,
        source: Tensor | None = None,
        newest: bool = False,
    ) -> Tensor:
        """(B, T), memory (B, S, D), memory_mask (B, 1, 1, S), source (B, S) -> logits (B, T, V)

        With a cache the T tokens follow those that it holds, and `memory` is not read again (see `new_cache`). `mask`
        bars keys besides the future, such as the padding on the left of ragged prompts, whose `positions` (B, T) then
        differ a row. A pointer needs the tokens of the `source`; what it gives are log-probabilities, which as logits
        are as good as any. `newest`: logits are wanted of the last token alone (B, 1, V); of a long prompt and a large
        vocabulary those of all would take more memory than the rest together.
        """
        new = torch.arange(tokens.size(1), device=tokens.device)
        at = new[None] + (cache.length if cache is not None else 0) if positions is None else positions
        ages = cache.ages(len(new)) if cache is not None else new.flip(0)
        keys_at = at[:, -1:] - ages  # one key a position, up to the last
        if len(new) > 1:  # a single query is the last one, and sees everything before it
            past_only = causal_mask(len(new), len(ages), device=tokens.device)
            mask = past_only if mask is None else mask & past_only
        bias, rotation = self.positions.bias(at, keys_at), self.positions.rotation(at)
        x = self.dropout(self.positions.embed(self.embedding(tokens), at))
        more = {"mask": mask, "memory_mask": memory_mask, "bias": bias, "rotation": rotation}
        weights: list[Tensor] = []  # of the last block's attention to the memory, where the pointer copies by them
        for block, layer in zip(self._blocks(), cache.layers if cache is not None else [None] * len(self.blocks)):
            observe = weights.append if self.pointer is not None and block is self.blocks[-1] else None
            x = block(x, self._memory(block, memory, layer), **more, cache=layer, observe=observe)
        x = self.norm(x)
        if self.pointer is None:
            return self.projection(x[:, -1:] if newest else x)
        read = cache.source if cache is not None and cache.source is not None else self._read(self.pointer, source)
        found = self.pointer(x, self.projection(x), weights[0], read)
        return found[:, -1:] if newest else found

    def new_cache(
        self,
        rows: int,
        capacity: int,
        memory: Tensor | None = None,
        source: Tensor | None = None,
        *,
        ring: bool = False,
    ) -> Cache:
        """Room for `capacity` tokens a row, and the keys and values of the memory (B, S, D), projected here once.

        A pointer needs the tokens of the source (B, S), too. A `ring` has room for the newest so many, however many
        come.
        """
        layers = []
        for block in self._blocks():
            attention = block.attention
            weight = attention.qkv.weight
            shape = (rows, attention.n_kv_heads, capacity, weight.size(1) // attention.n_heads)
            keys, values = (torch.empty(shape, dtype=weight.dtype, device=weight.device) for _ in range(2))
            layers.append(LayerCache(keys, values, self._memory(block, memory, None), ring=ring))
        return Cache(layers, None if self.pointer is None else self._read(self.pointer, source))

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

    @staticmethod
    def _read(pointer: Pointer, source: Tensor | None) -> tuple[Tensor, Tensor]:
        if source is None:
            raise ModelError("this decoder copies tokens of its source; pass source=..., or a cache made with it")
        return pointer.read(source)


class EncoderDecoder(nn.Module):
    """The model of the paper."""

    def __init__(self, encoder: Encoder, decoder: Decoder) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def forward(self, source: Tensor, target: Tensor, *, source_mask: Tensor | None = None) -> Tensor:
        """(B, S), (B, T), source_mask (B, 1, 1, S) -> logits (B, T, V)

        Padding stands on the right of the target, where nothing before it can see it, so the target needs no mask.
        """
        memory = self.encode(source, mask=source_mask)
        return self.decoder(target, memory, memory_mask=source_mask, source=source)

    def encode(self, source: Tensor, *, mask: Tensor | None = None) -> Tensor:
        """(B, S), mask (B, 1, 1, S) -> memory (B, S, D)"""
        return self.encoder(source, mask=mask)


class EncoderModel(nn.Module):
    """An encoder with a head on top (BERT, Devlin et al. 2019): it reads a text and says one thing of it."""

    def __init__(self, encoder: Encoder, head: Classifier | SpanFinder | TokenPredictor, *, pad: int = 0) -> None:
        super().__init__()
        self.encoder, self.head, self.pad = encoder, head, pad

    def forward(self, tokens: Tensor, types: Tensor | None = None, *, at: Tensor | None = None) -> Tensor:
        """(B, S), types (B, S) -> (B, C) of a Classifier, (B, S, 2) of a SpanFinder, (N, V) of a TokenPredictor

        Padding is attended by nobody. `at` (B, S) is True for the tokens that the head reads, all real ones where it is
        left out: those that are pooled, those where an answer may begin or end, those that are predicted.
        """
        x = self.encoder(tokens, types, mask=padding_mask(tokens, self.pad))
        found: Tensor = self.head(x, tokens != self.pad if at is None else at)
        return found


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


def build(config: ModelConfig) -> EncoderDecoder | EncoderModel | Encoder | Decoder:
    """The model that the configuration describes, with initial weights from torch's random generator.

    An encoder-only model gives what its head gives, or hidden states (B, S, D) without one; a decoder-only one is a
    language model and gives logits (B, T, V).
    """
    check_parts(config)
    match config.topology:
        case "encoder-only":
            embedding = make_embedding(config, "src_vocab_size")
            encoder = build_encoder(config, embedding)
            head = make_head(config, embedding)
            return encoder if head is None else EncoderModel(encoder, head)
        case "decoder-only":
            return build_decoder(config, make_embedding(config, "tgt_vocab_size"), cross=False)
        case "encoder-decoder":
            source = make_embedding(config, "src_vocab_size")
            target = source if config.tie == "all" else make_embedding(config, "tgt_vocab_size")
            return EncoderDecoder(build_encoder(config, source), build_decoder(config, target, cross=True))


def build_encoder(config: ModelConfig, embedding: Embedding) -> Encoder:
    """The left of Figure 1 over a given embedding."""
    blocks, positions = encoder_blocks(config), make_positions(config, two_sided=True)
    types = TokenTypes(config.n_token_types, config.d_model) if config.n_token_types else None
    return Encoder(embedding, positions, blocks, dropout=config.dropout, norm=final_norm(config), types=types)


def build_decoder(config: ModelConfig, embedding: Embedding, *, cross: bool) -> Decoder:
    """The right of Figure 1 over a given embedding; without `cross`, a language model."""
    blocks = decoder_blocks(config, cross=cross)
    project = projection(config.d_model, config.tgt_vocab_size, tied=None if config.tie == "none" else embedding)
    positions = make_positions(config, two_sided=False)
    pointer, dropout = Pointer(config.d_model) if config.copy else None, config.dropout
    return Decoder(embedding, positions, blocks, project, dropout=dropout, norm=final_norm(config), pointer=pointer)
