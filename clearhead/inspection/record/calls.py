"""One call of a part as it is recorded: of attention with its weights, of any other part, or no more than a summary."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...errors import ModelError
from .labelled import Labelled

WEIGHT_AXES = ("row", "head", "query", "key")


@dataclass(frozen=True)
class Passed:
    """One call of a part: what it was given and what it gave. `seconds` leave out what recording took; `parameters` are
    all that it has inside."""

    name: str
    kind: str  # the name of its class
    step: int  # how often its stack had run before: 0, but in decoding
    inputs: tuple[Tensor, ...]
    output: Tensor
    seconds: float
    parameters: int

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return about(self) | {"inputs": [_plain(it) for it in self.inputs], "output": _plain(self.output)}

    def arrays(self) -> dict[str, Tensor]:
        """All values by name."""
        return {f"input.{i}": it for i, it in enumerate(self.inputs)} | {"output": self.output}


@dataclass(frozen=True)
class Attention:
    """One call of attention: what it was given, what it gave, and its weights before dropout, recomputed beside it.

    Keys and values are repeated to the heads of the queries where several share one; those of a cache are as they were
    in that step. Mask and bias broadcast to the weights; `largest_difference` is how far the output recomputed from the
    weights lies from the output itself. An attention of one's own that cannot tell its weights has none.
    """

    name: str
    kind: str
    step: int
    q: Tensor  # (B, H, T, K)
    k: Tensor  # (B, H, S, K)
    v: Tensor  # (B, H, S, K)
    mask: Tensor | None
    bias: Tensor | None
    output: Tensor  # (B, H, T, K)
    known_weights: Labelled | None  # (B, H, T, S)
    largest_difference: float
    seconds: float

    @property
    def weights(self) -> Labelled:
        """How much each query took of each key, with the tokens of both: axes row, head, query, key, (B, H, T, S).

        ModelError: the attention is one's own and has no `weights`.
        """
        if self.known_weights is None:
            raise ModelError(
                f"{self.name} is a {self.kind}, which does not tell its weights; expected a method "
                "weights(q, k, *, mask, bias) -> (B, H, T, S)"
            )
        return self.known_weights

    @property
    def scores(self) -> Tensor:
        """Q K^T / sqrt(d_k), with the bias of the positions, before the mask. (B, H, T, S)"""
        scores = self.q @ self.k.mT / math.sqrt(self.q.size(-1))
        return scores if self.bias is None else scores + self.bias

    @property
    def masked_scores(self) -> Tensor:
        """The scores, -inf where attending is barred. (B, H, T, S)"""
        return self.scores if self.mask is None else self.scores.masked_fill(~self.mask, -math.inf)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        values: dict[str, Any] = {name: _plain(it) for name, it in self.arrays().items()}
        if self.known_weights is not None:
            values["weights"] |= {"axes": list(WEIGHT_AXES), "tokens": dict(self.known_weights.tokens)}
        return about(self) | {"largest_difference": self.largest_difference} | values

    def arrays(self) -> dict[str, Tensor]:
        """All values by name."""
        found = {"q": self.q, "k": self.k, "v": self.v, "mask": self.mask, "bias": self.bias, "output": self.output}
        found["weights"] = None if self.known_weights is None else self.known_weights.values
        return {name: it for name, it in found.items() if it is not None}


@dataclass(frozen=True)
class Summary:
    """What is left of a call that had no room: the shape of its output, and what that held."""

    name: str
    kind: str
    step: int
    shape: tuple[int, ...]
    lowest: float
    highest: float
    mean: float
    norm: float
    seconds: float

    @classmethod
    def of(cls, name: str, kind: str, step: int, output: Tensor, seconds: float) -> "Summary":
        """Without the values."""
        x = output.detach().double()
        low, high = (float(it) for it in x.aminmax()) if x.numel() else (math.nan, math.nan)
        return cls(name, kind, step, tuple(x.shape), low, high, float(x.mean()), float(x.norm()), seconds)


def about(call: Passed | Attention) -> dict[str, Any]:
    """What names a call, without its values."""
    return {"name": call.name, "kind": call.kind, "step": call.step, "seconds": call.seconds}


def _plain(x: Tensor) -> dict[str, Any]:
    values = x if x.dtype in (torch.bool, torch.long) else x.float()
    return {"shape": list(x.shape), "dtype": str(x.dtype).removeprefix("torch."), "values": values.tolist()}
