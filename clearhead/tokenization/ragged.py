"""Token sequences of different lengths in one flat array."""

import itertools
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]


class Ragged:
    """Sequences of different lengths in one flat array: sequence i is `tokens[starts[i] : starts[i + 1]]`."""

    def __init__(self, sequences: Sequence[Sequence[int]]) -> None:
        lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
        self._hold(np.fromiter(itertools.chain.from_iterable(sequences), np.int32, int(lengths.sum())), lengths)

    @classmethod
    def of(cls, tokens: NDArray[np.integer[Any]], lengths: IntArray) -> Self:
        """Wrap a flat array of tokens, such as a memory-mapped file."""
        ragged = cls.__new__(cls)
        ragged._hold(tokens, lengths)
        return ragged

    @classmethod
    def joined(cls, arrays: Sequence[NDArray[np.integer[Any]]], dtype: str) -> Self:
        """Join arrays (N,), each of which is a sequence."""
        flat = np.concatenate(arrays) if arrays else np.empty(0)
        return cls.of(flat.astype(dtype, copy=False), np.array([len(it) for it in arrays], np.int64))

    def take(self, rows: IntArray) -> Self:
        """Return some of the sequences."""
        return type(self).joined([self.array(row) for row in rows.tolist()], self.tokens.dtype.str)

    def array(self, row: int) -> NDArray[np.integer[Any]]:
        """Return one sequence, without copying it. (N,)"""
        return self.tokens[self.starts[row] : self.starts[row + 1]]

    def _hold(self, tokens: NDArray[np.integer[Any]], lengths: IntArray) -> None:
        self.tokens, self.lengths = tokens, lengths
        self.starts: IntArray = np.concatenate([[0], np.cumsum(lengths)])

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> list[int]:
        start = self.starts[:-1][index]
        return self.tokens[start : start + self.lengths[index]].tolist()

    def padded(self, rows: IntArray, pad: int, dtype: type[np.integer[Any]] = np.int64) -> NDArray[Any]:
        """Return these sequences as rows, padded on the right. (B,) -> (B, longest)

        Args:
            rows: the indices of the sequences.
            pad: the token that fills up shorter ones.
            dtype: the type of the result, such as that of 16-bit samples.
        """
        lengths = self.lengths[rows]
        padded = np.full((len(rows), int(lengths.max(initial=0))), pad, dtype)
        for row, start, length in zip(padded, self.starts[rows].tolist(), lengths.tolist()):
            row[:length] = self.tokens[start : start + length]
        return padded
