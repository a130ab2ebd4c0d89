"""Which part of a model breaks a promise: each is tried alone, on random numbers.

An attention is known by its seam alone, positions by their three doors, a norm or a feed-forward network by what it
makes of x (B, T, D), so that parts that somebody else wrote are tried like our own.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from ...model.positions import Positions
from ..record.parts import named_parts, stacks
from .attention_seam import Call, Seam, heard, seams
from .check import Difference, in_words
from .rounding import DRAWS, FACTOR, apart, bound_of, largest, nudged
from .subject import Case

CAUSALITY, PADDING, CACHE, PERMUTATION = "causality", "padding", "the cache", "permutation"
PLACES, TOKENS, ROWS = (f"the independence of {them}" for them in ("places", "tokens", "rows"))

_KEYS = 7
_BEYOND = 4  # the keys from here on are changed
_ORDER = (3, 0, 6, 1, 5, 2, 4)

Try = Callable[[nn.Module, Call], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Suspect:
    """A part at its place that breaks a kind of promise, in words, and by how much; infinite if it cannot be tried."""

    kind: str
    place: str
    part: str
    said: str
    gap: float


def suspects(case: Case) -> list[Suspect]:
    """The parts that break something; one that cannot be tried alone is among them."""
    return [*_attentions(case), *_positions(case), *_tokenwise(case)]


def told(found: Sequence[Suspect], kinds: Sequence[str]) -> str:
    """What breaks promises of these kinds, as sentences; empty where nothing does."""
    here = [it for kind in kinds for it in found if it.kind == kind]
    most: dict[tuple[str, str], float] = {}
    for it in here:
        most[it.part, it.said] = max(it.gap, most.get((it.part, it.said), 0.0))
    by = {key: f" (by {gap:.1e})" if gap < float("inf") else "" for key, gap in most.items()}
    return in_words(Difference(it.gap, it.place, it.part, it.said + by[it.part, it.said]) for it in here)


def by_part(found: Sequence[Suspect]) -> Mapping[str, tuple[str, ...]]:
    """What each class of parts breaks."""
    kinds: dict[str, set[str]] = {}
    for it in found:
        kinds.setdefault(it.part, set()).add(it.kind)
    order = (CAUSALITY, PADDING, CACHE, PERMUTATION, PLACES, TOKENS, ROWS)
    return {part: tuple(kind for kind in order if kind in those) for part, those in kinds.items()}


def _attentions(case: Case) -> Iterator[Suspect]:
    there = seams(case.model)
    try:
        first = {seam.name: call for seam, call in reversed(heard(case, there))}
    except Exception:  # the model itself does not run: every check says so
        return
    for seam in there:
        if seam.name not in first:
            continue
        call = _random(first[seam.name], seam)
        for kind, said, attempt in _TRIES:
            if (kind in (CAUSALITY, CACHE)) <= seam.causal:
                yield from _broken(kind, seam, said, call, attempt)


def _random(call: Call, seam: Seam) -> Call:
    """Of the same heads: two rows of as many queries as keys, under the mask that the place has."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(call.q)

    heads, groups, width = call.q.size(1), call.k.size(1), call.q.size(3)
    mask = torch.ones(2, 1, _KEYS, _KEYS, dtype=torch.bool, device=call.q.device)
    bias = None if call.bias is None else draw(1, heads, _KEYS, _KEYS)
    q, k, v = draw(2, heads, _KEYS, width), draw(2, groups, _KEYS, width), draw(2, groups, _KEYS, call.v.size(3))
    return Call(q, k, v, mask.tril() if seam.causal else mask, bias, q)


def _broken(kind: str, seam: Seam, said: str, call: Call, attempt: Try) -> Iterator[Suspect]:
    """The suspect where two results that should be one are not."""
    try:
        limit, gap = call.bound(seam.attend).value, apart(*attempt(seam.attend, call))
    except Exception as error:
        said += f", or cannot be tried alone: {type(error).__name__}: {' '.join(str(error).split())}"
        limit, gap = 0.0, float("inf")
    if not gap <= limit:
        yield Suspect(kind, seam.name, seam.kind, said, gap)


def _changed(call: Call) -> Call:
    k, v = call.k.clone(), call.v.clone()
    k[:, :, _BEYOND:], v[:, :, _BEYOND:] = k[:, :, _BEYOND:].flip(2) + 1, v[:, :, _BEYOND:].flip(2) - 1
    return replace(call, k=k, v=v)


def _later(attend: nn.Module, call: Call) -> tuple[Tensor, Tensor]:
    """Other keys and values later on, for the queries before them."""
    return _changed(call).run(attend)[:, :, :_BEYOND], call.run(attend)[:, :, :_BEYOND]


def _behind_the_mask(attend: nn.Module, call: Call) -> tuple[Tensor, Tensor]:
    """Other keys and values where the mask bars all queries; and without these keys at all."""
    assert call.mask is not None
    mask = call.mask.clone()
    mask[..., _BEYOND:] = False
    masked = replace(call, mask=mask)
    expected, few = masked.run(attend), masked.in_order(range(_BEYOND))
    return torch.stack([_changed(masked).run(attend), few.run(attend)]), torch.stack([expected, expected])


