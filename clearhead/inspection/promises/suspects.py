"""Which part of a model breaks a promise: each is tried alone, on random numbers.

An attention is known by its seam alone, a norm or a feed-forward network by what it makes of x (B, T, D), so that parts
that somebody else wrote are tried like our own.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from ...model.blocks import DecoderBlock, EncoderBlock
from .rounding import DRAWS, apart, bound_of, nudged
from .seams import Call, Seam, listening
from .subject import Case, outputs

_KEYS = 7
_BEYOND = 4  # the keys from here on are changed

Try = Callable[[nn.Module, Call], tuple[Tensor, Tensor]]


def suspects(case: Case) -> dict[str, list[str]]:
    """By kind of promise what parts break it, in words; a part that cannot be tried alone is among them."""
    found: dict[str, list[str]] = {}
    for kind, said in (*_attentions(case), *_parts(case)):
        found.setdefault(kind, []).append(said)
    return found


def _attentions(case: Case) -> Iterator[tuple[str, str]]:
    with listening(case.model) as seams:
        outputs(case.model, case.inputs)
    for seam in seams:
        if not seam.calls:
            continue
        call = _random(seam.calls[0], seam)
        for kind, said, attempt in _TRIES:
            if (kind in ("causality", "cache")) <= seam.causal and (broken := _broken(seam.attend, call, attempt)):
                yield kind, f"{seam.titled} {said}{broken}"


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


def _broken(attend: nn.Module, call: Call, attempt: Try) -> str | None:
    """None where two results that should be one are; else what is to be added to the sentence."""
    try:
        before, afters = _run(attend, call), [_run(attend, _moved(call, seed)) for seed in range(DRAWS)]
        limit = bound_of([before], [[it] for it in afters], "q, k and v").value
        gap = apart(*attempt(attend, call))
    except Exception as error:
        return f", or cannot be tried alone: {type(error).__name__}: {' '.join(str(error).split())}"
    return None if gap <= limit else f" (by {gap:.1e})"


def _moved(call: Call, seed: int) -> Call:
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (nudged(it, generator) for it in (call.q, call.k, call.v))
    return replace(call, q=q, k=k, v=v)


def _run(attend: nn.Module, call: Call) -> Tensor:
    found: Tensor = attend(call.q, call.k, call.v, mask=call.mask, bias=call.bias)
    return found


def _changed(call: Call) -> Call:
    k, v = call.k.clone(), call.v.clone()
    k[:, :, _BEYOND:], v[:, :, _BEYOND:] = k[:, :, _BEYOND:].flip(2) + 1, v[:, :, _BEYOND:].flip(2) - 1
    return replace(call, k=k, v=v)


def _later(attend: nn.Module, call: Call) -> tuple[Tensor, Tensor]:
    """Other keys and values later on, for the queries before them."""
    return _run(attend, _changed(call))[:, :, :_BEYOND], _run(attend, call)[:, :, :_BEYOND]


def _behind_the_mask(attend: nn.Module, call: Call) -> tuple[Tensor, Tensor]:
    """Other keys and values where the mask bars all queries; and without these keys at all."""
    assert call.mask is not None
    mask = call.mask.clone()
    mask[..., _BEYOND:] = False
    masked = replace(call, mask=mask)
    few = replace(call, k=call.k[:, :, :_BEYOND], v=call.v[:, :, :_BEYOND], mask=mask[..., :_BEYOND],
                  bias=None if call.bias is None else call.bias[..., :_BEYOND])  # fmt: skip
    expected = _run(attend, masked)
    return torch.stack([_run(attend, _changed(masked)), _run(attend, few)]), torch.stack([expected, expected])


def _one_by_one(attend: nn.Module, call: Call) -> tuple[Tensor, Tensor]:
    """Each query alone, with the keys so far and without a mask, as a cache asks."""
    steps = []
    for t in range(_KEYS):
        bias = None if call.bias is None else call.bias[:, :, t : t + 1, : t + 1]
        q, k, v = call.q[:, :, t : t + 1], call.k[:, :, : t + 1], call.v[:, :, : t + 1]
        steps.append(_run(attend, replace(call, q=q, k=k, v=v, mask=None, bias=bias)))
    return torch.cat(steps, 2), _run(attend, call)


def _order(attend: nn.Module, call: Call) -> tuple[Tensor, Tensor]:
    """The keys in another order, with their values, mask and bias."""
    assert call.mask is not None
    order = torch.tensor([3, 0, 6, 1, 5, 2, 4], device=call.q.device)
    bias = None if call.bias is None else call.bias[..., order]
    other = replace(call, k=call.k[:, :, order], v=call.v[:, :, order], mask=call.mask[..., order], bias=bias)
    return _run(attend, other), _run(attend, call)


def _alone(attend: nn.Module, call: Call) -> tuple[Tensor, Tensor]:
    """Each row of a batch alone."""
    assert call.mask is not None
    rows = [
        replace(call, q=call.q[i : i + 1], k=call.k[i : i + 1], v=call.v[i : i + 1], mask=call.mask[i : i + 1])
        for i in range(2)
    ]
    return torch.cat([_run(attend, row) for row in rows]), _run(attend, call)


_TRIES: tuple[tuple[str, str, Try], ...] = (
    ("causality", "sees tokens that come later", _later),
    ("padding", "sees what the mask bars", _behind_the_mask),
    ("cache", "answers a query alone otherwise than among others", _one_by_one),
    ("order", "depends on the order of the keys", _order),
    ("company", "mixes the rows of a batch", _alone),
)


def _parts(case: Case) -> Iterator[tuple[str, str]]:
    """Norms and feed-forward networks, which are to treat every token of every text alone."""
    width = next(block for block in case.model.modules() if isinstance(block, EncoderBlock | DecoderBlock))
    x = torch.randn(2, _KEYS, _width(width), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x = x.to(next(case.model.parameters()))
    for name, part in case.model.named_modules():
        if name.endswith((".norm", ".feed_forward")) or name == "norm":
            try:
                whole, generator = part(x), torch.Generator().manual_seed(1)
                limit = bound_of([whole], [[part(nudged(x, generator))] for _ in range(DRAWS)], "its input").value
                alone = torch.cat(
                    [torch.cat([part(x[i : i + 1, t : t + 1]) for t in range(_KEYS)], 1) for i in range(2)]
                )
            except Exception as error:
                yield "company", f"{name} ({type(part).__name__}) cannot be tried alone: {error}"
                continue
            if (gap := apart(alone, whole)) > limit:
                yield "company", f"{name} ({type(part).__name__}) mixes tokens or texts (by {gap:.1e})"


def _width(block: nn.Module) -> int:
    return int(block.attention.out.weight.size(0))  # type: ignore[union-attr,operator]
