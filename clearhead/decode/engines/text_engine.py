"""Step engine for the decoder-only model of `clearhead.model`, which continues texts.

Texts longer than the context window are read through a window, which moves depending on the position scheme:

    rotary, relative, ALiBi    Only distances count. A ring buffer of keys and values keeps the newest `max_len` tokens,
                               and every token attends to those.
    learned, sinusoidal        The table of positions ends at `max_len`. When the window is full, its newest half is
                               read again from position 0, which makes room for new tokens.

Axes: B texts, W beams per text, R = B * W rows, T tokens read at once, S tokens in a window.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

import numpy as np
import torch
from torch import Tensor

from ...model.cache import side_by_side
from ...model.transformer import Decoder, evaluation
from ..model_handle import ModelHandle
from ..rules import FloatArray, IntArray, Sources
from .torch_engine import FLOAT32, Autocast, InTorch, chosen_rows, top_successors

CHUNK = 512  # tokens of a prompt to read at once


class TextEngine(InTorch):
    """A step engine for decoder-only models with a context window of `max_len` tokens.

    Short texts are padded with `pad` on the left, and the padding is masked.
    """

    def __init__(self, model: Decoder, *, pad: int, max_len: int, autocast: Autocast = FLOAT32) -> None:
        self.model, self.pad, self.max_len, self.autocast = model, pad, max_len, autocast
        self.ring = model.positions.endless

    @classmethod
    def open(cls, model: ModelHandle, precision: str = "fp32") -> Self:
        """Return an engine that computes in this precision."""
        module, autocast = cls.in_precision(model.module(), precision)
        return cls(module, pad=model.config.pad_id, max_len=model.config.max_len, autocast=autocast)

    @property
    def overflow(self) -> str:
        if self.ring:
            return f"a ring buffer of the newest {self.max_len:,} tokens"
        return f"whenever {self.max_len:,} tokens fill the window, the newest {self._half:,} are read again"

    @property
    def _half(self) -> int:
        return max(1, self.max_len // 2)

    @contextmanager
    def prefill(self, sources: Sources, steps: int) -> Iterator["TextDecoding"]:
        """Read B texts, each without its last token, which is the first input of `step`. A source may be empty.

        If a text is longer than the context window, only its last tokens are read. The model is in evaluation mode
        inside the `with` block only.
        """
        texts = [source[max(0, len(source) - self.max_len + 1) :] for source in sources]
        longest = max(map(len, texts))
        tokens = np.full((len(texts), longest), self.pad, np.int64)
        for row, text in zip(tokens, texts):
            row[longest - len(text) :] = text
        lengths = torch.tensor([len(text) for text in texts])
        device = next(self.model.parameters()).device
        with evaluation(self.model):
            yield TextDecoding(self, torch.from_numpy(tokens).to(device), lengths.to(device), steps)

    def keep(self, lengths: Tensor) -> Tensor:
        """Return how many tokens of each text to keep, for positions from a table. (R,) -> (R,)"""
        return torch.where(lengths > self.max_len, self._half, lengths)


class TextDecoding:
    """A batch being decoded: rows b * W to b * W + W - 1 of the cache are the beams of text b.

    `text` (R, S) is the window, with the texts right-aligned; `lengths` (R,) counts their tokens.
    """

    def __init__(self, engine: TextEngine, text: Tensor, lengths: Tensor, steps: int) -> None:
        self.engine, self.text, self.lengths, self.width, self.steps = engine, text, lengths, 1, steps
        self.capacity = min(text.size(1) + steps, engine.max_len)
        self._begin()
        if text.size(1):
            self._read(text)

    @torch.inference_mode()
    def step(self, tokens: IntArray, k: int, also: IntArray | None = None) -> tuple[FloatArray, IntArray]:
        """Append a token to each beam, and return the k most likely next tokens, best first.

        (B, W) -> log-probabilities (B, W, k), ids (B, W, k). With `also` (B,), one more column has that token.
        """
        rows = torch.from_numpy(tokens.reshape(-1, 1)).to(self.text.device)
        self.lengths, self.steps = self.lengths + 1, self.steps - 1
        if not self.engine.ring:
            self.text = torch.cat((self.text, rows), 1)
            if self.text.size(1) > self.engine.max_len:
                self.lengths = self.engine.keep(self.lengths)
                self.text = rows = self.text[:, -int(self.lengths.max()) :]
                self._begin()
        return top_successors(self._read(rows), tokens.shape[1], k, also)

    @torch.inference_mode()
    def select(self, sources: IntArray, beams: IntArray) -> None:
        """Keep these texts, and these beams of each. A beam may be repeated. (B',), (B', W')"""
        rows = chosen_rows(sources, beams, self.width).to(self.text.device)
        self.cache.select(rows)
        self.text, self.lengths, self.width = self.text[rows], self.lengths[rows], beams.shape[1]

    @torch.inference_mode()
    def join(self, other: "TextDecoding") -> None:
        text = side_by_side(self.text.flip(1), other.text.repeat_interleave(self.width, 0).flip(1), 1).flip(1)
        self.lengths = torch.cat((self.lengths, other.lengths.repeat_interleave(self.width)))
        held = min(int(self.lengths.max()), self.engine.max_len)
        self.text, self.steps = text[:, -held:], max(self.steps, other.steps)
        self.capacity = min(held + self.steps, self.engine.max_len)
        self.cache.join(other.cache, self.width, held, self.capacity)
        self.ragged = bool((self.lengths < held).any())

    def _begin(self) -> None:
        """Create an empty cache. The padding of each row stays fixed until the next call."""
        with self.engine.autocast:
            self.cache = self.engine.model.new_cache(len(self.text), self.capacity, ring=self.engine.ring)
        self.ragged = bool((self.lengths < self.text.size(1)).any())

    @torch.inference_mode()
    def _read(self, tokens: Tensor) -> Tensor:
        """Append T tokens, already counted in `lengths`, and return the next token's logits. (R, T) -> (R, V)

        Reads at most `CHUNK` tokens at once, so that memory grows with the length of a text and not with its square.
        """
        unread = tokens.size(1)
        for chunk in tokens.split(CHUNK, 1):
            unread -= chunk.size(1)
            lengths = self.lengths[:, None] - unread
            back = torch.arange(chunk.size(1) - 1, -1, -1, device=tokens.device)  # distance to the chunk's last token
            positions = (lengths - 1 - back).clamp(min=0)  # padding can have any position
            mask = (self.cache.ages(chunk.size(1)) < lengths)[:, None, None, :] if self.ragged else None
            with self.engine.autocast:
                logits = self.engine.model(chunk, mask=mask, positions=positions, cache=self.cache, newest=True)
        return logits[:, -1]