def _one_by_one(attend: nn.Module, call: Call) -> tuple[Tensor, Tensor]:
    """Each query alone, with the keys so far and without a mask, as a cache asks."""
    steps = []
    for t in range(_KEYS):
        bias = None if call.bias is None else call.bias[:, :, t : t + 1]
        alone = replace(call, q=call.q[:, :, t : t + 1], mask=None, bias=bias)
        steps.append(alone.in_order(range(t + 1)).run(attend))
    return torch.cat(steps, 2), call.run(attend)


def _alone(attend: nn.Module, call: Call) -> tuple[Tensor, Tensor]:
    """Each row of a batch alone."""
    assert call.mask is not None
    rows = [
        replace(call, q=call.q[i : i + 1], k=call.k[i : i + 1], v=call.v[i : i + 1], mask=call.mask[i : i + 1])
        for i in range(2)
    ]
    return torch.cat([row.run(attend) for row in rows]), call.run(attend)


_TRIES: tuple[tuple[str, str, Try], ...] = (
    (CAUSALITY, "sees tokens that come later", _later),
    (PADDING, "sees what the mask bars", _behind_the_mask),
    (CACHE, "answers a query alone otherwise than among others", _one_by_one),
    (
        PERMUTATION,
        "depends on the order of the keys",
        lambda attend, call: (call.in_order(_ORDER).run(attend), call.run(attend)),
    ),
    (ROWS, "mixes the rows of a batch", _alone),
)


def _positions(case: Case) -> Iterator[Suspect]:
    """Of positions every place of every row is asked alone, as a cache and texts of other lengths ask."""
    length = min(_KEYS, case.subject.max_len)
    for name, stack in stacks(case.model).items():
        x = _drawn(case, length, stack.d_model)
        begins = torch.tensor([[0], [min(3, case.subject.max_len - length)]], device=x.device)
        at = torch.arange(length, device=x.device) + begins
        kind, said = type(stack.positions).__name__, "says something else of a place alone than among others"
        try:
            gap, limit = _place_by_place(stack.positions, x, at)
        except Exception as error:
            gap, limit, said = float("inf"), 0.0, f"{said}, or cannot be tried alone: {type(error).__name__}: {error}"
        if not gap <= limit:
            yield Suspect(PLACES, f"{name}.positions", kind, said, gap)


def _place_by_place(positions: Positions, x: Tensor, at: Tensor) -> tuple[float, float]:
    """How far each place alone is from itself among others, and how far rounding may carry it."""
    together, gap, limit = _doors(positions, x, at, at), 0.0, 0.0
    for row in range(len(x)):
        for t in range(x.size(1)):
            one = slice(row, row + 1), slice(t, t + 1)
            alone = _doors(positions, x[one], at[one], at[row : row + 1, : t + 1])
            for door, found in alone.items():
                whole = together[door].expand(len(x), *together[door].shape[1:])[row : row + 1]
                expected = whole[:, t : t + 1] if door == "embed" else whole[:, :, t : t + 1]
                expected = expected[..., : t + 1] if door == "bias" else expected
                gap = max(gap, apart(found, expected))
                limit = max(limit, FACTOR * x.size(1) * torch.finfo(found.dtype).eps * largest(whole))
    return gap, limit


def _doors(positions: Positions, x: Tensor, at: Tensor, keys: Tensor) -> dict[str, Tensor]:
    """What a scheme says through each of its doors that is open."""
    rotation = positions.rotation(at) or (None, None)
    found = {"embed": positions.embed(x, at), "cosines": rotation[0], "sines": rotation[1]}
    found["bias"] = positions.bias(at, keys)
    return {door: it for door, it in found.items() if it is not None}


def _tokenwise(case: Case) -> Iterator[Suspect]:
    """Norms and feed-forward networks, which are to treat every token of every text alone."""
    _, stack = next(iter(stacks(case.model).items()))
    x = _drawn(case, _KEYS, stack.d_model)
    alone: dict[str, Callable[[nn.Module], Tensor]] = {
        TOKENS: lambda part: torch.cat([part(x[:, t : t + 1]) for t in range(_KEYS)], 1),
        ROWS: lambda part: torch.cat([part(x[i : i + 1]) for i in range(len(x))]),
    }
    mixes = {TOKENS: "mixes the tokens of a text", ROWS: "mixes the rows of a batch"}
    for name, part in named_parts(case.model):
        if not name.endswith((".norm", ".feed_forward")):
            continue
        for kind, one_by_one in alone.items():
            said, generator = mixes[kind], torch.Generator().manual_seed(1)
            try:
                limit = bound_of([part(x)], [[part(nudged(x, generator))] for _ in range(DRAWS)], "its input").value
                gap = apart(one_by_one(part), part(x))
            except Exception as error:
                gap, limit, said = (
                    float("inf"),
                    0.0,
                    f"{said}, or cannot be tried alone: {type(error).__name__}: {error}",
                )
            if not gap <= limit:
                yield Suspect(kind, name, type(part).__name__, said, gap)


def _drawn(case: Case, length: int, width: int) -> Tensor:
    """Two rows of random vectors. -> (2, T, D)"""
    x = torch.randn(2, length, width, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return x.to(next(case.model.parameters()))
