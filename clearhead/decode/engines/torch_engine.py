"""Step engines that run the modules of `clearhead.model`, on any device.

Axes: B sources, W beams per source, R = B * W rows, T tokens read at once, S tokens in a source or window.
"""

from collections.abc import Container, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from ...config import ModelConfig
from ...model.cache import Cache, side_by_side
from ...model.transformer import Decoder, EncoderDecoder, evaluation
from ..model_handle import ModelHandle, sharing_weights
from ..rules import FloatArray, IntArray, Sources

Autocast: TypeAlias = AbstractContextManager[object]  # the model is called inside it
FLOAT32: Autocast = nullcontext()
CHUNK = 512  # tokens of a prompt to read at once


class _InTorch:
    """Base class of the engines that run the model itself, which can run every model on every device."""

    precisions: ClassVar[tuple[str, ...]] = ("fp32", "bf16")

    @classmethod
    def obstacle(cls, config: ModelConfig, device: str, formats: Container[str]) -> str:
        return ""

    @staticmethod
    def in_precision(model: nn.Module, precision: str) -> tuple[Any, Autocast]:
        """Return the model itself in fp32, or a copy in bf16, where matrices are multiplied as in training.

        The copy converts the weights of linear layers once, so each step reads half the memory. It shares all other
        weights. Keys and values are cached in bfloat16; norms, softmax and residual connections stay in float32.
        """
        if precision == "fp32":
            return model, FLOAT32
        found = sharing_weights(model)
        for layer in [it for it in found.modules() if isinstance(it, nn.Linear)]:
            for name, weight in list(layer.named_parameters(recurse=False)):
                setattr(layer, name, nn.Parameter(weight.detach().bfloat16(), requires_grad=False))
        return found, torch.autocast(next(model.parameters()).device.type, torch.bfloat16)


class TorchEngine(_InTorch):
    """A step engine for encoder-decoder models. Short sources are padded with `pad`, which is masked."""

    def __init__(self, model: EncoderDecoder, *, pad: int, autocast: Autocast = FLOAT32) -> None:
        self.model, self.pad, self.autocast = model, pad, autocast

    @classmethod
    def open(cls, model: ModelHandle, precision: str = "fp32") -> Self:
        """Return an engine that computes in this precision."""
        module, autocast = cls.in_precision(model.module(), precision)
        return cls(module, pad=module.encoder.embedding.pad, autocast=autocast)

    @contextmanager
    def prefill(self, sources: Sources, steps: int) -> Iterator["_TorchDecoding"]:
        """Encode B sources. The model is in evaluation mode inside the `with` block only."""
        with evaluation(self.model):
            yield self._encode(_padded(sources, self.pad), steps)

    @torch.inference_mode()
    def _encode(self, sources: Tensor, steps: int) -> "_TorchDecoding":  # (B, S)
        tokens = sources.to(next(self.model.parameters()).device)
        mask = self.model.encoder.embedding.mask(tokens)
        with self.autocast:
            memory = self.model.encode(tokens, mask=mask)
            cache = self.model.decoder.new_cache(len(tokens), steps, memory, tokens)
        if mask is None:
            mask = torch.ones(len(memory), 1, 1, memory.size(1), dtype=torch.bool, device=memory.device)
        return _TorchDecoding(self.model.decoder, mask, cache, self.autocast)


class _TorchDecoding:
    """A batch being decoded: rows b * W to b * W + W - 1 of the cache are the beams of source b.

    `lengths` (R,) counts the tokens of each row, or is None if all rows have as many as the cache.
    """

    lengths: Tensor | None = None

    def __init__(self, decoder: Decoder, memory_mask: Tensor, cache: Cache, autocast: Autocast = FLOAT32) -> None:
        self.decoder, self.memory_mask, self.cache, self.width = decoder, memory_mask, cache, 1
        self.autocast = autocast
        self.padded = not bool(memory_mask.all())

    @torch.inference_mode()
    def step(self, tokens: IntArray, k: int, also: IntArray | None = None) -> tuple[FloatArray, IntArray]:
        """Append a token to each beam, and return the k most likely next tokens, best first.

        (B, W) -> log-probabilities (B, W, k), ids (B, W, k). With `also` (B,), one more column has that token.
        """
        rows = torch.from_numpy(tokens.reshape(-1, 1)).to(self.memory_mask.device)
        positions = mask = None
        if self.lengths is not None:
            positions = self.lengths[:, None]
            mask = (self.cache.ages(1) <= positions)[:, None, None, :]
            self.lengths = self.lengths + 1
        memory_mask = self.memory_mask if self.padded else None
        with self.autocast:
            logits = self.decoder(rows, mask=mask, memory_mask=memory_mask, positions=positions, cache=self.cache)
        return _top_successors(logits[:, -1], tokens.shape[1], k, also)

    @torch.inference_mode()
    def select(self, sources: IntArray, beams: IntArray) -> None:
        """Keep these sources, and these beams of each. A beam may be repeated. (B',), (B', W')"""
        device = self.memory_mask.device
        rows = _chosen_rows(sources, beams, self.width).to(device)
        self.cache.select(rows)
        self.lengths = None if self.lengths is None else self.lengths[rows]
        if len(sources) < len(self.memory_mask):
            kept = torch.from_numpy(sources).to(device)
            mask = self.memory_mask[kept]
            longest = int(mask.any((0, 1, 2)).nonzero().max()) + 1
            self.cache.select_memory(kept, longest)
            self.memory_mask = mask[..., :longest]
            self.padded = not bool(self.memory_mask.all())
        self.width = beams.shape[1]

    @torch.inference_mode()
    def join(self, other: "_TorchDecoding") -> None:
        rows = len(self.memory_mask) * self.width
        device = self.memory_mask.device
        lengths = torch.full((rows,), self.cache.length, device=device) if self.lengths is None else self.lengths
        left = max(it.cache.capacity - it.cache.length for it in (self, other))
        held = int(lengths.max())
        self.cache.join(other.cache, self.width, held, held + left)
        self.lengths = torch.cat((lengths, lengths.new_zeros(len(other.memory_mask) * self.width)))
        self.memory_mask = side_by_side(self.memory_mask, other.memory_mask, 3)
        self.padded = True


