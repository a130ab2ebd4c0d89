"""Which query may attend to which key (section 3.2.3). True means "may attend"; masks are combined with `&`."""

import torch
from torch import Tensor

from ..errors import ModelError


def padding_mask(tokens: Tensor, pad: int = 0) -> Tensor:
    """Every key may be attended but padding. (B, S) -> (B, 1, 1, S)"""
    return (tokens != pad)[:, None, None, :]


def causal_mask(n_queries: int, n_keys: int | None = None, *, device: torch.device | None = None) -> Tensor:
    """A query sees itself and what came before it; the last query stands at the last key. -> (1, 1, T, S)

    >>> causal_mask(3)[0, 0].int().tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    """
    n_keys = n_queries if n_keys is None else n_keys
    if n_keys < n_queries:
        raise ModelError(f"a causal mask of {n_queries} queries needs at least as many keys; got {n_keys}")
    ones = torch.ones(n_queries, n_keys, dtype=torch.bool, device=device)
    return ones.tril(n_keys - n_queries)[None, None]


def length_mask(valid_lengths: Tensor, n_keys: int) -> Tensor:
    """The first `valid_lengths` keys may be attended, for a whole row or for each of its queries.

    (B,) -> (B, 1, 1, S);  (B, T) -> (B, 1, T, S)
    """
    if valid_lengths.dim() not in (1, 2):
        raise ModelError(f"valid_lengths has the shape {tuple(valid_lengths.shape)}; expected (B,) or (B, T)")
    per_query = valid_lengths[:, None] if valid_lengths.dim() == 1 else valid_lengths
    return (torch.arange(n_keys, device=valid_lengths.device) < per_query[..., None])[:, None]


def check_mask(mask: Tensor, scores: tuple[int, ...]) -> None:
    """Raise ModelError unless the mask is boolean and broadcasts to the scores' shape, (B, H, T, S)."""
    if mask.dtype != torch.bool:
        raise ModelError(f"the mask holds {mask.dtype}; expected torch.bool, True where a query may attend")
    fits = mask.dim() <= len(scores) and all(m in (1, s) for m, s in zip(reversed(mask.shape), reversed(scores)))
    if not fits:
        shape = tuple(mask.shape)
        raise ModelError(f"the mask has the shape {shape}, which does not broadcast to {tuple(scores)} (B, H, T, S)")
