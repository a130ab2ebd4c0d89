"""Find the part that makes a check fail, by testing each part alone on random numbers.

Attention is called through `attend`, positions through their three methods, and norms and feed-forward networks with
x (B, T, D), so custom parts are tested like built-in ones.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn

from ...model.positions import Positions
from ..record.calls import AttentionInputs
from ..record.parts import named_parts, stacks
from .check import in_one_line, in_words
from .part_checks import AttentionPart, attention_parts, in_order, recorded_calls
from .rounding import DRAWS, FACTOR, Difference, apart, bound_of, largest, nudged
from .subject import Case

CAUSALITY, PADDING, CACHE, PERMUTATION = "causality", "padding", "the cache", "permutation"
POSITIONS, TOKENS, ROWS = (f"the independence of {them}" for them in ("positions", "tokens", "rows"))
KINDS = (CAUSALITY, PADDING, CACHE, PERMUTATION, POSITIONS, TOKENS, ROWS)

_KEYS = 7
_CHANGED_FROM = 4  # the keys from here on are changed
_ORDER = (3, 0, 6, 1, 5, 2, 4)

Pair = tuple[Tensor, Tensor]  # two results that should be equal
Attempt = Callable[[nn.Module, AttentionInputs], Pair]


@dataclass(frozen=True)
class Fault(Difference):
    """A difference in a property (one of `KINDS`) that a part violates on its own; infinite if it raised an error."""

    kind: str = ""


def find_faults(case: Case) -> list[Fault]:
    """Test every part alone, and return the faults. A part that can't be called alone counts as a fault."""
    return [*_attention_faults(case), *_position_faults(case), *_tokenwise_faults(case)]


def describe(faults: Sequence[Fault], kinds: Sequence[str]) -> str:
    """Describe the faults of these kinds; "" if there are none."""
    here = [it for kind in kinds for it in faults if it.kind == kind]
    most: dict[tuple[str, str], float] = {}
    for it in here:
        most[it.part, it.problem] = max(it.value, most.get((it.part, it.problem), 0.0))
    by = {key: f" (by {gap:.1e})" if gap < float("inf") else "" for key, gap in most.items()}
    return in_words(replace(it, problem=it.problem + by[it.part, it.problem]) for it in here)


def kinds_by_part(faults: Sequence[Fault]) -> Mapping[str, tuple[str, ...]]:
    """Return the kinds of faults of each class of parts."""
    kinds: dict[str, set[str]] = {}
    for it in faults:
        kinds.setdefault(it.part, set()).add(it.kind)
    return {part: tuple(kind for kind in KINDS if kind in own) for part, own in kinds.items()}


def _fault(
    kind: str, place: str, part: str, problem: str, measure: Callable[[], tuple[float, float]]
) -> Iterator[Fault]:
    """Yield a fault if the difference exceeds its limit, or if the part raises an error."""
    try:
        value, limit = measure()
    except Exception as error:  # custom parts may raise anything
        problem = f"can't be called alone: {in_one_line(error)}"
        value, limit = float("inf"), 0.0
    if not value <= limit:
        yield Fault(value, place, part, problem, kind)


# --- attention


def _attention_faults(case: Case) -> Iterator[Fault]:
    parts = attention_parts(case.model)
    try:
        first = {part.name: given for part, given, _ in reversed(recorded_calls(case, parts))}
    except Exception:  # the model itself fails; every check reports that
        return
    for part in (part for part in parts if part.name in first):
        call = _random_call(first[part.name], part)
        for kind, problem, attempt in _ATTEMPTS:
            if (kind in (CAUSALITY, CACHE)) <= part.causal:
                measure = partial(_compare, part, call, attempt)
                yield from _fault(kind, part.name, part.kind, problem, measure)


def _compare(part: AttentionPart, call: AttentionInputs, attempt: Attempt) -> tuple[float, float]:
    limit = part.bound(call).value
    return apart(*attempt(part.attend, call)), limit


