"""Figure 1: the two stacks, the models made of them, and `build`, which builds a model from a configuration."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import torch
from torch import Tensor, nn

from ..config import ModelConfig
from ..errors import ModelError
from . import assembly
from .blocks import DecoderBlock, EncoderBlock
from .cache import Cache, LayerCache
from .dropout import Dropout
from .fronts.front import Front
from .fronts.tokens import Embedding, Projection, TokenTypes
from .heads import ClassPredictor, SpanFinder, TokenPredictor
from .masks import causal_mask, recent_mask
from .pointer import Pointer
from .positions import Positions


class Encoder(nn.Module):
    """Figure 1, left: a front end, positions, N blocks and, in a pre-norm stack, a final norm.

    The front end is called `embedding`, as in the figure, even if it isn't a token embedding.
    """

    def __init__(
        self,
        embedding: Front,
        positions: Positions,
        blocks: list[EncoderBlock],
        *,
        dropout: float,
        norm: nn.Module | None,
        embedding_norm: nn.Module | None = None,
        types: TokenTypes | None = None,
    ) -> None:
        super().__init__()
        self.embedding, self.positions, self.dropout = embedding, positions, Dropout(dropout)
        self.blocks, self.norm, self.types = nn.ModuleList(blocks), norm or nn.Identity(), types
        self.embedding_norm = embedding_norm

    @property
    def d_model(self) -> int:
        """The width of the residual stream."""
        return cast(EncoderBlock, self.blocks[0]).attention.out.out_features

    def forward(self, inputs: Tensor, types: Tensor | None = None, *, mask: Tensor | None = None) -> Tensor:
        """inputs (B, S), types (B, S), mask (B, 1, 1, S) -> (B, S, D)

        Args:
            inputs: what the front end reads: (B, S) for tokens.
            types: token types, from 0 (default: all 0, if the model has any).
            mask: True for positions that may be attended to (default: all of them).
        """
        x = self.embedding(inputs)
        at = torch.arange(x.size(1), device=x.device)[None]
        if self.types is not None:
            x = x + self.types(torch.zeros(x.shape[:2], dtype=torch.long, device=x.device) if types is None else types)
        elif types is not None:
            what = "this model has no token types, but types were passed"
            raise ModelError(what, fix="build it with model.n_token_types, or pass no types", name="types")
        x = self.positions.embed(x, at)
        x = self.dropout(x if self.embedding_norm is None else self.embedding_norm(x))
        bias, rotation = self.positions.bias(at, at), self.positions.rotation(at)
        for block in self.blocks:
            x = block(x, mask=mask, bias=bias, rotation=rotation)
        return self.norm(x)


class Decoder(nn.Module):
    """Figure 1, right: embedding, positions, N causal blocks, projection. Without an encoder, a language model."""

    def __init__(
        self,
        embedding: Embedding,
        positions: Positions,
        blocks: list[DecoderBlock],
        project: Projection,
        *,
        dropout: float,
        norm: nn.Module | None,
        embedding_norm: nn.Module | None = None,
        window: int | None = None,
        pointer: Pointer | None = None,
    ) -> None:
        super().__init__()
        self.embedding, self.positions, self.dropout = embedding, positions, Dropout(dropout)
        self.blocks, self.norm, self.projection = nn.ModuleList(blocks), norm or nn.Identity(), project
        self.embedding_norm, self.window, self.pointer = embedding_norm, window, pointer

    @property
    def d_model(self) -> int:
        """The width of the residual stream."""
        return cast(DecoderBlock, self.blocks[0]).attention.out.out_features

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
        states: bool = False,
    ) -> Tensor:
        """(B, T), memory (B, S, D), memory_mask (B, 1, 1, S), source (B, S) -> logits (B, T, V)

        Args:
            tokens: the tokens to read. With a cache, they follow the tokens in the cache.
            memory: the encoder's output. Not read if the cache already holds its keys and values (see `new_cache`).
            mask: False for keys to hide in addition to the future, such as the left padding of ragged prompts.
            memory_mask: True for positions of the memory that may be attended to.
            positions: the position of each token (B, T). By default, positions continue from the cache in every row.
            cache: keys and values of earlier tokens, updated in place.
            source: the source's tokens, which a pointer copies from.
            newest: return logits of the last token only, (B, 1, V). The logits of a whole prompt can take more memory
                than everything else.
            states: return what the projection reads instead, (B, T, D).

        Returns:
            Logits, or log-probabilities from a model with a pointer.
        """
        n_new = tokens.size(1)
        new = torch.arange(n_new, device=tokens.device)
        at = new[None] + (cache.length if cache is not None else 0) if positions is None else positions
        ages = cache.ages(n_new) if cache is not None else new.flip(0)
        keys_at = at[:, -1:] - ages  # keys have consecutive positions, up to the last query's
        if n_new > 1:  # a single query is the last one, and may attend to everything before it
            past_only = causal_mask(n_new, ages.size(0), device=tokens.device)
            mask = past_only if mask is None else mask & past_only
        if self.window is not None and ages.size(0) > self.window:
            near = recent_mask(at, keys_at, self.window)
            mask = near if mask is None else mask & near
        bias, rotation = self.positions.bias(at, keys_at), self.positions.rotation(at)
        x = self.positions.embed(self.embedding(tokens), at)
        x = self.dropout(x if self.embedding_norm is None else self.embedding_norm(x))
        more = {"mask": mask, "memory_mask": memory_mask, "bias": bias, "rotation": rotation}
        weights: list[Tensor] = []  # the last block's cross-attention, for the pointer
        for block, layer in zip(self._blocks(), cache.layers if cache is not None else [None] * len(self.blocks)):
            observe = weights.append if self.pointer is not None and block is self.blocks[-1] else None
            x = block(x, self._memory(block, memory, layer), **more, cache=layer, observe=observe)
        x = self.norm(x)
        if states:
            return x
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
        """Return an empty cache.

        Args:
            rows: the number of hypotheses.
            capacity: maximum number of tokens in each row.
            memory: the encoder's output (B, S, D). Its keys and values are computed here, once.
            source: the source's tokens (B, S), for a pointer.
            ring: overwrite the oldest token when full, so that there's no limit on length.
        """
        layers = []
        for block in self._blocks():
            attention = block.attention
            weight = attention.qkv.weight
            shape = (rows, attention.n_kv_heads, capacity, attention.d_head)
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
            what = "this decoder attends to an encoder's memory, which is missing"
            raise ModelError(what, fix="pass memory=..., or a cache made with it", name="memory")
        return block.cross_attention.project(memory)

    @staticmethod
    def _read(pointer: Pointer, source: Tensor | None) -> tuple[Tensor, Tensor]:
        if source is None:
            what = "this decoder copies tokens from its source, which is missing"
            raise ModelError(what, fix="pass source=..., or a cache made with it", name="source")
        return pointer.read(source)


class EncoderDecoder(nn.Module):
    """The model of the paper."""

    def __init__(self, encoder: Encoder, decoder: Decoder) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def forward(
        self, source: Tensor, target: Tensor, *, source_mask: Tensor | None = None, states: bool = False
    ) -> Tensor:
        """source (B, S), target (B, T), source_mask (B, 1, 1, S) -> logits (B, T, V), or `states` (B, T, D)

        Args:
            source: what the encoder reads.
            target: the target's tokens, start token first. It needs no mask if it's padded on the right, where earlier
                tokens can't see the padding.
            source_mask: True for positions of the source that may be attended to (default: all of them).
            states: return what the projection reads instead of logits.
        """
        memory = self.encode(source, mask=source_mask)
        return self.decoder(target, memory, memory_mask=source_mask, source=source, states=states)

    def encode(self, source: Tensor, *, mask: Tensor | None = None) -> Tensor:
        """source (B, S), mask (B, 1, 1, S) -> memory (B, S, D)"""
        return self.encoder(source, mask=mask)


class EncoderModel(nn.Module):
    """An encoder with a head (BERT, Devlin et al. 2019)."""

    def __init__(self, encoder: Encoder, head: ClassPredictor | SpanFinder | TokenPredictor) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, inputs: Tensor, types: Tensor | None = None, *, at: Tensor | None = None) -> Tensor:
        """inputs (B, S), types (B, S) -> (B, C) from a ClassPredictor, (B, S, 2) from a SpanFinder, (N, V) from a
        TokenPredictor

        Args:
            inputs: what the front reads, such as tokens. Padding is masked.
            types: the type of each position, in a model that has types.
            at: True for the positions that the head reads (B, S): positions to pool, possible starts and ends of an
                answer, or tokens to predict. By default, all but padding.
        """
        mask = self.encoder.embedding.mask(inputs)
        x = self.encoder(inputs, types, mask=mask)
        if at is None:
            at = x.new_ones(x.shape[:2], dtype=torch.bool) if mask is None else mask[:, 0, 0]
        found: Tensor = self.head(x, at)
        return found


@contextmanager
def evaluation(model: nn.Module) -> Iterator[None]:
    """Switch to evaluation mode, and restore the mode of every module afterwards."""
    modes = {module: module.training for module in model.modules()}
    if any(modes.values()):
        model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def build(config: ModelConfig) -> EncoderDecoder | EncoderModel | Encoder | Decoder:
    """Return a model with initial weights from torch's random generator.

    An encoder-only model returns what its head returns, or hidden states (B, S, D) if it has no head. A decoder-only
    model is a language model and returns logits (B, T, V).
    """
    assembly.check_parts(config)
    match config.topology:
        case "encoder-only":
            front = assembly.make_front(config)
            encoder = build_encoder(config, front)
            head = assembly.make_head(config, front)
            return encoder if head is None else EncoderModel(encoder, head)
        case "decoder-only":
            return build_decoder(config, assembly.make_embedding(config), cross=False)
        case "encoder-decoder":
            front = assembly.make_front(config)
            shared = config.tie in ("all", "embeddings") and isinstance(front, Embedding)
            target = cast(Embedding, front) if shared else assembly.make_embedding(config)
            return EncoderDecoder(build_encoder(config, front), build_decoder(config, target, cross=True))


def build_encoder(config: ModelConfig, front: Front) -> Encoder:
    """Return the left of Figure 1, with this front end."""
    blocks, positions = assembly.encoder_blocks(config), assembly.make_positions(config, two_sided=True)
    types = TokenTypes(config.n_token_types, config.d_model) if config.n_token_types else None
    return Encoder(
        front,
        positions,
        blocks,
        dropout=config.dropout,
        norm=assembly.final_norm(config),
        embedding_norm=assembly.embedding_norm(config),
        types=types,
    )


def build_decoder(config: ModelConfig, embedding: Embedding, *, cross: bool) -> Decoder:
    """Return the right of Figure 1, with this embedding; without `cross`, a language model.

    Args:
        config: settings of the model.
        embedding: reads the target's tokens. The projection shares its matrix if `model.tie` says so.
        cross: whether blocks attend to an encoder's memory.
    """
    blocks = assembly.decoder_blocks(config, cross=cross)
    project = assembly.make_projection(config, config.tgt_vocab_size, embedding)
    positions = assembly.make_positions(config, two_sided=False)
    return Decoder(
        embedding,
        positions,
        blocks,
        project,
        dropout=config.dropout,
        norm=assembly.final_norm(config),
        embedding_norm=assembly.embedding_norm(config),
        window=config.window,
        pointer=Pointer(config.d_model) if config.copy else None,
    )
