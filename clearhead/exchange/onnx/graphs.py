"""The ONNX graphs of a model: functions of tensors alone, and the names and shapes of those tensors.

    encoder-only       encoder: tokens -> logits, or hidden states without a head
    encoder-decoder    encoder: tokens -> keys and values of the memory, and its mask
                       decoder: new tokens, memory, cache -> logits, larger cache
    decoder-only       decoder: new tokens, cache -> logits, larger cache

A graph finds padding itself, as tokens equal to the padding id. A cache starts with 0 tokens. torch's exporter traces a
graph and turns it into an ONNX model.
"""

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from ...config import ModelConfig
from ...errors import ModelError
from ...model.attention import Attend
from ...model.cache import Cache, LayerCache
from ...model.heads import ClassPredictor, SpanFinder, TokenPredictor
from ...model.transformer import Decoder, Encoder, EncoderDecoder, EncoderModel

if TYPE_CHECKING:
    from onnx import ModelProto


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


def _read(model: EncoderModel | Encoder, *given: Tensor) -> Tensor:
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


def _remember(model: EncoderDecoder, source: Tensor) -> tuple[Tensor, ...]:
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


def _answer(decoder: Decoder, tokens: Tensor, memory_mask: Tensor, *given: Tensor) -> tuple[Tensor, ...]:
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


def _resume(decoder: Decoder, pad: int, tokens: Tensor, past_mask: Tensor, *given: Tensor) -> tuple[Tensor, ...]:
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
    return Graph("encoder", model, partial(_read, model), tuple(inputs), (output,))


def _memory_graph(model: EncoderDecoder, config: ModelConfig) -> Graph:
    memory = [Port("memory_mask", torch.bool, ("batch", _length(config))), *_memory(model.decoder, config)]
    return Graph("encoder", model, partial(_remember, model), (_front_input(config),), tuple(memory))


def _step_graph(decoder: Decoder, config: ModelConfig) -> Graph:
    inputs = [Port("tokens", torch.int64, ("batch", "tokens"))]
    outputs = [Port("logits", torch.float32, ("batch", "tokens", config.tgt_vocab_size))]
    if config.topology == "encoder-decoder":
        inputs.append(Port("memory_mask", torch.bool, ("batch", _length(config))))
        inputs += [Port("source", torch.int64, ("batch", "source"))] if config.copy else []
        inputs += _memory(decoder, config)
        run = partial(_answer, decoder)
    else:
        inputs.append(Port("past_mask", torch.bool, ("batch", "past")))
        outputs.append(Port("mask", torch.bool, ("batch", "past + tokens")))
        run = partial(_resume, decoder, config.pad_id)
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
    return _keys_and_values([cast(Any, it).cross_attention for it in decoder.blocks], "memory_", _length(config))


def _past(decoder: Decoder, prefix: str, length: str) -> list[Port]:
    return _keys_and_values([cast(Any, it).attention for it in decoder.blocks], prefix, length)


def _keys_and_values(attentions: Sequence[Any], prefix: str, length: str | int) -> list[Port]:
    found = []
    for i, it in enumerate(attentions):
        shape = ("batch", it.n_kv_heads, length, it.d_head)
        found += [Port(f"{prefix}{what}.{i}", torch.float32, shape) for what in ("keys", "values")]
    return found


# --- tracing

_SIZES = {  # distinct, and none is 1, which torch would take as fixed
    "batch": 3, "source": 5, "positions": 6, "past": 7, "tokens": 4, "samples": 16_001,
}  # fmt: skip
_NEVER = 2**62  # more keys than any text has


def trace(graph: Graph, *, window: int | None = None) -> "ModelProto":
    """Return a graph as an ONNX model.

    Args:
        graph: the graph, on the CPU and in evaluation mode.
        window: the number of latest tokens that a token attends to. Tracing takes one branch of each condition, and
            the branch for more tokens than the window is right for fewer, too.

    Raises:
        ModelError: torch can't export a part of the model.
    """
    sizes = _SIZES | {"past": _SIZES["past"] + (window or 0)}
    inputs = tuple(
        torch.zeros([sizes[n] if isinstance(n, str) else n for n in port.shape], dtype=port.dtype)
        for port in graph.inputs
    )
    any_size = torch.export.Dim.DYNAMIC
    axes = tuple({i: any_size for i, n in enumerate(port.shape) if isinstance(n, str)} for port in graph.inputs)
    from onnxscript.optimizer import optimize_ir

    module = nn.Module()
    module.model, module.forward = graph.model, lambda *given: graph.run(*given)
    try:
        with quiet(), _written_out(graph.model), torch.no_grad():
            traced = torch.export.export(module, inputs, dynamic_shapes=(axes,), strict=False)
            program = torch.onnx.export(
                traced,
                inputs,
                input_names=[port.name for port in graph.inputs],
                output_names=[port.name for port in graph.outputs],
                dynamo=True,
                verbose=False,
                optimize=False,
            )
            assert program is not None
            optimize_ir(program.model, should_fold=lambda node: False if node.op_type == "Transpose" else None)
    except Exception as error:  # the exporter raises errors of many types
        part, why = _part(graph.model, error), str(error).splitlines()[0] if str(error) else type(error).__name__
        what = f"torch can't export {part} to ONNX: {why}"
        raise ModelError(what, fix="use a model without it", name=part) from error
    found = program.model_proto
    _name_axes(found, graph)
    _drop_notes(found)
    return found


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the warnings and log messages of other programs' exporters from the user."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


@contextmanager
def _written_out(module: nn.Module) -> Iterator[None]:
    """Compute attention by Equation 1 at any length: a graph can't choose between two ways."""
    ways = {part: part.fused_from for part in module.modules() if isinstance(part, Attend)}
    for part in ways:
        part.fused_from = _NEVER
    try:
        yield
    finally:
        for part, fused_from in ways.items():
            part.fused_from = fused_from


def _part(module: nn.Module, error: BaseException) -> str:
    """Return the class of the innermost part of the model that was running when an error was raised."""
    found, step = type(module).__name__, error.__traceback__
    while step is not None:
        running = step.tb_frame.f_locals.get("self")
        if isinstance(running, nn.Module) and not type(running).__module__.startswith("torch."):
            found = type(running).__name__
        step = step.tb_next
    return found


def _name_axes(model: "ModelProto", graph: Graph) -> None:
    """Give the axes of inputs and outputs the names in the graph's ports, instead of torch's."""
    for ports, values in ((graph.inputs, model.graph.input), (graph.outputs, model.graph.output)):
        for port, value in zip(ports, values, strict=True):
            assert port.name == value.name
            for size, axis in zip(port.shape, value.type.tensor_type.shape.dim, strict=True):
                if isinstance(size, str):
                    axis.dim_param = size
                else:
                    axis.dim_value = size
    del model.graph.value_info[:]  # shapes in between, in torch's names


def _drop_notes(model: "ModelProto") -> None:
    """Drop what torch notes about its own code, such as paths on this machine. It can be larger than the model."""
    for part in (model, model.graph, *model.graph.node, *model.graph.initializer):
        del part.metadata_props[:]
        part.doc_string = ""
