"""Promises of single parts: of every attention module, built-in or custom, checked on the inputs that it gets, of the
pointer, and of the front ends of images and audio."""

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from ...model.attention import Attend
from ...model.blocks import DecoderBlock
from ...model.fronts.frames import Frames
from ...model.fronts.patches import Patches
from ...model.transformer import Decoder
from ..record.calls import AttentionCall, AttentionInputs
from ..record.parts import named_parts, stacks
from ..record.recorder import record
from .check import Measured, Promise, Skip
from .rounding import DRAWS, Bound, Difference, apart, bound_of, furthest, largest, nudged
from .subject import Case, front_of, numbered

_NEVER = 2**31  # more keys than any call has
_PER_SCORE = 8  # error of a score in eps of its summed products, for any order of summation


@dataclass(frozen=True)
class AttentionPart:
    """An attention module and its name, such as decoder.0.self. If it's causal, it must not see later tokens."""

    name: str
    attend: nn.Module
    causal: bool
    n_kv_heads: int | None

    @property
    def kind(self) -> str:
        return type(self.attend).__name__

    @property
    def reports_weights(self) -> bool:
        """True if the module has a `weights` method."""
        return callable(getattr(type(self.attend), "weights", None))

    def difference(self, value: float, problem: str) -> Difference:
        """Return a difference for which this part is at fault."""
        return Difference(value, self.name, self.kind, problem)

    def bound(self, given: AttentionInputs) -> Bound:
        """Return a bound on the effect of rounding on the module's output, regardless of its equation."""
        afters = []
        for seed in range(DRAWS):
            generator = torch.Generator().manual_seed(seed)
            q, k, v = (nudged(it, generator) for it in (given.q, given.k, given.v))
            afters.append([replace(given, q=q, k=k, v=v).run(self.attend)])
        return bound_of([given.run(self.attend)], afters, "q, k and v")


def attention_parts(model: nn.Module) -> list[AttentionPart]:
    """Return all attention modules, in the order of the model."""
    causal = {id(block.attention) for block in model.modules() if isinstance(block, DecoderBlock)}
    return [
        AttentionPart(name, attend, id(part) in causal, getattr(part, "n_kv_heads", None))
        for name, part in named_parts(model)
        if isinstance(attend := getattr(part, "attend", None), nn.Module)
    ]


def recorded_calls(
    case: Case, parts: Sequence[AttentionPart]
) -> list[tuple[AttentionPart, AttentionInputs, AttentionCall]]:
    """Run the model on the texts, and return the calls of these attention modules, with their inputs."""
    with record(case.model, limit=None) as trace:
        case.inputs.whole_output(case.model)
    found = []
    for part in parts:
        for it in trace.calls.get(part.name, ()):
            shared = it.q.size(1) // (part.n_kv_heads or it.q.size(1))  # the record repeats shared keys and values
            found.append((part, AttentionInputs(it.q, it.k[:, ::shared], it.v[:, ::shared], it.mask, it.bias), it))
    return found


def in_order(given: AttentionInputs, order: Sequence[int]) -> AttentionInputs:
    """Return inputs with the keys in `order`, which may be a subset. Values, mask and bias are reordered, too."""
    mask, bias = (it if it is None or it.size(-1) == 1 else it[..., order] for it in (given.mask, given.bias))
    return replace(given, k=given.k[:, :, order], v=given.v[:, :, order], mask=mask, bias=bias)


def _fused(case: Case) -> Measured:
    """Compare each attention module's output and its two paths with Equation 1."""
    for part, given, call in _calls(case, "has two paths", lambda part: hasattr(part.attend, "fused_from")):
        yield _equation_bound(given), _paths(part, given, call.output)


def _sums(case: Case) -> Measured:
    """Compare the sum of each query's weights with 1, or with 0 if it may attend to nothing."""
    for part, given, _ in _calls(case):
        keys, eps = given.k.size(-2), torch.finfo(given.q.dtype).eps
        reason = f"(2 x {keys} keys + 16) eps: each weight is rounded, and so is their sum"
        yield Bound((2 * keys + 16) * eps, reason), _weight_sums(part, given)


def _reported(case: Case) -> Measured:
    """Compare each attention module's output with its reported weights, which the views show, times its values."""
    for part, given, call in _calls(case, "reports its weights", lambda part: part.reports_weights):
        problem = "has an output that isn't its weights times the values"
        yield part.bound(given), part.difference(call.largest_difference, problem)


