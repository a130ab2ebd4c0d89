"""Dimension flow: the shape of every tensor in a forward pass, step by step.

The shapes are recorded by hooks while the model runs. On torch's "meta" device, this needs no memory and no arithmetic:

    with torch.device("meta"):
        model = build(config)
    print(render_flow(dimension_flow(model)))
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from ...model.attention import Attend, CrossAttention, SelfAttention
from ...model.blocks import DecoderBlock, EncoderBlock
from ...model.fronts.frames import Frames
from ...model.fronts.patches import Patches
from ...model.fronts.tokens import Embedding
from ...model.heads import ClassPredictor, SpanFinder, TokenPredictor
from ...model.positions import Positions
from ...model.transformer import Decoder, Encoder, EncoderDecoder, EncoderModel, evaluation
from ..record.parts import stacks
from ..record.uncompiled import uncompiled

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """A shape and where it occurs: ("encoder", "block 0", "self-attention"), "weights", (B, H, T, S)."""

    where: tuple[str, ...]
    what: str
    shape: Shape

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)


def dimension_flow(
    model: nn.Module, source: Shape | Tensor | None = None, target: Shape | Tensor = (2, 12)
) -> list[Step]:
    """Run the model and return every shape, in order. Of each stack, only the first block is included.

    Args:
        model: any model. It isn't changed.
        source: the shape of the source, or an example input for a custom front end (default: two texts of 10 tokens,
            two images, or two recordings of a second).
        target: the shape of the target tokens, (B, T).
    """
    source = _example(model) if source is None else source
    watch = _Watch()
    for name, stack in stacks(model).items():
        _watch_stack(watch, (name,), stack)
    if isinstance(model, EncoderModel):
        watch.enter(model.head, "head", "memory")
        watch.output(model.head, ("head",), _HEADS[type(model.head)])
    device = next(model.parameters()).device
    inputs = (
        it if isinstance(it, Tensor) else torch.zeros(it, dtype=torch.long, device=device) for it in (source, target)
    )
    try:
        with uncompiled(model), evaluation(model), torch.no_grad():
            _run(model, *inputs)
    finally:
        watch.close()
    return watch.steps


def _example(model: nn.Module) -> Shape:
    front = next(iter(stacks(model).values())).embedding
    if isinstance(front, Patches):
        return (2, *front.shape)
    return (2, front.sample_rate) if isinstance(front, Frames) else (2, 10)


def render_flow(steps: Sequence[Step]) -> str:
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


class _Watch:
    """Hooks that record shapes in the running stack, since both stacks can share an embedding."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.handles: list[RemovableHandle] = []
        self.running = ""

    def enter(self, stack: nn.Module, name: str, what: str = "tokens") -> None:
        """Record when a stack starts to run, and the shape of its input."""

        def hook(_stack: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            self.running = name
            self.note((name,), what, inputs[0].shape)

        self.handles.append(stack.register_forward_pre_hook(hook))

    def note(self, where: tuple[str, ...], what: str, shape: Sequence[int]) -> None:
        if where[0] == self.running:
            self.steps.append(Step(where, what, tuple(shape)))

    def output(self, module: nn.Module, where: tuple[str, ...], what: str) -> None:
        """Record the shape of a module's output."""

        def hook(_module: nn.Module, _inputs: Any, output: Tensor) -> None:
            self.note(where, what, output.shape)

        self.handles.append(module.register_forward_hook(hook))

    def input(self, module: nn.Module, where: tuple[str, ...], what: str) -> None:
        """Record the shape of a module's input."""

        def hook(_module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            self.note(where, what, inputs[0].shape)

        self.handles.append(module.register_forward_pre_hook(hook))

    def close(self) -> None:
        for handle in self.handles:
            handle.remove()


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


def _watch_stack(watch: _Watch, where: tuple[str, ...], stack: Encoder | Decoder) -> None:
    watch.enter(stack, where[0], "tokens" if isinstance(stack.embedding, Embedding) else "inputs")
    watch.output(stack.embedding, where, _embedding_label(stack))
    if type(stack.positions).embed is not Positions.embed:  # the scheme changes the embeddings
        watch.input(
            stack.embedding_norm or stack.dropout, where, f"plus {type(stack.positions).__name__.lower()} positions"
        )
    if isinstance(stack, Encoder) and stack.types is not None:
        watch.output(stack.types, where, "plus token types")
    if stack.embedding_norm is not None:
        watch.output(stack.embedding_norm, where, "embedding norm")
    for block in list(stack.blocks)[:1]:
        _watch_block(watch, (*where, "block 0"), cast(EncoderBlock | DecoderBlock, block))
    n_blocks = len(stack.blocks)
    watch.output(stack.blocks[-1], where, f"after {n_blocks} block{'s' if n_blocks > 1 else ''}")
    if not isinstance(stack.norm, nn.Identity):
        watch.output(stack.norm, where, "final norm")
    if isinstance(stack, Decoder) and stack.pointer is not None:
        watch.output(stack.projection, where, "projection: logits")
        watch.output(stack, where, "pointer: log-probabilities")
    else:
        watch.output(stack, where, "projection: logits" if isinstance(stack, Decoder) else "memory")


def _embedding_label(stack: Encoder | Decoder) -> str:
    front = stack.embedding
    if not isinstance(front, Embedding):
        return type(front).__name__.lower()
    if front.scale == 1:
        return "embedding"
    factor = f"sqrt({stack.d_model})" if front.scale == math.sqrt(stack.d_model) else f"{front.scale:g}"
    return f"embedding times {factor}"


def _watch_block(watch: _Watch, where: tuple[str, ...], block: EncoderBlock | DecoderBlock) -> None:
    _watch_attention(watch, (*where, "self-attention"), block.attention)
    watch.output(block.add_norm_1, where, "add and norm")
    if isinstance(block, DecoderBlock) and block.cross_attention is not None and block.add_norm_2 is not None:
        _watch_attention(watch, (*where, "cross-attention"), block.cross_attention)
        watch.output(block.add_norm_2, where, "add and norm")
    feed_forward = (*where, "feed-forward")
    if isinstance(outer := getattr(block.feed_forward, "outer", None), nn.Module):
        watch.input(outer, feed_forward, "inner")
    watch.output(block.feed_forward, feed_forward, "output")
    last = block.add_norm_3 if isinstance(block, DecoderBlock) else block.add_norm_2
    watch.output(last, where, "add and norm")


def _scores(attention: SelfAttention | CrossAttention) -> str:
    if math.isclose(attention.scale, attention.d_head**-0.5):
        return f"q k^T / sqrt({attention.d_head})"
    return "q k^T" if math.isclose(attention.scale, 1) else f"{attention.scale:g} q k^T"


def _watch_attention(watch: _Watch, where: tuple[str, ...], attention: SelfAttention | CrossAttention) -> None:
    def heads(
        attend: nn.Module, tensors: tuple[Tensor, Tensor, Tensor], named: Mapping[str, Tensor | None], output: Tensor
    ) -> None:
        q, k, v = tensors
        watch.note(where, f"queries of {q.size(1)} heads", q.shape)
        watch.note(where, f"keys of {k.size(1)} heads", k.shape)
        watch.note(where, f"values of {v.size(1)} heads", v.shape)
        bias = named.get("bias")
        if bias is not None:
            watch.note(where, "position bias on the scores", bias.shape)
        named_weights, named_output = f"weights: softmax({_scores(attention)})", "weights times values"
        if type(attend) is not Attend:  # custom attention can follow another equation
            named_weights, named_output = (f"{what} of {type(attend).__name__}" for what in ("weights", "output"))
        if hasattr(type(attend), "weights"):
            watch.note(where, named_weights, (*q.shape[:3], k.size(2)))
        watch.note(where, named_output, output.shape)

    watch.handles.append(attention.attend.register_forward_hook(heads, with_kwargs=True))
    watch.output(attention, where, "heads joined and projected")
