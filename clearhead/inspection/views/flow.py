"""Dimension flow: the shape of every tensor in a forward pass, step by step.

The shapes are recorded by hooks while the model runs. On torch's "meta" device, this needs no memory and no arithmetic:

    with torch.device("meta"):
        model = build(config)
    print(render_flow(dimension_flow(model)))
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from ...model.attention import Attend, CrossAttention, SelfAttention
from ...model.fronts.frames import Frames
from ...model.fronts.patches import Patches
from ...model.fronts.tokens import Embedding
from ...model.heads import ClassPredictor, SpanFinder, TokenPredictor
from ...model.positions import Positions
from ...model.transformer import Decoder, Encoder, EncoderDecoder, EncoderModel, evaluation
from ..record.parts import stacks, sub_layers
from ..record.uncompiled import uncompiled

Shape = tuple[int, ...]
Where = tuple[str, ...]
Shapes = Callable[..., Iterable[tuple[str, Sequence[int]]]]  # of a call: (module, inputs, options, output)
Watched = tuple[nn.Module, Where, Shapes]


@dataclass(frozen=True)
class ShapeStep:
    """A shape and where it occurs: ("encoder", "block 0", "self-attention"), "weights", (B, H, T, S)."""

    where: tuple[str, ...]
    what: str
    shape: Shape

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def dimension_flow(
    model: nn.Module, source: Shape | Tensor | None = None, target: Shape | Tensor = (2, 12)
) -> list[ShapeStep]:
    """Run the model and return every shape, in order. Of each stack, only the first block is included.

    Args:
        model: any model. It isn't changed.
        source: the shape of the source, or an example input for a custom front end (default: two texts of 10 tokens,
            two images, or two recordings of a second).
        target: the shape of the target tokens, (B, T).
    """
    source, device = _example(model) if source is None else source, next(model.parameters()).device
    inputs = (
        it if isinstance(it, Tensor) else torch.zeros(it, dtype=torch.long, device=device) for it in (source, target)
    )
    with _watching(model) as steps, uncompiled(model), evaluation(model), torch.no_grad():
        _run(model, *inputs)
    return steps


@contextmanager
def _watching(model: nn.Module) -> Iterator[list[ShapeStep]]:
    """Collect the shapes inside the `with` block, only those of the running stack: both can share an embedding."""
    steps: list[ShapeStep] = []
    running = ""

    def enter(name: str, what: str, _stack: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        nonlocal running
        running = name
        steps.append(ShapeStep((name,), what, tuple(inputs[0].shape)))

    def note(where: Where, shapes: Shapes, *call: Any) -> None:
        if where[0] == running:
            steps.extend(ShapeStep(where, what, tuple(shape)) for what, shape in shapes(*call))

    entered: dict[str, tuple[nn.Module, str]] = {}
    watched: list[Watched] = []
    for name, stack in stacks(model).items():
        entered[name] = (stack, "tokens" if isinstance(stack.embedding, Embedding) else "inputs")
        watched += _of_stack((name,), stack)
    if isinstance(model, EncoderModel):
        entered["head"] = (model.head, "memory")
        watched.append((model.head, ("head",), _output(_HEADS[type(model.head)])))
    with ExitStack() as hooks:
        for name, (part, what) in entered.items():
            hooks.enter_context(part.register_forward_pre_hook(partial(enter, name, what)))
        for part, where, shapes in watched:
            hooks.enter_context(part.register_forward_hook(partial(note, where, shapes), with_kwargs=True))
        yield steps


def _example(model: nn.Module) -> Shape:
    front = next(iter(stacks(model).values())).embedding
    if isinstance(front, Patches):
        return (2, *front.shape)
    return (2, front.sample_rate) if isinstance(front, Frames) else (2, 10)


def render_flow(steps: Sequence[ShapeStep]) -> str:
    """Render a table, indented by stack, block and sub-layer."""
    lines: list[str] = []
    before: tuple[str, ...] = ()
    for step in steps:
        shared = next((i for i, pair in enumerate(zip(step.where, before)) if pair[0] != pair[1]), None)
        known = min(len(step.where), len(before)) if shared is None else shared
        lines += ["  " * depth + step.where[depth] for depth in range(known, len(step.where))]
        lines.append(f"{'  ' * len(step.where) + step.what:<50}{step.shape}")
        before = step.where
    return "\n".join(lines)


def _output(what: str) -> Shapes:
    return lambda _module, _inputs, _options, output: [(what, output.shape)]


def _input(what: str) -> Shapes:
    return lambda _module, inputs, _options, _output: [(what, inputs[0].shape)]


_HEADS: dict[type[nn.Module], str] = {
    ClassPredictor: "a logit per class",
    SpanFinder: "logits of start and end",
    TokenPredictor: "logits of each masked token",
}


def _run(model: nn.Module, source: Tensor, target: Tensor) -> None:
    if isinstance(model, EncoderDecoder):
        model(source, target)
    elif isinstance(model, EncoderModel) and isinstance(model.head, TokenPredictor):
        model(source, at=torch.arange(source.numel(), device=source.device))  # a mask can't be counted on "meta"
    else:
        model(target if isinstance(model, Decoder) else source)


def _of_stack(where: Where, stack: Encoder | Decoder) -> Iterator[Watched]:
    yield stack.embedding, where, _output(_embedding_label(stack))
    if type(stack.positions).embed is not Positions.embed:  # the scheme changes the embeddings
        what = f"plus {type(stack.positions).__name__.lower()} positions"
        yield stack.embedding_norm or stack.dropout, where, _input(what)
    if isinstance(stack, Encoder) and stack.types is not None:
        yield stack.types, where, _output("plus token types")
    if stack.embedding_norm is not None:
        yield stack.embedding_norm, where, _output("embedding norm")
    for block in list(stack.blocks)[:1]:
        yield from _of_block((*where, "block 0"), block)
    n_blocks = len(stack.blocks)
    yield stack.blocks[-1], where, _output(f"after {n_blocks} block{'s' if n_blocks > 1 else ''}")
    if not isinstance(stack.norm, nn.Identity):
        yield stack.norm, where, _output("final norm")
    if isinstance(stack, Decoder) and stack.pointer is not None:
        yield stack.projection, where, _output("projection: logits")
        yield stack, where, _output("pointer: log-probabilities")
    else:
        yield stack, where, _output("projection: logits" if isinstance(stack, Decoder) else "memory")


def _embedding_label(stack: Encoder | Decoder) -> str:
    front = stack.embedding
    if not isinstance(front, Embedding):
        return type(front).__name__.lower()
    if front.scale == 1:
        return "embedding"
    factor = f"sqrt({stack.d_model})" if front.scale == math.sqrt(stack.d_model) else f"{front.scale:g}"
    return f"embedding times {factor}"


def _of_block(where: Where, block: nn.Module) -> Iterator[Watched]:
    for kind, part, add_norm, _ in sub_layers(block):
        if kind != "feed_forward":
            yield from _of_attention((*where, f"{kind}-attention"), cast(SelfAttention | CrossAttention, part))
        else:
            feed_forward = (*where, "feed-forward")
            if isinstance(outer := getattr(part, "outer", None), nn.Module):
                yield outer, feed_forward, _input("inner")
            yield part, feed_forward, _output("output")
        yield add_norm, where, _output("add and norm")


def _scores(attention: SelfAttention | CrossAttention) -> str:
    if math.isclose(attention.scale, attention.d_head**-0.5):
        return f"q k^T / sqrt({attention.d_head})"
    return "q k^T" if math.isclose(attention.scale, 1) else f"{attention.scale:g} q k^T"


def _of_attention(where: Where, attention: SelfAttention | CrossAttention) -> Iterator[Watched]:
    def heads(
        attend: nn.Module, tensors: tuple[Tensor, Tensor, Tensor], named: Mapping[str, Tensor | None], output: Tensor
    ) -> Iterator[tuple[str, Sequence[int]]]:
        q, k, v = tensors
        for name, x in (("queries", q), ("keys", k), ("values", v)):
            yield f"{name} of {x.size(1)} heads", x.shape
        if (bias := named.get("bias")) is not None:
            yield "position bias on the scores", bias.shape
        named_weights, named_output = f"weights: softmax({_scores(attention)})", "weights times values"
        if type(attend) is not Attend:  # custom attention can follow another equation
            named_weights, named_output = (f"{what} of {type(attend).__name__}" for what in ("weights", "output"))
        if hasattr(type(attend), "weights"):
            yield named_weights, (*q.shape[:3], k.size(2))
        yield named_output, output.shape

    yield attention.attend, where, heads
    yield attention, where, _output("heads joined and projected")
