"""Protocols for decoding engines. `search` drives step engines; batch engines run their own search.

Engines are registered in `registry.ENGINES`. Axes: B live sentences, W beams per sentence, k candidates per beam.
"""

import os
from collections.abc import Container, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self, TypeAlias, runtime_checkable

from ..config import DecodeConfig, ModelConfig
from .beams import Answers, Request
from .model_handle import ModelHandle
from .rules import FloatArray, IntArray, Rules, Sources


class Decoding(Protocol):
    """A batch being decoded: B sources in order, with W beams each (W = 1 after `prefill`)."""

    def step(self, tokens: IntArray, k: int, also: IntArray | None = None) -> tuple[FloatArray, IntArray]:
        """Append a token to every beam, and return its k most likely successors in any order.

        Args:
            tokens: (B, W)
            k: number of successors per beam; may exceed the vocabulary size.
            also: an extra token for each sentence (B,), returned for all of its beams as the last column.

        Returns:
            Log-probabilities (B, W, k) and token ids (B, W, k).
        """

    def select(self, sources: IntArray, beams: IntArray) -> None:
        """Keep only these sources, in ascending order. New beam w of the i-th one continues its old beam `beams[i, w]`.

        (B',), (B', W')
        """


@runtime_checkable
class JoinableDecoding(Decoding, Protocol):
    """A decoding that others can join. Without this, sources that arrive later are decoded next to it."""

    def join(self, other: Self) -> None:
        """Append the sources of a decoding of the same engine that hasn't taken a step, and is not used any more.

        Each of its sources gets as many beams as there are here, all alike. The steps left are the most of both.
        """


@runtime_checkable
class StepEngine(Protocol):
    """An engine that predicts one token at a time. Greedy search, beam search and sampling come from `decode`."""

    def prefill(self, sources: Sources, steps: int) -> AbstractContextManager[Decoding]:
        """Read B sources of any lengths, to be decoded for at most `steps` steps inside the `with` block."""


@runtime_checkable
class SearchEngine(StepEngine, Protocol):
    """A step engine that can also run a whole search in one call, which is faster."""

    def search(self, batch: "Batch", rules: Rules) -> Answers | None:
        """Return what `beam_search` returns, or None if this search needs single steps."""


@dataclass(frozen=True)
class Batch:
    """Input of a batch engine, or of a search.

    `start` is the token before each output. `suppress` lists tokens that are never generated, special tokens included.
    If `scored` is False, only the tokens of the best answers are needed: their scores may be rough, and the
    log-probabilities of their tokens left out.
    """

    sources: Sources
    start: IntArray  # (B,)
    requests: Sequence[Request]
    suppress: tuple[int, ...]
    scored: bool = True


@runtime_checkable
class BatchEngine(Protocol):
    """An engine that runs its own search.

    Every batch engine respects `max_steps`, `max_len` and `prefix` of a request. It can ignore `should_stop`, because
    answers are cut afterwards.
    """

    name: ClassVar[str]
    """The name in the registry, for messages."""
    settings: ClassVar[frozenset[str]]
    """Names of the supported `DecodeConfig` settings, except those that only set a maximum length."""

    def decode(self, batch: Batch, config: DecodeConfig) -> Answers:
        """Return up to `config.n_best` answers for each source, best first."""


class Windowed(Protocol):
    """Additional properties of engines for decoder-only models.

    Each source is a text without its last token, which is the first input of `step`, or `Batch.start`. Texts may be
    longer than the context window.
    """

    @property
    def max_len(self) -> int:
        """Size of the context window in tokens."""

    @property
    def overflow(self) -> str:
        """Description of how longer texts are read."""


class WindowedStepEngine(StepEngine, Windowed, Protocol):
    """A step engine for decoder-only models."""


class WindowedBatchEngine(BatchEngine, Windowed, Protocol):
    """A batch engine for decoder-only models."""


Engine: TypeAlias = StepEngine | BatchEngine
WindowedEngine: TypeAlias = WindowedStepEngine | WindowedBatchEngine


class EngineClass(Protocol):
    """Class methods that the registry needs to open an engine.

    An engine whose first use takes long also has `waits(decode, is_converted)`, which returns what it has to do first,
    or "". `is_converted` tells whether the model exists in a format. `auto` doesn't choose such an engine. If it has to
    do the same for all models, `prepare()` does it, `prepare_later()` lets another process do it, and `is_preparing()`
    tells whether that's still at work. A batch engine can list in `exact` the settings with which it has the answers of
    torch (default: all in `settings`).
    """

    @classmethod
    def obstacle(cls, config: ModelConfig, device: str, formats: Container[str]) -> str:
        """Return the reason why the engine can't run a model with this config on this device, or "" if it can.

        Args:
            config: the model's architecture.
            device: a torch device, such as "cpu" or "cuda".
            formats: formats that the model can be converted to (see `ModelHandle.converted`).
        """

    @classmethod
    def open(cls, model: ModelHandle) -> Engine:
        """Return an engine for the model.

        An engine that computes in other precisions than fp32 lists all of them in `precisions`, and takes one as its
        second argument.
        """


def cpu_obstacle(device: str) -> str:
    """Return why an engine of the CPU can't run on this device, or ""."""
    return "" if device == "cpu" else "it runs on the CPU only"


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def engine_threads() -> int:
    """Return the number of threads for an engine: one a core, or OMP_NUM_THREADS."""
    threads = os.environ.get("OMP_NUM_THREADS", "")
    return int(threads) if threads.isdecimal() and int(threads) else usable_cores()
