"""Keys and values of what was decoded so far: an argument of the decoder, never a part of it.

All rows share one slot number: `append` writes at the current length, attention reads the live prefix only, and
`select` moves that prefix when rows (hypotheses) change. The buffers keep their shape from the first step to the last.
"""

from torch import Tensor

from ..errors import ModelError


class LayerCache:
    """One decoder block's share: keys and values of tokens (R, G, capacity, K), and of the memory (B, G, S, K)."""

    def __init__(self, keys: Tensor, values: Tensor, memory: tuple[Tensor, Tensor] | None = None) -> None:
        self.keys, self.values, self.memory, self.length = keys, values, memory, 0

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Write T new keys and values behind the others; all S so far.

        (R, G, T, K), (R, G, T, K) -> (R, G, S, K), (R, G, S, K)
        """
        end = self.length + k.size(2)
        if end > self.keys.size(2):
            raise ModelError(f"the cache has room for {self.keys.size(2)} tokens; got {end}")
        self.keys[:, :, self.length : end] = k
        self.values[:, :, self.length : end] = v
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def select(self, rows: Tensor) -> None:
        """Row i becomes what row `rows[i]` was. int64 (R',)"""
        self.keys, self.values = self._moved(self.keys, rows), self._moved(self.values, rows)

    def _moved(self, buffer: Tensor, rows: Tensor) -> Tensor:
        live = buffer[:, :, : self.length].index_select(0, rows)
        if len(rows) > buffer.size(0):
            buffer = buffer.new_empty(len(rows), *buffer.shape[1:])
        buffer = buffer[: len(rows)]
        buffer[:, :, : self.length] = live
        return buffer


class Cache:
    """The share of every decoder block, in their order."""

    def __init__(self, layers: list[LayerCache]) -> None:
        self.layers = layers

    @property
    def length(self) -> int:
        """Tokens that every row holds."""
        return self.layers[0].length if self.layers else 0

    def select(self, rows: Tensor) -> None:
        """Row i becomes what row `rows[i]` was, in every block. int64 (R',)"""
        for layer in self.layers:
            layer.select(rows)

    def select_memory(self, sources: Tensor) -> None:
        """Keep the keys and values of these sources. int64 (B',)"""
        for layer in self.layers:
            if layer.memory is not None:
                keys, values = layer.memory
                layer.memory = keys.index_select(0, sources), values.index_select(0, sources)
