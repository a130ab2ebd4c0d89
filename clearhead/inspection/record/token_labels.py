"""Label the queries and keys of recorded attention with their tokens, even while a search reorders its hypotheses."""

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import TypeAlias

import torch
from torch import Tensor

from ...model.cache import Cache

Pieces: TypeAlias = Callable[[Iterable[int]], list[str]]
Rows: TypeAlias = list[list[str]]  # the labels of each row


class TokenLabels:
    """Labels of the inputs of both stacks.

    An encoder's positions have the names that its front end gives them. If it names none and its input isn't token
    ids, the labels are indices.
    """

    def __init__(self, pieces: Mapping[str, Pieces]) -> None:
        self.pieces = pieces
        self.source: Rows = []
        self.caches: dict[int, tuple[Cache, Tensor]] = {}  # by identity, with the tokens read through each cache
        self.queries: Rows = []
        self.keys: Rows = []

    def enter_encoder(self, inputs: Tensor, names: Rows | None) -> None:
        """Record the encoder's input, and the names that its front end gives to the positions."""
        if names is None:
            is_tokens = inputs.dim() == 2 and not inputs.is_floating_point()
            names = self._spell("encoder", inputs) if is_tokens else []
        self.source = self.queries = self.keys = names

    def enter_decoder(self, tokens: Tensor, cache: Cache | None) -> None:
        """Record the decoder's input together with the earlier tokens in its cache."""
        read = held = tokens
        if cache is not None:
            if (before := self._read_before(cache)) is not None:
                read = torch.cat((before, tokens), 1)
            self.caches[id(cache)] = (cache, read)
            indices = read.size(1) - 1 - cache.ages(tokens.size(1))
            held = read[:, indices] if int(indices.min()) >= 0 else read[:, :0]  # the cache was filled before
        self.queries, self.keys = self._spell("decoder", tokens), self._spell("decoder", held)

    def of_weights(self, name: str, weights: Tensor) -> dict[str, Rows]:
        """Return the labels of queries and keys for each row: tokens if their number matches, or else indices."""
        rows, _, n_queries, n_keys = weights.shape
        queries, keys = self.queries, self.keys
        if name.endswith(".cross"):
            keys = self.source
            beams = max(len(queries) // rows, 1)  # the hypotheses of one source are neighbours
            queries = [[*chain(*queries[row : row + beams])] for row in range(0, len(queries), beams)]
        return {"query": _fitting(queries, rows, n_queries), "key": _fitting(keys, rows, n_keys)}

    def release(self) -> None:
        """Stop tracking caches."""
        for cache, _ in self.caches.values():
            for name in ("select", "select_memory"):  # restores the methods of the class
                vars(cache).pop(name, None)

    def _read_before(self, cache: Cache) -> Tensor | None:
        """Return the tokens read through a cache, or None for a new cache, which is tracked from now on."""
        if id(cache) in self.caches:
            return self.caches[id(cache)][1]
        select, select_memory = cache.select, cache.select_memory

        def select_and_follow(rows: Tensor) -> None:
            select(rows)
            self.caches[id(cache)] = (cache, self.caches[id(cache)][1].index_select(0, rows))

        def select_memory_and_follow(sources: Tensor, length: int | None = None) -> None:
            select_memory(sources, length)
            self.source = [self.source[i][:length] for i in sources.tolist()] if self.source else []

        cache.select, cache.select_memory = select_and_follow, select_memory_and_follow  # type: ignore[method-assign]
        return None

    def _spell(self, stack: str, tokens: Tensor) -> Rows:
        spell = self.pieces.get(stack, _numbers)
        return [list(spell(ids)) for ids in tokens.tolist()]


def _fitting(labels: Rows, rows: int, size: int) -> Rows:
    fits = len(labels) == rows and all(len(row) == size for row in labels)
    return labels if fits else [[str(index) for index in range(size)]] * rows


def _numbers(ids: Iterable[int]) -> list[str]:
    return [str(i) for i in ids]
