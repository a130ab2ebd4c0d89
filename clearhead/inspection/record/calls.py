"""Recorded calls: attention calls with their weights, calls of other parts, and summaries."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import ModelError
from ...model.attention import Attend, scaled_dot_product_attention
from .labels import LabelledArray

WEIGHT_AXES = ("row", "head", "query", "key")
_METHOD = "a method weights(q, k, *, mask, bias) -> (B, H, T, S)"


@dataclass(frozen=True)
class Call:
    """One call of a part. `seconds` excludes the time spent recording."""

    name: str
    kind: str  # the name of its class
    step: int  # number of earlier runs of its stack; above 0 only in decoding
    seconds: float

    @property
    def header(self) -> dict[str, Any]:
        """The call without its tensors."""
        return {"name": self.name, "kind": self.kind, "step": self.step, "seconds": self.seconds}


@dataclass(frozen=True)
class AttentionInputs:
    """Inputs of an attention call: queries, keys, values, and the mask and bias, if any."""

    q: Tensor  # (B, H, T, K)
    k: Tensor  # (B, G, S, K)
    v: Tensor  # (B, G, S, K)
    mask: Tensor | None
    bias: Tensor | None

    @property
    def groups(self) -> int:
        """The number of query heads per head of keys and values."""
        return self.q.size(1) // self.k.size(1)

    def run(self, attend: nn.Module) -> Tensor:
        """Return the output of an attention module for these inputs. -> (B, H, T, K)"""
        return attend(self.q, self.k, self.v, mask=self.mask, bias=self.bias)

    def equation_1(self) -> tuple[Tensor, Tensor]:
        """Return the output and the weights of Equation 1. -> (B, H, T, K), (B, H, T, S)"""
        k, v = (it.repeat_interleave(self.groups, 1) for it in (self.k, self.v))
        return scaled_dot_product_attention(self.q, k, v, mask=self.mask, bias=self.bias)


@dataclass(frozen=True)
class PartCall(Call):
    """One call of a part that isn't attention. `parameters` includes those of inner parts."""

    inputs: tuple[Tensor, ...]
    output: Tensor
    parameters: int

    def to_dict(self) -> dict[str, Any]:
        return self.header | {"inputs": [_plain(it) for it in self.inputs], "output": _plain(self.output)}

    def arrays(self) -> dict[str, Tensor]:
        return {f"input.{i}": it for i, it in enumerate(self.inputs)} | {"output": self.output}


@dataclass(frozen=True)
class AttentionCall(AttentionInputs, Call):
    """One call of attention. Its weights, before dropout, are recomputed separately from the model's own computation.

    Keys and values shared by several query heads are repeated. Those from a cache are as they were at this step. Mask
    and bias broadcast to the weights. `largest_difference` is the distance between the model's output and the one
    recomputed from the weights. Custom attention without a `weights` method has no weights.
    """

    output: Tensor  # (B, H, T, K)
    known_weights: LabelledArray | None  # (B, H, T, S)
    largest_difference: float

    @property
    def weights(self) -> LabelledArray:
        """The attention weights, with axes row, head, query and key: (B, H, T, S).

        Raises:
            ModelError: a custom attention module has no `weights` method.
        """
        if self.known_weights is None:
            what = f"{self.name} is a {self.kind}, which doesn't report its weights"
            raise ModelError(what, expected=_METHOD, name=self.name, value=self.kind)
        return self.known_weights

    @property
    def scores(self) -> Tensor:
        """Q K^T / sqrt(d_k) plus the position bias, before the mask. (B, H, T, S)"""
        scores = self.q @ self.k.mT / math.sqrt(self.q.size(-1))
        return scores if self.bias is None else scores + self.bias

    @property
    def masked_scores(self) -> Tensor:
        """The scores, with -inf at masked keys. (B, H, T, S)"""
        return self.scores if self.mask is None else self.scores.masked_fill(~self.mask, -math.inf)

    def to_dict(self) -> dict[str, Any]:
        values: dict[str, Any] = {name: _plain(it) for name, it in self.arrays().items()}
        if self.known_weights is not None:
            values["weights"] |= {"axes": list(WEIGHT_AXES), "tokens": dict(self.known_weights.tokens)}
        return self.header | {"largest_difference": self.largest_difference} | values

    def arrays(self) -> dict[str, Tensor]:
        found = {"q": self.q, "k": self.k, "v": self.v, "mask": self.mask, "bias": self.bias, "output": self.output}
        found["weights"] = None if self.known_weights is None else self.known_weights.values
        return {name: it for name, it in found.items() if it is not None}


@dataclass(frozen=True)
class Summary(Call):
    """Shape and statistics of the output of a call that didn't fit into the record."""

    shape: tuple[int, ...]
    lowest: float
    highest: float
    mean: float
    norm: float

    @classmethod
    def of(cls, call: PartCall | AttentionCall) -> "Summary":
        x = call.output.double()
        low, high = (float(it) for it in x.aminmax()) if x.numel() else (math.nan, math.nan)
        return cls(
            **call.header, shape=tuple(x.shape), lowest=low, highest=high, mean=float(x.mean()), norm=float(x.norm())
        )


def recompute_weights(
    name: str, part: nn.Module, given: AttentionInputs, output: Tensor
) -> tuple[Tensor | None, float]:
    """Compute the weights of an attention call, by Equation 1 or by the module's own `weights` method.

    Args:
        name: the name of the module, for messages.
        part: the attention module.
        given: the inputs of the call.
        output: its output, (B, H, T, K).

    Returns:
        The weights (B, H, T, S), and the largest difference between `output` and weights times values. For a custom
        module without the method, (None, 0.0).

    Raises:
        ModelError: the method raises an error or returns the wrong shape.
    """
    if type(part) is Attend:
        again, weights = given.equation_1()
    elif callable(getattr(type(part), "weights", None)):  # looked up on the class: a parameter may have that name
        weights = _reported_weights(name, part, given)
        again = weights.to(given.v.dtype) @ given.v.repeat_interleave(given.groups, 1)
    else:
        return None, 0.0
    return weights, float((again - output).abs().max()) if output.numel() else 0.0


def _reported_weights(name: str, part: nn.Module, given: AttentionInputs) -> Tensor:
    kind, shape = class_name(part), (*given.q.shape[:3], given.k.size(2))
    error = partial(ModelError, expected=f"{_METHOD}, or no such method", name=f"{kind}.weights")
    try:
        method: Any = type(part).weights  # type: ignore[attr-defined]
        weights = method(part, given.q, given.k, mask=given.mask, bias=given.bias)
    except Exception as raised:  # the user's own code may raise anything
        raise error(f"{name}: {kind}.weights raises {type(raised).__name__}: {raised}") from raised
    if not isinstance(weights, Tensor) or weights.shape != shape:
        found = tuple(weights.shape) if isinstance(weights, Tensor) else type(weights).__name__
        raise error(f"{name}: {kind}.weights returns {found} instead of {shape}", value=found)
    return weights


def class_name(part: nn.Module) -> str:
    """Return the name of a part's class, with its module if it's a custom class that is also called `Attend`."""
    kind = type(part)
    return f"{kind.__module__}.{kind.__name__}" if kind.__name__ == "Attend" and kind is not Attend else kind.__name__


def _plain(x: Tensor) -> dict[str, Any]:
    values = x if x.dtype in (torch.bool, torch.long) else x.float()
    return {"shape": list(x.shape), "dtype": str(x.dtype).removeprefix("torch."), "values": values.tolist()}
