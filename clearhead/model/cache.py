"""Cache of the keys and values of the tokens decoded so far. It's passed to the decoder, not stored in it.

All rows have the same length. `append` writes after the last token of each row, attention reads only written positions,
and `select` reorders rows when hypotheses change. The capacity in tokens is fixed.

A ring has no length limit: once it's full, each new token overwrites the oldest. Attention doesn't depend on the order
of the keys, only on their ages, which `ages` returns.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import ModelError


class LayerCache:
    """One decoder block's keys and values, for the tokens (R, G, capacity, K) and the memory (B, G, S, K)."""

    def __init__(
        self, keys: Tensor, values: Tensor, memory: tuple[Tensor, Tensor] | None = None, *, ring: bool = False
    ) -> None:
        self.keys, self.values, self.memory, self.ring, self.length = keys, values, memory, ring, 0

    @property
    def held(self) -> int:
        """Number of tokens stored in each row, at most the capacity."""
        return min(self.length, self.keys.size(2))

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Write T new keys and values, and return all S of them. A full ring overwrites the oldest.

        (R, G, T, K), (R, G, T, K) -> (R, G, S, K), (R, G, S, K)
        """
        end, capacity = self.length + k.size(2), self.keys.size(2)
        if end > capacity and not self.ring:
            what = f"{end} tokens don't fit into the cache"
            raise ModelError(what, expected=f"at most {capacity}", name="tokens", value=end)
        if end > capacity and k.size(2) > 1:  # the first token would need keys that the last one overwrites
            what = f"{k.size(2)} tokens can't overwrite a ring of {capacity} at once"
            raise ModelError(what, expected="one token at a time once the ring is full", name="tokens", value=k.size(2))
        start = self.length % capacity if end > capacity else self.length
        self.keys[:, :, start : start + k.size(2)] = k
        self.values[:, :, start : start + k.size(2)] = v
        self.length = end
        return self.keys[:, :, : self.held], self.values[:, :, : self.held]

    def select(self, rows: Tensor) -> None:
        """Replace row i with row `rows[i]`. int64 (R',)"""
        self.keys, self.values = self._moved(self.keys, rows), self._moved(self.values, rows)

    def join(self, other: "LayerCache", copies: int, held: int, capacity: int) -> None:
        """Append the rows of another cache; see `Cache.join`.

        Args:
            other: the cache of the same layer.
            copies: how often each row of `other` is added.
            held: number of tokens in every row afterwards.
            capacity: maximum number of tokens in a row afterwards.
        """
        first = self.keys.size(0)
        shape = (first + copies * other.keys.size(0), self.keys.size(1), capacity, self.keys.size(3))
        for name in ("keys", "values"):
            joined = self.keys.new_zeros(shape)  # a weight of zero times unset memory could be NaN
            for it, rows, repeats in ((self, joined[:first], 1), (other, joined[first:], copies)):
                newest = it._newest(getattr(it, name), held).repeat_interleave(repeats, 0)
                rows[:, :, held - newest.size(2) : held] = newest
            setattr(self, name, joined)
        self.length = held
        if self.memory is not None and other.memory is not None:
            keys, values = (side_by_side(ours, theirs, 2) for ours, theirs in zip(self.memory, other.memory))
            self.memory = keys, values

    def _newest(self, buffer: Tensor, most: int) -> Tensor:
        """Return the newest tokens, at most `most`, from the oldest to the newest. -> (R, G, S, K)"""
        n = min(self.held, most)
        return buffer.index_select(2, torch.arange(self.length - n, self.length, device=buffer.device) % buffer.size(2))

    def _moved(self, buffer: Tensor, rows: Tensor) -> Tensor:
        live = buffer[:, :, : self.held].index_select(0, rows)
        if len(rows) > buffer.size(0):
            buffer = buffer.new_empty(len(rows), *buffer.shape[1:])
        buffer = buffer[: len(rows)]
        buffer[:, :, : self.held] = live
        return buffer


class Cache:
    """The caches of all decoder blocks, in order, and the source's tokens if a pointer copies from them."""

    def __init__(self, layers: list[LayerCache], source: tuple[Tensor, Tensor] | None = None) -> None:
        self.layers, self.source = layers, source

    @property
    def length(self) -> int:
        """Number of tokens that each row has read. A ring stores only the newest."""
        return self.layers[0].length if self.layers else 0

    @property
    def capacity(self) -> int:
        """Number of tokens that each row has room for."""
        return self.layers[0].keys.size(2) if self.layers else 0

    def ages(self, new: int) -> Tensor:
        """Return the age of each of the S keys after `new` tokens are appended. The newest key has age 0.

        -> int64 (S,): new + length - 1 down to 0, unless a ring has overwritten its oldest keys.
        """
        if not self.layers:
            return torch.arange(new).flip(0)
        keys, end = self.layers[0].keys, self.length + new
        if end <= keys.size(2):
            return torch.arange(end - 1, -1, -1, device=keys.device)
        slots = torch.arange(keys.size(2), device=keys.device)
        return (end - 1 - slots) % keys.size(2)

    def select(self, rows: Tensor) -> None:
        """Replace row i with row `rows[i]` in every block. int64 (R',)"""
        for layer in self.layers:
            layer.select(rows)

    def select_memory(self, sources: Tensor, length: int | None = None) -> None:
        """Keep only these sources: their first `length` keys, values and tokens (default: all). int64 (B',)"""
        for layer in self.layers:
            if layer.memory is not None:
                keys, values = (it[:, :, :length].index_select(0, sources) for it in layer.memory)
                layer.memory = keys, values
        if self.source is not None:
            tokens, first = (it[:, :length].index_select(0, sources) for it in self.source)
            self.source = tokens, first

    def join(self, other: "Cache", copies: int, held: int, capacity: int) -> None:
        """Append the rows of another cache, and its sources, which are padded on the right.

        Args:
            other: a cache of the same model.
            copies: how often each row of `other` is added, usually the beam.
            held: number of tokens in every row afterwards. A row that held fewer has zeros before its first token,
                which must be masked. One that held more keeps the newest.
            capacity: maximum number of tokens in a row afterwards.
        """
        for layer, joining in zip(self.layers, other.layers):
            layer.join(joining, copies, held, capacity)
        if self.source is not None and other.source is not None:
            tokens, first = (side_by_side(ours, theirs, 1) for ours, theirs in zip(self.source, other.source))
            self.source = tokens, first


def side_by_side(first: Tensor, second: Tensor, axis: int) -> Tensor:
    """Append the rows of `second` to those of `first`. The shorter ones are padded along `axis` with zeros.

    With axis 1 and T < S: (B, T, D), (R, S, D) -> (B+R, S, D)

    Args:
        first: the first B rows of the result.
        second: the other R rows.
        axis: the dimension along which lengths may differ, from 1.
    """
    length, after = max(first.size(axis), second.size(axis)), first.dim() - 1 - axis
    return torch.cat([F.pad(it, (0, 0) * after + (0, length - it.size(axis))) for it in (first, second)])
