"""The ONNX graphs of a model: functions of tensors alone, and the names and shapes of those tensors.

    encoder-only       encoder: tokens -> logits, or hidden states without a head
    encoder-decoder    encoder: tokens -> keys and values of the memory, and its mask
                       decoder: new tokens, memory, cache -> logits, larger cache
    decoder-only       decoder: new tokens, cache -> logits, larger cache

A graph finds padding itself, as tokens equal to the padding id. A cache starts with 0 tokens.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from ...config import ModelConfig
from ...model.blocks import DecoderBlock
from ...model.cache import Cache, LayerCache
from ...model.heads import ClassPredictor, SpanFinder, TokenPredictor
from ...model.transformer import Decoder, Encoder, EncoderDecoder, EncoderModel


class Port(NamedTuple):
    """An input or output of a graph. Axes with a name have any size; "past + tokens" is the sum of two."""

    name: str
    dtype: torch.dtype
    shape: tuple[str | int, ...]


@dataclass(frozen=True)
class Graph:
    """A function that takes and returns tensors alone, as the ports say, and the model that it runs.

    Its name is that of its file.
    """

    name: str
    model: nn.Module
    run: Callable[..., Tensor | tuple[Tensor, ...]]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


def read(model: EncoderModel | Encoder, *given: Tensor) -> Tensor:
    """Return what the head returns, or hidden states without a head.

    inputs (B, ...), types (B, S) if the model has them -> (B, C) of a ClassPredictor, (B, S, 2) of a SpanFinder,
    (B, S, V) of a TokenPredictor, (B, S, D)
    """
    inputs, *types = given
    inputs = _widened(inputs)
    if isinstance(model, EncoderModel) and not isinstance(model.head, TokenPredictor):
        return model(inputs, *types)
    encoder = model.encoder if isinstance(model, EncoderModel) else model
    x: Tensor = encoder(inputs, *types, mask=encoder.embedding.mask(inputs))
    if isinstance(model, EncoderModel):  # every position, because the number of masked ones varies
        head = cast(TokenPredictor, model.head)
        x = head.projection(x if head.transform is None else head.transform(x))
    return x


def remember(model: EncoderDecoder, source: Tensor) -> tuple[Tensor, ...]:
    """Return what the decoder attends to, which is computed once per source.

    (B, ...) -> mask (B, S), then keys (B, G, S, K) and values (B, G, S, K) of each decoder block
    """
    source = _widened(source)
    mask = model.encoder.embedding.mask(source)
    memory = model.encode(source, mask=mask)
    found = [memory.new_ones(memory.shape[:2], dtype=torch.bool) if mask is None else mask[:, 0, 0]]
    for block in model.decoder.blocks:
        found += cast(Any, block).cross_attention.project(memory)
    return tuple(found)


def _widened(inputs: Tensor) -> Tensor:
    """Return inputs in 32 bits if they have 16, for which ONNX Runtime lacks operators. (...) -> (...)"""
    return inputs.int() if inputs.dtype == torch.int16 else inputs


def answer(decoder: Decoder, tokens: Tensor, memory_mask: Tensor, *given: Tensor) -> tuple[Tensor, ...]:
    """Read new tokens with the memory of a source. Return the logits after each of them, and the larger cache.

    tokens (B, T), memory_mask (B, S), source (B, S) for a pointer, keys and values of the memory (B, G, S, K) and of
    the cache (B, G, P, K) -> logits (B, T, V), keys and values of the cache (B, G, P + T, K)
    """
    left, n_layers = iter(given), len(decoder.blocks)
    source = None if decoder.pointer is None else decoder.pointer.read(next(left))
    memories = [(next(left), next(left)) for _ in range(n_layers)]
    layers = [_Past(next(left), next(left), memory) for memory in memories]
    logits = decoder(tokens, memory_mask=memory_mask[:, None, None], cache=_Pasts(layers, source))
    return logits, *_held(layers)


def resume(decoder: Decoder, pad: int, tokens: Tensor, past_mask: Tensor, *given: Tensor) -> tuple[Tensor, ...]:
    """Read new tokens of texts. Return the logits after each of them, and the larger cache with its mask.

    Padding is on the left. Positions don't count it.

    tokens (B, T), past_mask (B, P), keys and values of the cache (B, G, P, K) -> logits (B, T, V), mask (B, P + T),
    keys and values of the cache (B, G, P + T, K)
    """
    left = iter(given)
    layers = [_Past(next(left), next(left)) for _ in decoder.blocks]
    mask = torch.cat((past_mask, tokens != pad), 1)
    positions = (mask.long().cumsum(1) - 1).clamp(min=0)[:, past_mask.size(1) :]
    logits = decoder(tokens, mask=mask[:, None, None], positions=positions, cache=_Pasts(layers))
    return logits, mask, *_held(layers)


class _Past(LayerCache):
    """The cache of a block as the tensors that a caller keeps: it grows with every append, and starts as given."""

    def __init__(self, keys: Tensor, values: Tensor, memory: tuple[Tensor, Tensor] | None = None) -> None:
        super().__init__(keys, values, memory)
        self.length = keys.size(2)

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        self.keys, self.values = torch.cat((self.keys, k), 2), torch.cat((self.values, v), 2)
        return self.keys, self.values


class _Pasts(Cache):
    """The caches of all blocks."""

    def __init__(self, layers: Sequence[LayerCache], source: tuple[Tensor, Tensor] | None = None) -> None:
        super().__init__(list(layers), source)

    def ages(self, new: int) -> Tensor:
        return torch.arange(self.length + new).flip(0)


def _held(layers: Sequence[LayerCache]) -> Iterator[Tensor]:
    for layer in layers:
        yield layer.keys
        yield layer.values


def graphs(model: nn.Module, config: ModelConfig) -> list[Graph]:
    """Return the graphs of a model."""
    if isinstance(model, EncoderDecoder):
        return [_memory_graph(model, config), _step_graph(model.decoder, config)]
    if isinstance(model, Decoder):
        return [_step_graph(model, config)]
    return [_encoder_graph(cast(EncoderModel | Encoder, model), config)]


def _encoder_graph(model: EncoderModel | Encoder, config: ModelConfig) -> Graph:
    inputs = [_front_input(config)]
    if config.n_token_types:
        inputs.append(Port("types", torch.int64, ("batch", "source")))
    positions = ("batch", _length(config))
    match model.head if isinstance(model, EncoderModel) else None:
        case ClassPredictor():
            output = Port("logits", torch.float32, ("batch", config.n_classes))
        case SpanFinder():
            output = Port("logits", torch.float32, (*positions, 2))
        case TokenPredictor():
            output = Port("logits", torch.float32, (*positions, config.src_vocab_size))
        case _:
            output = Port("hidden", torch.float32, (*positions, config.d_model))
    return Graph("encoder", model, partial(read, model), tuple(inputs), (output,))


def _memory_graph(model: EncoderDecoder, config: ModelConfig) -> Graph:
    memory = [Port("memory_mask", torch.bool, ("batch", _length(config))), *_memory(model.decoder, config)]
    return Graph("encoder", model, partial(remember, model), (_front_input(config),), tuple(memory))


def _step_graph(decoder: Decoder, config: ModelConfig) -> Graph:
    inputs = [Port("tokens", torch.int64, ("batch", "tokens"))]
    outputs = [Port("logits", torch.float32, ("batch", "tokens", config.tgt_vocab_size))]
    if config.topology == "encoder-decoder":
        inputs.append(Port("memory_mask", torch.bool, ("batch", _length(config))))
        inputs += [Port("source", torch.int64, ("batch", "source"))] if config.copy else []
        inputs += _memory(decoder, config)
        run = partial(answer, decoder)
    else:
        inputs.append(Port("past_mask", torch.bool, ("batch", "past")))
        outputs.append(Port("mask", torch.bool, ("batch", "past + tokens")))
        run = partial(resume, decoder, config.pad_id)
    inputs += _past(decoder, "past_", "past")
    outputs += _past(decoder, "", "past + tokens")
    return Graph("decoder", decoder, run, tuple(inputs), tuple(outputs))


def _front_input(config: ModelConfig) -> Port:
    match config.front:
        case "patches":
            sides = (config.image_channels or 0, config.image_size or 0, config.image_size or 0)
            return Port("pixels", torch.uint8, ("batch", *sides))
        case "frames":
            return Port("samples", torch.int16, ("batch", "samples"))
        case _:
            return Port("source", torch.int64, ("batch", "source"))


def _length(config: ModelConfig) -> str | int:
    """Return the number of the encoder's positions, or the name of their axis."""
    if config.front != "patches":
        return "source" if config.front == "tokens" else "positions"
    across = (config.image_size or 0) // (config.patch_size or 1)
    return across**2 + (config.head == "class" and config.pooling == "first")


def _memory(decoder: Decoder, config: ModelConfig) -> list[Port]:
    found = []
    for i, block in enumerate(decoder.blocks):
        attention = cast(Any, block).cross_attention
        shape = ("batch", attention.n_kv_heads, _length(config), attention.d_head)
        found += [Port(f"memory_{what}.{i}", torch.float32, shape) for what in ("keys", "values")]
    return found


def _past(decoder: Decoder, prefix: str, length: str) -> list[Port]:
    found = []
    for i, block in enumerate(decoder.blocks):
        attention = cast(DecoderBlock, block).attention
        shape = ("batch", attention.n_kv_heads, length, attention.d_head)
        found += [Port(f"{prefix}{what}.{i}", torch.float32, shape) for what in ("keys", "values")]
    return found