def _order(case: Case) -> Measured:
    """Compare each attention module's output with its output for keys in another order."""
    for part, given, _ in _calls(case):
        order = torch.randperm(given.k.size(2), generator=torch.Generator().manual_seed(0)).tolist()
        bound, gap = part.bound(given), apart(in_order(given, order).run(part.attend), given.run(part.attend))
        yield bound, part.difference(gap, "depends on the order of the keys")


def _pointer(case: Case) -> Measured:
    """Compare the sum of the pointer's probabilities with 1, at every position."""
    decoder, source = stacks(case.model).get("decoder"), case.inputs.source
    if source is None or not isinstance(decoder, Decoder) or decoder.pointer is None:
        raise Skip("the model has no pointer")
    found = case.inputs.outputs(case.model)
    weights, output = torch.finfo(next(case.model.parameters()).dtype).eps, torch.finfo(found[0].dtype).eps
    most = max(largest(row) for row in found)
    reason = f"(2 x {source.size(1)} keys + 16) eps + {_PER_SCORE} eps x largest log-probability {most:.2g}"
    bound = Bound((2 * source.size(1) + 16) * weights + _PER_SCORE * most * output, reason)
    sums = [row.double().exp().sum(-1) for row in found]
    yield bound, furthest(sums, [torch.ones_like(it) for it in sums], numbered(len(sums)))


FUSED = Promise(
    "open = fused attention", "both paths of every attention module compute Equation 1 of their inputs", _fused
)
SUMS = Promise("weights' rows sum to 1", "a query's weights sum to 1, or to 0 if it may attend to nothing", _sums)
REPORTED = Promise(
    "reported weights = used", "the output of attention is the weights that it reports times the values", _reported
)
ORDER = Promise(
    "keys in any order", "the order of keys and values doesn't matter, which a ring buffer relies on", _order
)
POINTER = Promise("pointer sums to 1", "the pointer's probabilities of all tokens sum to 1 at every position", _pointer)


def _calls(
    case: Case, which: str = "", fits: Callable[[AttentionPart], bool] = lambda _: True
) -> list[tuple[AttentionPart, AttentionInputs, AttentionCall]]:
    """Return every call of the attention modules for which `fits` returns True. Raise Skip if there are none."""
    parts = attention_parts(case.model)
    fitting = [part for part in parts if fits(part)]
    if not fitting:
        kinds = ", ".join(sorted({part.kind for part in parts}))
        raise Skip(f"no attention {which} (classes: {kinds})" if parts else "the model has no attention")
    return recorded_calls(case, fitting)


def _equation_bound(given: AttentionInputs) -> Bound:
    """Return a bound on the effect of rounding on Equation 1.

    A score has an error of a few eps of the products that it sums. A weight has the same relative error, and the output
    has the same error relative to the largest value, plus the rounding of its own sum.
    """
    width, keys, eps = given.q.size(-1), given.k.size(-2), torch.finfo(given.q.dtype).eps
    products = given.q.abs() @ given.k.abs().repeat_interleave(given.groups, 1).mT / math.sqrt(width)
    score = largest(products) + (0.0 if given.bias is None else largest(given.bias))
    value = largest(given.v)
    reason = f"({_PER_SCORE} x largest score {score:.2g} + {keys} keys + 16) x eps x largest value {value:.2g}"
    return Bound((_PER_SCORE * score + keys + 16) * eps * value, reason)


def _paths(part: AttentionPart, given: AttentionInputs, output: Tensor) -> Difference:
    """Measure how far a recorded output and both paths are from Equation 1, or for a custom one from its open path."""
    found = {"an output": output}
    for name, start in (("an open path", _NEVER), ("a fused path", 0)):
        attend = copy(part.attend)
        attend.fused_from = start  # type: ignore[assignment]
        found[name] = given.run(attend)
    ours = type(part.attend).forward is Attend.forward  # custom equations only need two equal paths
    expected, what = (given.equation_1()[0], "Equation 1") if ours else (found["an open path"], "its open path")
    gaps = {name: apart(it, expected) for name, it in found.items()}
    worst = max(gaps, key=gaps.__getitem__)
    return part.difference(gaps[worst], f"has {worst} that isn't {what}")


def _weight_sums(part: AttentionPart, given: AttentionInputs) -> Difference:
    """Measure how far the sums of weights are from what they should be. One query of the mask may attend to nothing.

    If all values are 1, the output of attention is the sum of its weights. Reported weights are summed as well.
    """
    shape = (*given.q.shape[:3], given.k.size(2))
    mask = torch.ones(shape, dtype=torch.bool, device=given.q.device)
    if given.mask is not None:
        mask &= given.mask
    mask[0, :, 0] = False
    expected = mask.any(-1)
    found = [part.attend(given.q, given.k, torch.ones_like(given.v), mask=mask, bias=given.bias)]
    if part.reports_weights:
        weights = part.attend.weights(given.q, given.k, mask=mask, bias=given.bias)  # type: ignore[operator]
        found.append(weights.sum(-1)[..., None])
        if (weights < 0).any() or weights[~mask].any():
            return part.difference(math.inf, "has negative weights, or weights for masked keys")
    gap = max(apart(it, expected[..., None].to(it.dtype).expand(it.shape)) for it in found)
    return part.difference(gap, "has weights that don't sum to 1, or to 0 if everything is masked")


