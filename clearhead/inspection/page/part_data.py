"""The parts of a model for the page: shapes, times, equations, source code, first values, and the attention."""

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from ...model import positions as schemes
from ...model.attention import Attend, CrossAttention, SelfAttention
from ...model.feed_forward import ACTIVATIONS, FeedForward, GatedFeedForward, GeGLU, SwiGLU
from ...model.fronts.frames import Frames
from ...model.fronts.patches import Patches
from ...model.fronts.tokens import Embedding, Projection, TokenTypes
from ...model.heads import ClassPredictor, SpanFinder, TokenPredictor, TokenTransform
from ...model.norms import AddNorm, LayerNorm, RMSNorm
from ...model.pointer import Pointer
from ...model.transformer import Decoder, Encoder
from ..record.calls import AttentionCall
from ..record.parts import named_parts, part_rows, stacks, sub_layers
from ..record.trace import Trace
from ..views.explanation import Explanation
from ..views.head_grid import heads_of
from .document import bits_array, bytes_array, float_array, weights_array

_VALUES = 8  # of a token's vector


def part_data(explanation: Explanation) -> list[dict[str, Any]]:
    """Return the parts in the order of computation, each with the first values of every position before and after."""
    found = part_facts(explanation.model, explanation.trace)
    return [it | _first_values(explanation, it["name"]) for it in found]


def part_facts(model: nn.Module, trace: Trace) -> list[dict[str, Any]]:
    """Return the parts in the order of computation: shapes, parameters, times, equations and source code."""
    modules, found = dict(named_parts(model)), []
    for row in part_rows(model, trace):
        part = _module(model, row.name, modules)
        about = {
            "class": type(part).__name__,
            "code": "" if part is None else _source(part),
            "equation": part_equation(model, row.name, part),
        }
        found.append(row.to_dict() | about)
    return found


def _module(model: nn.Module, name: str, modules: Mapping[str, nn.Module]) -> nn.Module | None:
    """Return the module of a part. An attention's name is that of its `attend`; its own module projects the heads."""
    stack, *place = name.split(".")
    if len(place) == 2 and place[1] in ("self", "cross"):
        block = stacks(model)[stack].blocks[int(place[0])]
        return next(part for kind, part, _, _ in sub_layers(block) if kind == place[1])
    return modules.get(name)


def _source(part: nn.Module) -> str:
    try:
        return inspect.cleandoc("\n" + inspect.getsource(type(part).forward))
    except (OSError, TypeError):
        return ""


def _first_values(explanation: Explanation, name: str) -> dict[str, Any]:
    """Return the first numbers of each position's vector before and after a part, and the shape before it."""
    trace = explanation.trace
    last = next((it for it in (f"{name}.out", name) if it in trace.parts), None)
    if last is None:
        return {"values": [], "inputs": []}
    first = trace.parts.get(f"{name}.qkv") or trace.parts.get(f"{name}.q") or trace.parts.get(name)
    given = first[-1].inputs if first else ()
    read = given[0] if given and isinstance(given[0], Tensor) and given[0].is_floating_point() else None
    return {
        "values": _rows(trace[last].output[0]),
        "inputs": [] if read is None else _rows(read[0]),
        "input_shape": [] if read is None else list(read.shape),
    }


def _rows(x: Tensor) -> list[list[float]]:
    return [[float(f"{value:.4g}") for value in row] for row in x.reshape(-1, x.size(-1))[:, :_VALUES].tolist()]


def attention_data(explanation: Explanation, leave_out: Callable[[str, str], None]) -> dict[str, Any]:
    """Return the weights of each attention module, and the inputs of its scores."""
    modules = {}
    for name, calls in explanation.trace.calls.items():
        call = calls[-1]
        if call.known_weights is None:
            leave_out(name, f"{call.kind} doesn't report its weights")
            continue
        weights = call.weights.values[0]
        modules[name] = {
            "weights": weights_array(weights.numpy(force=True)),
            "entropy": [round(it.entropy, 6) for it in heads_of(call.weights.select(row=0))],
            **_scores(call),
        }
    return modules


def _scores(call: AttentionCall) -> dict[str, Any]:
    """Return the inputs of Equation 1's scores: queries, keys, the mask, and the logarithm of each row's sum."""
    if call.kind != "Attend":
        return {}
    scores = call.masked_scores[0].double()
    sums = scores.logsumexp(-1)
    given = {"lse": float_array(sums.numpy(force=True)), "q": bytes_array(call.q[0].float().numpy(force=True))}
    given["k"] = bytes_array(call.k[0].float().numpy(force=True))
    if call.mask is not None:
        whole = (*call.q.shape[:3], call.k.size(2))
        given["mask"] = bits_array(call.mask.expand(whole)[0, 0].numpy(force=True))
    return given


# --- equations, read off the modules, so that they're true for every setting

_ADDED = {
    schemes.Sinusoidal: "PE(position)",
    schemes.SinusoidalHalves: "PE(position)",
    schemes.Learned: "P[position]",
    schemes.Sinusoidal2D: "PE(row, column)",
}
# for query i and key j, added to the scores of a head
_SCORED = {schemes.Relative: " + b(j − i)", schemes.Alibi: " − m·|i − j|"}
_NOT_ADDED = (schemes.Positions, schemes.Rotary, *_SCORED)
_GATES = {SwiGLU: "silu", GeGLU: "gelu"}


def part_equation(model: nn.Module, name: str, part: nn.Module | None) -> str:
    """Return the equation of a part, or "" for custom code, whose equation isn't known.

    Args:
        model: the whole model, which the equation can depend on.
        name: the part's name in `named_parts`.
        part: the part. For attention, it's the module that projects the heads.
    """
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


def _attention(part: SelfAttention | CrossAttention, positions: schemes.Positions | None) -> str:
    scheme = type(positions)
    if type(part.attend) is not Attend or (positions is not None and scheme not in (*_ADDED, *_NOT_ADDED)):
        return ""
    scores = "R(Q)R(K)ᵀ" if scheme is schemes.Rotary else "QKᵀ"
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
