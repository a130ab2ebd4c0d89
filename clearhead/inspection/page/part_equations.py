"""The equation of each part of a model, read off its modules, so that it's true for every setting."""

import math
from collections.abc import Callable

from torch import Tensor, nn

from ...model.attention import Attend, CrossAttention, SelfAttention
from ...model.feed_forward import ACTIVATIONS, FeedForward, GatedFeedForward, GeGLU, SwiGLU
from ...model.fronts.frames import Frames
from ...model.fronts.patches import Patches
from ...model.fronts.tokens import Embedding, Projection, TokenTypes
from ...model.heads import ClassPredictor, SpanFinder, TokenPredictor, TokenTransform
from ...model.norms import AddNorm, LayerNorm, RMSNorm
from ...model.pointer import Pointer
from ...model.positions import (
    Alibi,
    Learned,
    Positions,
    Relative,
    Rotary,
    Sinusoidal,
    Sinusoidal2D,
    SinusoidalHalves,
)
from ...model.transformer import Decoder, Encoder
from ..record.parts import stacks

_ADDED = {Sinusoidal: "PE(position)", SinusoidalHalves: "PE(position)", Learned: "P[position]",
          Sinusoidal2D: "PE(row, column)"}  # fmt: skip
_SCORED = {Relative: " + b(j − i)", Alibi: " − m·|i − j|"}  # for query i and key j, added to the scores of a head
_NOT_ADDED = (Positions, Rotary, *_SCORED)
_GATES = {SwiGLU: "silu", GeGLU: "gelu"}


def part_equation(model: nn.Module, name: str, part: nn.Module | None) -> str:
    """Return the equation of a part named as in `named_parts`, or "" for custom code, whose equation isn't known."""
    stack, _, place = name.partition(".")
    if place == "embedded":
        return _embedded(stacks(model)[stack])
    if isinstance(part, SelfAttention | CrossAttention):
        return _attention(part, stacks(model)[stack].positions if isinstance(part, SelfAttention) else None)
    if isinstance(part, Projection):
        return _projection(part, model)
    if isinstance(part, TokenPredictor):
        return _of_tokens(part, model)
    if isinstance(part, FeedForward | GatedFeedForward):
        return _feed_forward(part) if type(part) in (FeedForward, *_GATES) else ""
    if isinstance(part, AddNorm):
        return "x + Sublayer(norm(x))" if part.pre_norm else "norm(x + Sublayer(x))"
    if isinstance(part, Embedding):
        return _embedding(part)
    if isinstance(part, ClassPredictor):
        return _classes(part)
    return {
        Patches: "pixels·W + b",
        Frames: "gelu(conv(gelu(conv(log-mel))))",
        TokenTypes: "T[type]",
        LayerNorm: "(x − mean)/√(variance + ε)·γ + β",
        RMSNorm: "x/√(mean(x²) + ε)·γ",
        nn.Identity: "x",
        SpanFinder: "xW + b",
        Pointer: "g·P(vocabulary) + (1 − g)·P(copy)",
    }.get(type(part), "")


def _attention(part: SelfAttention | CrossAttention, positions: Positions | None) -> str:
    scheme = type(positions)
    if type(part.attend) is not Attend or (positions is not None and scheme not in (*_ADDED, *_NOT_ADDED)):
        return ""
    scores = "R(Q)R(K)ᵀ" if scheme is Rotary else "QKᵀ"
    if math.isclose(part.scale * math.sqrt(part.d_head), 1):
        scores += f"/√{part.d_head}"
    elif part.scale != 1:
        scores = f"{part.scale:.4g}·{scores}"
    return f"softmax({scores}{_SCORED.get(scheme, '')})V"


def _embedding(part: Embedding) -> str:
    width = part.weight.size(1)
    if part.scale == 1:
        return "E[token]"
    return f"E[token]·√{width}" if math.isclose(part.scale, math.sqrt(width)) else f"E[token]·{part.scale:.4g}"


def _embedded(stack: Encoder | Decoder) -> str:
    """Return the input of the first block: embeddings, types, positions, norm."""
    scheme = type(stack.positions)
    if scheme not in (*_ADDED, *_NOT_ADDED):
        return ""
    types = " + T[type]" if isinstance(stack, Encoder) and stack.types is not None else ""
    added = f" + {_ADDED[scheme]}" if scheme in _ADDED else ""
    return f"norm(x{types}{added})" if stack.embedding_norm is not None else f"x{types}{added}"


def _feed_forward(part: FeedForward | GatedFeedForward) -> str:
    one, two, three = (f" + {it}" if part.inner.bias is not None else "" for it in ("b₁", "b₂", "b₃"))
    if isinstance(part, GatedFeedForward):
        return f"({_GATES[type(part)]}(xW₁{one}) ⊙ (xW₃{three}))W₂{two}"
    name = _activation(part.activation)
    inner = f"max(0, xW₁{one})" if name == "relu" else f"{name}(xW₁{one})"
    return f"{inner}W₂{two}"


def _projection(part: Projection, model: nn.Module) -> str:
    embeddings = [it.embedding for it in stacks(model).values()]
    tied = any(isinstance(it, Embedding) and it.weight is part.weight for it in embeddings)
    scaled = "x" if part.scale == 1 else f"{part.scale:.4g}·x"
    return f"{scaled}{'Eᵀ' if tied else 'W'}{'' if part.bias is None else ' + b'}"


def _classes(part: ClassPredictor) -> str:
    pooled, bias = "mean(x)" if part.pooling == "mean" else "x₁", "" if part.linear.bias is None else " + b"
    if part.activation is None:
        return f"{pooled}W{bias}"
    return f"{part.activation.__name__}({pooled}W₁{' + b₁' if bias else ''})W₂{' + b₂' if bias else ''}"


def _of_tokens(part: TokenPredictor, model: nn.Module) -> str:
    if not isinstance(part.projection, Projection) or not isinstance(part.transform, TokenTransform | None):
        return ""
    scores = _projection(part.projection, model)
    if part.transform is None:
        return scores
    return scores.replace("x", f"norm({_activation(part.transform.activation)}(xW₁ + b₁))", 1)


def _activation(function: Callable[[Tensor], Tensor]) -> str:
    """Return the name of an activation, without its variant: gelu_tanh is gelu."""
    return next(name for name, it in ACTIVATIONS.items() if it is function).partition("_")[0]
