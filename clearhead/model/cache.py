"""Cache of the keys and values of the tokens decoded so far. It's passed to the decoder, not stored in it.

All rows have the same length. `append` writes after the last token of each row, attention reads only written positions,
and `select` reorders rows when hypotheses change. The capacity in tokens is fixed.

A ring has no length limit: once it's full, each new token overwrites the oldest. Attention doesn't depend on the order
of the keys, only on their ages, which `ages` returns.
"""

import torch
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
            raise ModelError(
                f"{end} tokens don't fit into the cache", expected=f"at most {capacity}", name="tokens", value=end
            )
        if end > capacity and k.size(2) > 1:  # the first token would need keys that the last one overwrites
            raise ModelError(
                f"{k.size(2)} tokens can't overwrite a ring of {capacity} at once",
                expected="one token at a time once the ring is full",
                name="tokens",
                value=k.size(2),
            )
        start = self.length % capacity if end > capacity else self.length
        self.keys[:, :, start : start + k.size(2)] = k
        self.values[:, :, start : start + k.size(2)] = v
        self.length = end
        return self.keys[:, :, : self.held], self.values[:, :, : self.held]

    def select(self, rows: Tensor) -> None:
        """Replace row i with row `rows[i]`. int64 (R',)"""
        self.keys, self.values = self._moved(self.keys, rows), self._moved(self.values, rows)

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

    def ages(self, new: int) -> Tensor:
        """Return the age of each of the S keys after `new` tokens are appended. The newest key has age 0.

        -> int64 (S,): new + length - 1 down to 0, unless a ring has overwritten its oldest keys.
        """
        if not self.layers:
            return torch.arange(new).flip(0)
        keys, end = self.layers[0].keys, self.length + new
        slots = torch.arange(min(end, keys.size(2)), device=keys.device)
        return (end - 1 - slots) % keys.size(2)

    def select(self, rows: Tensor) -> None:
        """Replace row i with row `rows[i]` in every block. int64 (R',)"""
        for layer in self.layers:
            layer.select(rows)

    def select_memory(self, sources: Tensor) -> None:
        """Keep only these sources: their keys, values and tokens. int64 (B',)"""
        for layer in self.layers:
            if layer.memory is not None:
                keys, values = layer.memory
                layer.memory = keys.index_select(0, sources), values.index_select(0, sources)
        if self.source is not None:
            tokens, first = self.source
            self.source = tokens.index_select(0, sources), first.index_select(0, sources)
