"""Attention masks (section 3.2.3). True means that a query may attend to a key. Combine masks with `&`."""

from typing import Any, cast

import torch
from torch import Tensor

from ..errors import ModelError


def padding_mask(tokens: Tensor, pad: int = 0) -> Tensor:
    """Mask padding. (B, S) -> (B, 1, 1, S)"""
    return (tokens != pad)[:, None, None, :]


def causal_mask(n_queries: int, n_keys: int | None = None, *, device: torch.device | None = None) -> Tensor:
    """Let each query see itself and everything before it. The last query is aligned with the last key. -> (1, 1, T, S)

    >>> causal_mask(3)[0, 0].int().tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 1]]

    Args:
        n_queries: number of queries, T.
        n_keys: number of keys, S, at least T (default: T).
        device: where the mask is stored (default: torch's default device).
    """
    n_keys = n_queries if n_keys is None else n_keys
    if n_keys < n_queries:
        what = f"a causal mask of {n_queries} queries has only {n_keys} keys"
        raise ModelError(what, expected="at least as many keys as queries", name="n_keys", value=n_keys)
    ones = torch.ones(n_queries, n_keys, dtype=torch.bool, device=device)
    mask = ones.tril(n_keys - n_queries)[None, None]
    cast(Any, mask).causal = None if n_keys != n_queries else _version(mask)
    return mask


def recent_mask(queries: Tensor, keys: Tensor, window: int) -> Tensor:
    """Let each query see the keys less than `window` positions before it. (B, T), (B, S) -> (B, 1, T, S)

    Args:
        queries: positions of the queries.
        keys: positions of the keys.
        window: number of positions, the query's own included. Later keys aren't hidden.
    """
    return (queries[:, None, :, None] - keys[:, None, None, :]) < window


def is_causal(mask: Tensor) -> bool:
    """Return whether a mask is a square `causal_mask`, unchanged. Reads no values, so it never waits for a GPU."""
    made = getattr(mask, "causal", None)
    return made is not None and made == _version(mask)


def check_mask(mask: Tensor, scores: tuple[int, ...]) -> None:
    """Raise ModelError unless the mask is boolean and broadcasts to the scores' shape, (B, H, T, S)."""
    if mask.dtype != torch.bool:
        what = f"the mask's dtype is {mask.dtype}"
        raise ModelError(what, expected="torch.bool, True where a query may attend", name="mask", value=mask.dtype)
    fits = mask.dim() <= len(scores) and all(m in (1, s) for m, s in zip(reversed(mask.shape), reversed(scores)))
    if not fits:
        what = f"the mask's shape {tuple(mask.shape)} doesn't broadcast to the scores'"
        expected = f"a shape that broadcasts to (B, H, T, S) = {tuple(scores)}"
        raise ModelError(what, expected=expected, name="mask", value=tuple(mask.shape))


def _version(mask: Tensor) -> int:
    """Return torch's count of in-place changes to a tensor, or -1 if it has none."""
    return -1 if mask.is_inference() else mask._version
