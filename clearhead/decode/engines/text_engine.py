"""A decoder alone behind `prefill`, `step` and `select`: it goes on with texts, instead of answering sources.

A text longer than the model's block is read through a window. Which one, the positions decide:

    rotary, relative, ALiBi    distances count, and any position has its place: a ring of keys and values keeps the
                               newest `max_len` tokens, and every token attends to those
    learned, sinusoidal        the table ends at `max_len`: when so many tokens are read, the newest half of them is
                               read anew from position 0, which leaves room for as many again

Axes: B texts, W beams of each, R = B * W rows, T tokens that are read at once, S tokens of a window.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from ...model.transformer import Decoder, evaluation
from ..rules import FloatArray, IntArray
from .torch_engine import chosen_rows, likeliest


class TextEngine:
    """A language model as search sees it. `max_len` is the longest text that it was built for, its block; `pad` fills
    short texts on the left and is attended by nobody."""

    def __init__(self, model: Decoder, *, pad: int, max_len: int) -> None:
        self.model, self.pad, self.max_len = model, pad, max_len
        self.ring = model.positions.endless

    @property
    def beyond(self) -> str:
        """In words, for people: how a text longer than the block is read."""
        if self.ring:
            return f"a ring of the newest {self.max_len:,} tokens"
        return f"the newest {self._half:,} tokens read anew whenever {self.max_len:,} are full"

    @property
    def _half(self) -> int:
        return max(1, self.max_len // 2)

    @contextmanager
    def prefill(self, sources: Sequence[Sequence[int]], steps: int) -> Iterator["TextDecoding"]:
        """Read B texts, each without its last token, which `step` is given first; what is left may be empty.

        Of a text longer than the block the newest tokens are read, with that one so many as fit. The model is in
        evaluation mode inside the `with` block, and afterwards as it was.
        """
        texts = [source[max(0, len(source) - self.max_len + 1) :] for source in sources]
        longest = max(map(len, texts))
        tokens = np.full((len(texts), longest), self.pad, np.int64)
        for row, text in zip(tokens, texts):
            row[longest - len(text) :] = text
        lengths = torch.tensor([len(text) for text in texts])
        device = next(self.model.parameters()).device
        with evaluation(self.model):
            yield TextDecoding(self, torch.from_numpy(tokens).to(device), lengths.to(device), longest + steps)

    def keep(self, lengths: Tensor) -> Tensor:
        """How many tokens of each text stay in the window of one whose table of positions ends. (R,) -> (R,)"""
        return torch.where(lengths > self.max_len, self._half, lengths)


class TextDecoding:
    """A batch under way: rows b * W to b * W + W - 1 of the cache are the beams of text b.

    Texts stand at the right end of `text` (R, S), the window; `lengths` (R,) count their tokens, and so the positions.
    """

    def __init__(self, engine: TextEngine, text: Tensor, lengths: Tensor, most: int) -> None:
        """`most`: the tokens of the longest text in the end."""
        self.engine, self.text, self.lengths, self.width = engine, text, lengths, 1
        self.capacity = min(most, engine.max_len)
        self._begin()
        if text.size(1):
            self._read(text)

    @torch.inference_mode()
    def step(self, tokens: IntArray, k: int, also: IntArray | None = None) -> tuple[FloatArray, IntArray]:
        """(B, W) -> log-probabilities (B, W, k) and ids (B, W, k), best first, in one hand-over to the host.

        With `also` (B,) each beam of a text has that successor besides, in the last column.
        """
        rows = torch.from_numpy(tokens.reshape(-1, 1)).to(self.text.device)
        self.lengths = self.lengths + 1
        if not self.engine.ring:
            self.text = torch.cat((self.text, rows), 1)
            if self.text.size(1) > self.engine.max_len:
                self.lengths = self.engine.keep(self.lengths)
                self.text = rows = self.text[:, -int(self.lengths.max()) :]
                self._begin()
        return likeliest(self._read(rows), tokens.shape[1], k, also)

    @torch.inference_mode()
    def select(self, sources: IntArray, beams: IntArray) -> None:
        """Keep these texts, and of each of them these beams, which may repeat. (B',), (B', W')"""
        rows = chosen_rows(sources, beams, self.width).to(self.text.device)
        self.cache.select(rows)
        self.text, self.lengths, self.width = self.text[rows], self.lengths[rows], beams.shape[1]

    def _begin(self) -> None:
        """An empty cache for the rows that there are; from here on they are padded alike."""
        self.cache = self.engine.model.new_cache(len(self.text), self.capacity, ring=self.engine.ring)
        self.ragged = bool((self.lengths < self.text.size(1)).any())

    @torch.inference_mode()
    def _read(self, tokens: Tensor) -> Tensor:
        """Append T tokens, which `lengths` count already; logits of what follows. (R, T) -> (R, V)"""
        back = torch.arange(tokens.size(1) - 1, -1, -1, device=tokens.device)  # behind the last token
        positions = (self.lengths[:, None] - 1 - back).clamp(min=0)  # where there is padding, any will do
        mask = None
        if self.ragged:
            mask = (self.cache.ages(tokens.size(1)) < self.lengths[:, None])[:, None, None, :]
        return self.engine.model(tokens, mask=mask, positions=positions, cache=self.cache, newest=True)[:, -1]
