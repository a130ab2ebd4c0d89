"""Direct logit attribution: the contribution of each part of a model to a logit (Elhage et al. 2021, "A Mathematical
Framework for Transformer Circuits").

The input of the projection is a sum of the embedding, the positions, and the output of each head and feed-forward
network. A norm divides by a scale. With the scale frozen at its recorded value, the norm is linear, so the logit is the
sum of one term per part. Biases are listed separately.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import ModelError
from ...model.attention import CrossAttention, SelfAttention
from ...model.norms import AddNorm, LayerNorm, RMSNorm
from ...model.transformer import Decoder, Encoder
from ..record.parts import sub_layers
from ..record.trace import Trace
from .text_columns import bar, preformatted, signed, with_note, wrapped

_INPUT = ("embedding", "types", "positions")


@dataclass(frozen=True)
class Contribution:
    """The contribution of a part to a logit, or to the difference between two logits."""

    part: str  # "decoder.0.cross.head.3"; a bias ends in ".bias"
    value: float


@dataclass(frozen=True)
class Attribution:
    """Attribution of a choice between two tokens or labels. The `contributions` add up to `difference`, up to rounding.

    Without `other`, the difference is the logit itself, or the number that the model predicts (`measure`). The `note`
    contains remarks about the run.
    """

    said: str
    other: str | None
    difference: float  # of the model's own logits
    contributions: tuple[Contribution, ...]
    note: str = ""
    measure: str = "logit"

    @property
    def error(self) -> float:
        """The distance between the sum of the contributions and the model's own difference."""
        return abs(sum(it.value for it in self.contributions) - self.difference)

    def by_layer(self) -> dict[str, float]:
        """Return the sum of contributions in each layer, before the first one ("input") and after the last ("end")."""
        sums: dict[str, float] = {}
        for it in self.contributions:
            number = it.part.split(".")[1]
            before = "input" if number in _INPUT else "end"
            name = f"layer {number}" if number.isdigit() else before
            sums[name] = sums.get(name, 0.0) + it.value
        return sums

    def to_dict(self) -> dict[str, Any]:
        parts = [asdict(it) for it in self.contributions]
        difference = {"difference": self.difference, "error": self.error, "by_layer": self.by_layer()}
        return {"said": self.said, "other": self.other, **difference, "contributions": parts, "note": self.note}

    def _repr_html_(self) -> str:
        return preformatted(self.render())

    def render(self) -> str:
        """Render the parts in order, each with a bar to the right (positive) or left (negative), in 80 columns."""
        lines = [f'why "{self.said}", not "{self.other}": the logits differ by {self.difference:+.4f}']
        if self.other is None:
            lines = [f'why "{self.said}": its {self.measure} is {self.difference:+.4f}']
        longest = max((abs(it.value) for it in self.contributions), default=1.0) or 1.0
        for it in self.contributions:
            lines.append(f"  {it.part:<32}{signed(it.value, 9)}  {bar(it.value, longest)}".rstrip())
        lines.append(f"  {'sum':<32}{signed(self.difference + 0.0, 9)}  error {self.error:.1e}")
        lines += ["", *wrapped("by layer: ", [f"{name} {signed(value)} " for name, value in self.by_layer().items()])]
        lines += wrapped("", self._extremes().split())
        return with_note("\n".join(lines), self.note)

    def _extremes(self) -> str:
        most, least = (pick(self.contributions, key=lambda it: it.value) for pick in (max, min))
        strongest_for = f"Strongest for it: {most.part}" if most.value > 0 else "No part counted for it"
        strongest_against = f"strongest against it: {least.part}" if least.value < 0 else "no part counted against it"
        return f"{strongest_for}; {strongest_against}."


Term = tuple[str, Tensor]  # a part, and what it added at each position, (T, D) in float64


def attribute(stack: Encoder | Decoder, trace: Trace, reading: Tensor, direction: Tensor) -> list[Contribution]:
    """Split <weighted mean of the stack's output, `direction`> into contributions of the parts of a recorded pass.

    Args:
        stack: the last stack of the model.
        reading: the weight of each position in the mean, (T,). Often it's 1 for a single position.
        direction: a row of the projection, or the difference of two rows, (D,).

    Raises:
        ModelError: a custom norm can't be split.
    """
    reading, direction = _double(reading), _double(direction)
    terms = output_terms(stack, trace)
    return [Contribution(part, float(reading @ (values @ direction))) for part, values in terms]


