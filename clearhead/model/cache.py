"""Keys and values of what was decoded so far: an argument of the decoder, never a part of it.

All rows share one slot number: `append` writes at the current length, attention reads the live prefix only, and
`select` moves that prefix when rows (hypotheses) change. The buffers keep their shape from the first step to the last.

A ring is a cache that has no end: when all slots are taken, each new token takes that of the oldest. Attention is a sum
over the keys, whose order is nobody's business; only their ages are, and `ages` tells them.
"""

import torch
from torch import Tensor

from ..errors import ModelError


class LayerCache:
    """One decoder block's share: keys and values of tokens (R, G, capacity, K), and of the memory (B, G, S, K)."""

    def __init__(
        self, keys: Tensor, values: Tensor, memory: tuple[Tensor, Tensor] | None = None, *, ring: bool = False
    ) -> None:
        self.keys, self.values, self.memory, self.ring, self.length = keys, values, memory, ring, 0

    @property
    def held(self) -> int:
        """The slots that are taken: S of `append`, at most the capacity."""
        return min(self.length, self.keys.size(2))

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Write T new keys and values behind the others, in a full ring over the oldest; all S that there are then.

        (R, G, T, K), (R, G, T, K) -> (R, G, S, K), (R, G, S, K)
        """
        end, capacity = self.length + k.size(2), self.keys.size(2)
        if end > capacity and not self.ring:
            raise ModelError(f"the cache has room for {capacity} tokens; got {end}")
        if end > capacity and k.size(2) > 1:  # the first of them would need the keys that the last of them replaces
            raise ModelError(f"a ring of {capacity} tokens takes them one by one where it overwrites; got {k.size(2)}")
        start = self.length % capacity if end > capacity else self.length
        self.keys[:, :, start : start + k.size(2)] = k
        self.values[:, :, start : start + k.size(2)] = v
        self.length = end
        return self.keys[:, :, : self.held], self.values[:, :, : self.held]

    def select(self, rows: Tensor) -> None:
        """Row i becomes what row `rows[i]` was. int64 (R',)"""
        self.keys, self.values = self._moved(self.keys, rows), self._moved(self.values, rows)

    def _moved(self, buffer: Tensor, rows: Tensor) -> Tensor:
        live = buffer[:, :, : self.held].index_select(0, rows)
        if len(rows) > buffer.size(0):
            buffer = buffer.new_empty(len(rows), *buffer.shape[1:])
        buffer = buffer[: len(rows)]
        buffer[:, :, : self.held] = live
        return buffer


class Cache:
    """The share of every decoder block, in their order, and the source's tokens where a pointer copies from them."""

    def __init__(self, layers: list[LayerCache], source: tuple[Tensor, Tensor] | None = None) -> None:
        self.layers, self.source = layers, source

    @property
    def length(self) -> int:
        """Tokens that every row was given; a ring holds the newest of them."""
        return self.layers[0].length if self.layers else 0

    def ages(self, new: int) -> Tensor:
        """How long before the last of T new tokens each of the S that are held with it came, in the order of the slots.

        -> int64 (S,): T + length - 1 down to 0, unless a ring has overwritten its oldest.
        """
        if not self.layers:
            return torch.arange(new).flip(0)
        keys, end = self.layers[0].keys, self.length + new
        slots = torch.arange(min(end, keys.size(2)), device=keys.device)
        return (end - 1 - slots) % keys.size(2)

    def select(self, rows: Tensor) -> None:
        """Row i becomes what row `rows[i]` was, in every block. int64 (R',)"""
        for layer in self.layers:
            layer.select(rows)

    def select_memory(self, sources: Tensor) -> None:
        """Keep the keys and values of these sources, and their tokens. int64 (B',)"""
        for layer in self.layers:
            if layer.memory is not None:
                keys, values = layer.memory
                layer.memory = keys.index_select(0, sources), values.index_select(0, sources)
        if self.source is not None:
            tokens, first = self.source
            self.source = tokens.index_select(0, sources), first.index_select(0, sources)