# --- front ends


def _embeddings(case: Case) -> Measured:
    """Compare the front end's embeddings with those of its formula."""
    front, source = front_of(case.model), case.inputs.source
    assert source is not None
    if isinstance(front, Patches):
        expected = _embedded_patches(front, source)
    elif isinstance(front, Frames):
        expected = _embedded_frames(front, source)
    else:
        raise Skip("the formula of a custom front end isn't known")

    def embedded(model: nn.Module) -> list[Tensor]:
        return list(front_of(model)(source))  # type: ignore[misc]

    yield case.bound(embedded), furthest(embedded(case.model), list(expected), numbered(len(source), "input"))


FRONT = Promise(
    "front end = formula", "the front end computes its formula, written out for each patch or frame", _embeddings
)


def _embedded_patches(front: Patches, images: Tensor) -> Tensor:
    """Return W p + b of every patch p, row by row, whose pixels are scaled to -1 ... 1. (B, C, H, W) -> (B, S, D)"""
    size, weight, bias = front.patch_size, front.project.weight, front.project.bias
    pixels = images.to(weight.dtype) / 127.5 - 1
    _, _, height, width = pixels.shape
    found = [] if front.class_token is None else [front.class_token.expand(len(pixels), -1)]
    for top in range(0, height, size):
        for left in range(0, width, size):
            patch = pixels[:, :, top : top + size, left : left + size].flatten(1)
            found.append((weight * patch[:, None]).sum(-1) + (0 if bias is None else bias))
    return torch.stack(found, 1)


def _embedded_frames(front: Frames, recordings: Tensor) -> Tensor:
    """Return the convolutions of a log-mel spectrogram by the discrete Fourier transform. (B, N) -> (B, S, D)"""
    padding = recordings == front.pad
    real = ~padding[:, :: front.hop]  # frames centred on a sample
    x = torch.zeros(
        len(recordings), real.size(1), front.filters.size(1), dtype=front.window.dtype, device=recordings.device
    )
    wave = recordings.masked_fill(padding, 0).to(x.dtype) / 2**15
    for t in range(real.size(1)):
        x[:, t] = _log_mel(front, wave, t * front.hop)
    for row, kept in zip(x, real):  # mean 0 and variance 1 of each recording
        values = row[kept]
        row.sub_(values.mean()).div_((values.var(correction=0) + 1e-5).sqrt())
    for convolution in front.convolutions:
        x, real = _convolved(convolution, x * real[..., None]), real[:, ::2]  # type: ignore[arg-type]
    return x


def _log_mel(front: Frames, wave: Tensor, centre: int) -> Tensor:
    """Return the logarithm of the power in each band around a sample. (B, N) -> (B, M)"""
    count, n_fft = len(front.window), front.n_fft
    first = centre - n_fft // 2 + (n_fft - count) // 2  # the window is in the middle of the transform
    at = torch.arange(first, first + count, device=wave.device)
    inside = (at >= 0) & (at < wave.size(1))
    samples = wave[:, at.clamp(0, wave.size(1) - 1)] * inside * front.window
    frequencies = torch.arange(n_fft // 2 + 1, device=wave.device, dtype=wave.dtype)
    angles = 2 * math.pi / n_fft * frequencies[:, None] * torch.arange(count, device=wave.device)
    power = (samples @ angles.cos().T).square() + (samples @ angles.sin().T).square()
    return (power @ front.filters + 1e-6).log()


def _convolved(convolution: nn.Conv1d, x: Tensor) -> Tensor:
    """Return gelu(b + sum over j of W_j x_(2t + j - 1)). (B, T, C) -> (B, ceil(T / 2), D)"""
    assert convolution.bias is not None
    count = -(-x.size(1) // 2)
    padded = nn.functional.pad(x, (0, 0, 1, 2))
    total = convolution.bias.expand(len(x), count, -1)
    for j in range(3):
        total = total + padded[:, j : j + 2 * count : 2] @ convolution.weight[:, :, j].T
    return total * 0.5 * (1 + torch.erf(total / math.sqrt(2)))