class TextEngine(_InTorch):
    """A step engine for decoder-only models with a context window of `max_len` tokens.

    Short texts are padded with `pad` on the left, and the padding is masked. Texts longer than the context window are
    read through a window, which moves depending on the position scheme:

        rotary, relative, ALiBi    Only distances count. A ring buffer of keys and values keeps the newest `max_len`
                                   tokens, and every token attends to those.
        learned, sinusoidal        The table of positions ends at `max_len`. When the window is full, its newest half is
                                   read again from position 0, which makes room for new tokens.
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
    def prefill(self, sources: Sources, steps: int) -> Iterator["_TextDecoding"]:
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
            yield _TextDecoding(self, torch.from_numpy(tokens).to(device), lengths.to(device), steps)

    def keep(self, lengths: Tensor) -> Tensor:
        """Return how many tokens of each text to keep, for positions from a table. (R,) -> (R,)"""
        return torch.where(lengths > self.max_len, self._half, lengths)


class _TextDecoding:
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
        return _top_successors(self._read(rows), tokens.shape[1], k, also)

    @torch.inference_mode()
    def select(self, sources: IntArray, beams: IntArray) -> None:
        """Keep these texts, and these beams of each. A beam may be repeated. (B',), (B', W')"""
        rows = _chosen_rows(sources, beams, self.width).to(self.text.device)
        self.cache.select(rows)
        self.text, self.lengths, self.width = self.text[rows], self.lengths[rows], beams.shape[1]

    @torch.inference_mode()
    def join(self, other: "_TextDecoding") -> None:
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


def _top_successors(logits: Tensor, width: int, k: int, also: IntArray | None) -> tuple[FloatArray, IntArray]:
    """Convert logits to the result of `Decoding.step`; `width` is the number of beams per sentence.

    (B * W, V), also (B,) or None -> log-probabilities (B, W, k), ids (B, W, k), or one more column with `also`
    """
    found = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(1)
    log_probabilities, ids = _largest(found, min(k, found.size(1)))
    if also is not None:
        wanted = torch.from_numpy(also.repeat(width)).to(ids.device)[:, None]
        log_probabilities = torch.cat((log_probabilities, found.gather(1, wanted)), 1)
        ids = torch.cat((ids, wanted), 1)
    both = torch.stack((log_probabilities, ids.to(found.dtype)))  # one transfer; exact, as ids are far below 2^24
    log_probabilities, ids = both.view(2, -1, width, ids.size(1)).numpy(force=True)
    return log_probabilities, ids.astype(np.int64)


def _largest(values: Tensor, k: int, chunk: int = 64) -> tuple[Tensor, Tensor]:
    """Return the k largest values of each row, best first, and their places. (R, V) -> (R, k), (R, k)

    They lie in the k chunks with the largest maxima. Finding those first is faster for several rows on a CPU.
    """
    rows, size = values.shape
    if size < 4 * k * chunk or rows < 8:
        return values.topk(k)
    whole = values[:, : size - size % chunk].unflatten(1, (-1, chunk))
    chunks = whole.amax(2).topk(k).indices
    places = (chunks[:, :, None] * chunk + torch.arange(chunk, device=values.device)).flatten(1)
    rest = torch.arange(size - size % chunk, size, device=values.device).expand(rows, -1)
    places = torch.cat((places, rest), 1)
    best, which = values.gather(1, places).topk(k)
    return best, places.gather(1, which)


def _chosen_rows(sources: IntArray, beams: IntArray, width: int) -> Tensor:
    """Return the cache rows that `Decoding.select` keeps; `width` is the number of beams per source.

    (B',), (B', W') -> (B' * W',)
    """
    return torch.from_numpy((sources[:, None] * width + beams).reshape(-1))


def _padded(sources: Sources, pad: int) -> Tensor:
    """-> (B, S), int64"""
    tokens = np.full((len(sources), max(map(len, sources))), pad, np.int64)
    for row, source in zip(tokens, sources):
        row[: len(source)] = source
    return torch.from_numpy(tokens)