def output_terms(stack: Encoder | Decoder, trace: Trace) -> list[Term]:
    """Split the output of a stack into what each part of a recorded pass added to it. The terms sum to the output.

    Raises:
        ModelError: a custom norm can't be split.
    """
    name = "encoder" if isinstance(stack, Encoder) else "decoder"
    terms = list(_embedded(name, stack, trace))
    if stack.embedding_norm is not None:
        terms = _normalised(terms, stack.embedding_norm, trace, f"{name}.embedding_norm")
    for number, block in enumerate(stack.blocks):
        for kind, part, add_norm, place in sub_layers(block):
            of, around = f"{name}.{number}.{kind}", f"{name}.{number}.{place}"
            added = _added(of, part, trace)
            is_off = _is_off(add_norm, trace, around)
            terms += [(it, torch.zeros_like(values) if is_off else values) for it, values in added]
            if not add_norm.pre_norm:
                terms = _normalised(terms, add_norm.norm, trace, f"{around}.norm")
    if not isinstance(stack.norm, nn.Identity):
        terms = _normalised(terms, stack.norm, trace, f"{name}.norm")
    return terms


def _embedded(name: str, stack: Encoder | Decoder, trace: Trace) -> Iterator[Term]:
    tokens, whole = (_double(trace[f"{name}.{it}"].output[0]) for it in ("embedding", "embedded"))
    if stack.embedding_norm is not None:
        whole = _double(trace[f"{name}.embedding_norm"].inputs[0][0])
    yield f"{name}.embedding", tokens
    if isinstance(stack, Encoder) and stack.types is not None:
        types = _double(trace[f"{name}.types"].output[0])
        yield f"{name}.types", types
        tokens = tokens + types
    if not torch.equal(tokens, whole):
        yield f"{name}.positions", whole - tokens


def _added(of: str, part: nn.Module, trace: Trace) -> Iterator[Term]:
    """Yield the terms that a sub-layer added. Each head is a separate term, since W_O sums over heads."""
    if of.endswith("feed_forward"):
        yield of, _double(trace[of].output[0])
        return
    assert isinstance(part, SelfAttention | CrossAttention)
    heads, out = _double(trace.calls[of][-1].output[0]), part.out  # (H, T, K)
    matrix = _double(out.weight).unflatten(1, (heads.size(0), -1))  # (D, H, K)
    for head in range(heads.size(0)):
        yield f"{of}.head.{head}", heads[head] @ matrix[:, head].T
    if out.bias is not None:
        yield f"{of}.bias", _double(out.bias).expand(heads.size(1), -1)


def _is_off(add_norm: AddNorm, trace: Trace, around: str) -> bool:
    """Return whether the sub-layer added nothing, because `without` switched it off."""
    before, norm = trace[around].inputs[0], trace.parts.get(f"{around}.norm")
    if add_norm.pre_norm:
        return torch.equal(before, trace[around].output)
    return norm is not None and torch.equal(before, norm[-1].inputs[0])


def _normalised(terms: list[Term], norm: nn.Module, trace: Trace, name: str) -> list[Term]:
    """Apply a norm to each term, with the scale of the recorded pass."""
    if not isinstance(norm, LayerNorm | RMSNorm):
        what = f"{name} is a {type(norm).__name__}, which can't be split into parts"
        raise ModelError(what, expected="a LayerNorm or an RMSNorm", name=name, value=type(norm).__name__)
    x = _double(trace[name].inputs[0][0])
    scale = (_centred(x, norm).square().mean(-1, keepdim=True) + norm.eps).rsqrt()
    gain = 1.0 if norm.weight is None else _double(norm.weight)
    found = [(part, _centred(values, norm) * scale * gain) for part, values in terms]
    bias = getattr(norm, "bias", None)
    return found if bias is None else [*found, (f"{name}.bias", _double(bias).expand_as(x))]


def _centred(x: Tensor, norm: LayerNorm | RMSNorm) -> Tensor:
    """Subtract the mean, as layer normalisation does."""
    return x - x.mean(-1, keepdim=True) if isinstance(norm, LayerNorm) else x


def _double(x: Tensor) -> Tensor:
    return x.detach().double().cpu()
