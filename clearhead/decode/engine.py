"""Protocols for decoding engines: step engines, which `search` drives, and batch engines, which search themselves.

An engine class is named in `registry.ENGINES`. Axes: B live sentences, W beams per sentence, k candidates per beam.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from ..config import DecodeConfig, ModelConfig
from .beams import Hypothesis, Request
from .model_handle import ModelHandle
from .rules import FloatArray, IntArray


class Decoding(Protocol):
    """A batch being decoded: B sources in order, each with the same number W of beams (1 after `prefill`)."""

    def step(self, tokens: IntArray, k: int, also: IntArray | None = None) -> tuple[FloatArray, IntArray]:
        """Append a token to every beam, and return its k most likely successors in any order.

        Args:
            tokens: (B, W)
            k: successors per beam; the vocabulary may hold fewer.
            also: one more successor to return for every beam of a sentence, in the last column (B,).

        Returns:
            Log-probabilities (B, W, k) and token ids (B, W, k).
        """

    def select(self, sources: IntArray, beams: IntArray) -> None:
        """Keep these sources, in ascending order. Beam w of the i-th one continues its beam `beams[i, w]`.

        (B',), (B', W')
        """


@runtime_checkable
class StepEngine(Protocol):
    """An engine that predicts one token at a time. Greedy search, beam search and sampling come from `decode`."""

    def prefill(self, sources: Sequence[Sequence[int]], steps: int) -> AbstractContextManager[Decoding]:
        """Read B sources of any lengths, and decode them for at most `steps` steps inside the `with` block."""


@dataclass(frozen=True)
class Batch:
    """The input of a batch engine: the sources, the token that starts each output, and each output's request.

    `suppress` lists the tokens never to generate, special tokens included.
    """

    sources: Sequence[Sequence[int]]
    start: IntArray  # (B,)
    requests: Sequence[Request]
    suppress: tuple[int, ...]


@runtime_checkable
class BatchEngine(Protocol):
    """An engine that searches by itself.

    Every batch engine honours `max_steps`, `max_len` and `prefix` of a request. It can ignore `should_stop`, because
    answers are cut afterwards.
    """

    @property
    def name(self) -> str:
        """The name in the registry, for messages."""

    @property
    def settings(self) -> frozenset[str]:
        """The names of the `DecodeConfig` settings that it supports. Those that only set a maximum length needn't be
        listed."""

    def decode(self, batch: Batch, config: DecodeConfig) -> list[list[Hypothesis]]:
        """Return up to `config.n_best` answers for each source, best first."""


class Windowed(Protocol):
    """Additional interface of engines for decoder-only models.

    The sources are texts without their last token, which comes as `start`. A text can exceed the context window.
    """

    @property
    def max_len(self) -> int:
        """Size of the context window in tokens."""

    @property
    def overflow(self) -> str:
        """Describe how longer texts are read."""


class WindowedStepEngine(StepEngine, Windowed, Protocol):
    """A step engine for decoder-only models."""


class WindowedBatchEngine(BatchEngine, Windowed, Protocol):
    """A batch engine for decoder-only models."""


Engine: TypeAlias = StepEngine | BatchEngine
WindowedEngine: TypeAlias = WindowedStepEngine | WindowedBatchEngine


class EngineClass(Protocol):
    """The interface of an engine class for the registry."""

    @classmethod
    def obstacle(cls, config: ModelConfig, device: str) -> str:
        """Return why the engine can't run such a model on this device, or "" if it can."""

    @classmethod
    def open(cls, model: ModelHandle) -> Engine:
        """Return the engine, ready to decode with the model."""