def _random_call(call: AttentionInputs, part: AttentionPart) -> AttentionInputs:
    """Return a random call with the same heads and kind of mask, two rows, and equal numbers of queries and keys."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(call.q)

    heads, groups, width = call.q.size(1), call.k.size(1), call.q.size(3)
    mask = torch.ones(2, 1, _KEYS, _KEYS, dtype=torch.bool, device=call.q.device)
    bias = None if call.bias is None else draw(1, heads, _KEYS, _KEYS)
    q, k, v = draw(2, heads, _KEYS, width), draw(2, groups, _KEYS, width), draw(2, groups, _KEYS, call.v.size(3))
    return AttentionInputs(q, k, v, mask.tril() if part.causal else mask, bias)


def _with_changed_keys(call: AttentionInputs) -> AttentionInputs:
    k, v = call.k.clone(), call.v.clone()
    k[:, :, _CHANGED_FROM:] = k[:, :, _CHANGED_FROM:].flip(2) + 1
    v[:, :, _CHANGED_FROM:] = v[:, :, _CHANGED_FROM:].flip(2) - 1
    return replace(call, k=k, v=v)


def _later_keys(attend: nn.Module, call: AttentionInputs) -> Pair:
    """Change later keys and values, and compare the outputs of earlier queries."""
    return _with_changed_keys(call).run(attend)[:, :, :_CHANGED_FROM], call.run(attend)[:, :, :_CHANGED_FROM]


def _masked_keys(attend: nn.Module, call: AttentionInputs) -> Pair:
    """Change masked keys and values, and also remove them."""
    assert call.mask is not None
    mask = call.mask.clone()
    mask[..., _CHANGED_FROM:] = False
    masked = replace(call, mask=mask)
    expected, fewer = masked.run(attend), in_order(masked, range(_CHANGED_FROM))
    return torch.stack([_with_changed_keys(masked).run(attend), fewer.run(attend)]), torch.stack([expected, expected])


def _query_by_query(attend: nn.Module, call: AttentionInputs) -> Pair:
    """Call with one query at a time, with the keys so far and no mask, as a cache does."""
    steps = []
    for t in range(_KEYS):
        bias = None if call.bias is None else call.bias[:, :, t : t + 1]
        alone = replace(call, q=call.q[:, :, t : t + 1], mask=None, bias=bias)
        steps.append(in_order(alone, range(t + 1)).run(attend))
    return torch.cat(steps, 2), call.run(attend)


def _reordered_keys(attend: nn.Module, call: AttentionInputs) -> Pair:
    return in_order(call, _ORDER).run(attend), call.run(attend)


def _row_by_row(attend: nn.Module, call: AttentionInputs) -> Pair:
    assert call.mask is not None
    rows = [
        replace(call, q=call.q[i : i + 1], k=call.k[i : i + 1], v=call.v[i : i + 1], mask=call.mask[i : i + 1])
        for i in range(2)
    ]
    return torch.cat([row.run(attend) for row in rows]), call.run(attend)


_ATTEMPTS: tuple[tuple[str, str, Attempt], ...] = (
    (CAUSALITY, "sees later tokens", _later_keys),
    (PADDING, "sees masked tokens", _masked_keys),
    (CACHE, "treats a query differently alone and among others", _query_by_query),
    (PERMUTATION, "depends on the order of the keys", _reordered_keys),
    (ROWS, "mixes the rows of a batch", _row_by_row),
)


# --- positions


def _position_faults(case: Case) -> Iterator[Fault]:
    """Compare the encoding of each position alone and among others. A cache and ragged texts rely on their equality."""
    length = min(_KEYS, case.subject.max_len)
    for name, stack in stacks(case.model).items():
        x = _random_states(case, length, stack.d_model)
        starts = torch.tensor([[0], [min(3, case.subject.max_len - length)]], device=x.device)
        at = torch.arange(length, device=x.device) + starts
        kind, problem = type(stack.positions).__name__, "treats a position differently alone and among others"
        measure = partial(_position_by_position, stack.positions, x, at)
        yield from _fault(POSITIONS, f"{name}.positions", kind, problem, measure)


def _position_by_position(positions: Positions, x: Tensor, at: Tensor) -> tuple[float, float]:
    """Return the largest difference, and a bound on the effect of rounding."""
    together, difference, limit = _encodings(positions, x, at, at), 0.0, 0.0
    for row in range(len(x)):
        for t in range(x.size(1)):
            one = slice(row, row + 1), slice(t, t + 1)
            alone = _encodings(positions, x[one], at[one], at[row : row + 1, : t + 1])
            for method, found in alone.items():
                whole = together[method].expand(len(x), *together[method].shape[1:])[row : row + 1]
                expected = whole[:, t : t + 1] if method == "embed" else whole[:, :, t : t + 1]
                expected = expected[..., : t + 1] if method == "bias" else expected
                difference = max(difference, apart(found, expected))
                limit = max(limit, FACTOR * x.size(1) * torch.finfo(found.dtype).eps * largest(whole))
    return difference, limit


def _encodings(positions: Positions, x: Tensor, at: Tensor, keys: Tensor) -> dict[str, Tensor]:
    """Return the results of all methods that a scheme overrides."""
    cosines, sines = positions.rotation(at) or (None, None)
    bias = positions.bias(at, keys)
    found = {"embed": positions.embed(x, at), "cosines": cosines, "sines": sines, "bias": bias}
    return {method: it for method, it in found.items() if it is not None}


# --- norms and feed-forward networks


def _tokenwise_faults(case: Case) -> Iterator[Fault]:
    """Check that norms and feed-forward networks process each token independently."""
    _, stack = next(iter(stacks(case.model).items()))
    x = _random_states(case, _KEYS, stack.d_model)
    for name, part in named_parts(case.model):
        if name.endswith((".norm", ".feed_forward")):
            kind = type(part).__name__
            yield from _fault(TOKENS, name, kind, "mixes the tokens of a text", partial(_piecewise, part, x, 1))
            yield from _fault(ROWS, name, kind, "mixes the rows of a batch", partial(_piecewise, part, x, 0))


def _piecewise(part: nn.Module, x: Tensor, dim: int) -> tuple[float, float]:
    """Return the largest difference between a part's output for x and for slices of x, and a bound from rounding."""
    generator = torch.Generator().manual_seed(1)
    whole, nudges = part(x), [[part(nudged(x, generator))] for _ in range(DRAWS)]
    pieces = torch.cat([part(piece) for piece in x.split(1, dim)], dim)
    return apart(pieces, whole), bound_of([whole], nudges, "its input").value


def _random_states(case: Case, length: int, width: int) -> Tensor:
    """Return two rows of random vectors. -> (2, T, D)"""
    x = torch.randn(2, length, width, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return x.to(next(case.model.parameters()))
