"""Step engine of plain loops, compiled just in time. It runs a greedy or beam search in one call."""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain

import numpy as np

from ....config.messages import say
from ....errors import ModelError, beyond_vocabulary
from ...beams import Hypothesis, Request
from ...engine import Batch, engine_threads
from ...model_handle import ModelHandle
from ...rules import FloatArray, IntArray, Rules
from . import jit, whole_search
from . import stack_parts as parts
from .beam_loops import read_prompt
from .machine_code import is_compiled, mark_used, remove_unused
from .stacks import CacheArrays, new_cache, project, read, remember
from .weight_arrays import Model, load_model

_POSITIONS = 128  # rows of the first table of positions; it grows when a longer text comes


class LoopsEngine:
    """Runs encoder-decoder and decoder-only models on the CPU, without torch.

    Args:
        handle: the model.
        threads: number of threads, which decode different sources.
        precision: that of the linear layers.
    """

    def __init__(self, handle: ModelHandle, threads: int, precision: str = "fp32") -> None:
        self.handle, self.config, self.threads, self.max_len = handle, handle.config, threads, handle.config.max_len
        self.int8 = precision == "int8"
        self.model = load_model(self.config, handle.weights(), _POSITIONS, int8=self.int8)

    def compile(self) -> None:
        """Compile the search if that hasn't been done on this machine, and say so."""
        if not jit.enabled():
            return
        if is_compiled():
            mark_used()
            return
        say("compiling the engine loops for this machine, once; this takes about half a minute")
        begun, special = time.monotonic(), self.config.special
        batch = Batch([[special.eos]], np.array([special.start]), [Request(max_steps=1)], ())
        self.search(batch, Rules(eos=special.eos))
        say(f"compiled in {time.monotonic() - begun:.0f} s")
        remove_unused()

    @property
    def overflow(self) -> str:
        """Description of how texts longer than the context window are read."""
        if self.model.decoder.shape.ring:
            return f"a ring buffer of the newest {self.max_len:,} tokens"
        half = max(1, self.max_len // 2)
        return f"whenever {self.max_len:,} tokens fill the window, the newest {half:,} are read again"

    def search(self, batch: Batch, rules: Rules) -> list[list[Hypothesis]] | None:
        """Do what `beam_search` does, in one call. Return None if this search needs single steps."""
        if not whole_search.supports(batch, rules):
            return None
        prefixes = (it.prefix for it in batch.requests)
        self.check_tokens(batch.sources, [batch.start.tolist(), [rules.eos], *prefixes])
        longest = max(map(len, batch.sources)) if self.model.decoder.shape.cross else 0
        self.reserve_positions(max(longest, whole_search.capacity(self.model, batch)))
        return whole_search.run(self.model, batch, rules, min(self.threads, engine_threads()))

    @contextmanager
    def prefill(self, sources: Sequence[Sequence[int]], steps: int) -> Iterator["LoopsDecoding"]:
        """Read B sources. Those of a language model are texts without their last token."""
        if not self.model.decoder.shape.cross:
            sources = [source[max(0, len(source) - self.max_len + 1) :] for source in sources]
        self.check_tokens(sources)
        longest = max(map(len, sources))
        capacity = steps if self.model.decoder.shape.cross else min(longest + steps, self.max_len)
        self.reserve_positions(max(longest, capacity))
        yield LoopsDecoding(self.model, sources, capacity)

    def check_tokens(self, sources: Iterable[Iterable[int]], outputs: Iterable[Iterable[int]] = ()) -> None:
        """Raise ModelError if a token is beyond its vocabulary, since the loops don't check where they read."""
        reader = self.model.encoder if self.model.decoder.shape.cross else self.model.decoder
        for stack, texts in ((reader, sources), (self.model.decoder, outputs)):
            size = int(stack.places[0, parts.EMBEDDING, 1])
            for token in {*chain.from_iterable(texts)}:
                if not 0 <= token < size:
                    raise beyond_vocabulary(token, size)

    def reserve_positions(self, length: int) -> None:
        """Extend the table of positions to this many tokens, if the model has one."""
        held = int(self.model.decoder.places[0, parts.POSITIONS, 1])
        if not held or held >= length:
            return
        if length > self.max_len:
            raise ModelError(
                f"a text of {length:,} tokens is longer than model.max_len={self.max_len:,}",
                fix="shorten the text, or train with a larger model.max_len",
                name="model.max_len",
                value=length,
            )
        self.model = load_model(self.config, self.handle.weights(), max(length, 2 * held), int8=self.int8)


class LoopsDecoding:
    """A batch being decoded: rows b * W to b * W + W - 1 of the cache are the beams of source b."""

    def __init__(self, model: Model, sources: Sequence[Sequence[int]], capacity: int) -> None:
        """`capacity` is the maximum number of tokens of a text in the cache."""
        self.model, self.width, n = model, 1, len(sources)
        self.shape = model.decoder.shape
        self.cache = new_cache(model.decoder, n, 1, capacity, max(map(len, sources)) if self.shape.cross else 1)
        self.held = np.zeros(n, np.int64)  # tokens of each row in the cache
        self.texts = [[] if self.shape.cross else list(source) for source in sources]
        for place, source in enumerate(sources):
            text = np.array(source, np.int64)
            if self.shape.cross:
                remember(*model, text, place, self.cache)
            else:
                read_prompt(model.decoder, text, place, self.cache)
                self.held[place] = len(text)

    def step(self, tokens: IntArray, k: int, also: IntArray | None = None) -> tuple[FloatArray, IntArray]:
        """Append a token to each beam, and return the k most likely next tokens.

        (B, W) -> log-probabilities (B, W, k), ids (B, W, k). With `also` (B,), one more column has that token.
        """
        for text, token in zip(self.texts, tokens.reshape(-1).tolist()):
            text.append(token)
        tabled = not (self.shape.ring or self.shape.cross)
        full = (self.held == self.shape.max_len) & tabled
        states = np.empty((tokens.size, self.shape.d_model), np.float32)
        for row in np.flatnonzero(full).tolist():
            states[row] = self._read_again(row)
        places = np.flatnonzero(~full)
        rows = np.stack((tokens.reshape(-1)[places], places, places // self.width, self.held[places]), 1)
        states[places] = read(self.model.decoder, rows, self.cache)
        self.held[places] += 1
        logits = np.empty((len(states), self.model.decoder.places[0, parts.PROJECTION, 1]), np.float32)
        project(states, self.model.decoder, logits)
        log_probabilities, ids = _top(logits, k, None if also is None else also.repeat(self.width))
        shape = (len(tokens), self.width, -1)
        return log_probabilities.reshape(shape), ids.reshape(shape)

    def select(self, sources: IntArray, beams: IntArray) -> None:
        """Keep these sources, and these beams of each. A beam may be repeated. (B',), (B', W')"""
        rows = (sources[:, None] * self.width + beams).reshape(-1)
        past, history, memory, memory_rows, lengths = self.cache
        own = np.arange(len(rows))[:, None].repeat(history.shape[1], 1)  # a row's past is copied to it
        numbers = memory_rows[: len(sources)]
        self.cache = CacheArrays(past[:, :, rows], own, memory[:, :, sources], numbers, lengths[sources])
        self.held, self.texts = self.held[rows], [list(self.texts[row]) for row in rows]
        self.width = beams.shape[1]

    def _read_again(self, row: int) -> FloatArray:
        """Read the newest half of a text from position 0, and return its last state (1, D)."""
        half = max(1, int(self.shape.max_len) // 2)
        self.held[row] = half
        return read_prompt(self.model.decoder, np.array(self.texts[row][-half:], np.int64), row, self.cache)


def _top(logits: FloatArray, k: int, also: IntArray | None) -> tuple[FloatArray, IntArray]:
    """Return log-probabilities and ids of the k most likely tokens, and of `also`. (R, V), (R,) -> (R, k), (R, k)"""
    highest = logits.max(1, keepdims=True)
    normalizer = highest + np.log(np.exp(logits - highest).sum(1, keepdims=True))
    k = min(k, logits.shape[1])
    ids = np.argpartition(-logits, k - 1, axis=1)[:, :k]
    if also is not None:
        ids = np.concatenate((ids, also[:, None]), 1)
    return np.take_along_axis(logits, ids, 1) - normalizer, ids
