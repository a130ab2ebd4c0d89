"""Protocols for decoding engines, and what batch engines share. `search` drives step engines.

Engines are registered in `registry.ENGINES`. Axes: B live sentences, W beams per sentence, k candidates per beam.
"""

import os
from collections.abc import Collection, Container, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from typing import ClassVar, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np

from ..config import DecodeConfig, ModelConfig
from ..errors import ConfigError
from .beams import Answers, Hypothesis, Request
from .model_handle import ModelHandle
from .rules import FloatArray, IntArray, Rules, Sources

_GREEDY = DecodeConfig(beam=1, alpha=0.0)  # values that every engine supports
_HANDLED_BY_US = {"engine", "precision", "batch_tokens", "unknown"}
_HANDLED_BY_US |= {"max_extra", "max_len", "max_ratio", "suppress_special"}
_OF_SAMPLING = {"temperature", "top_k", "top_p", "min_p", "seed"}
_OF_BEAM_SEARCH = {"beam", "alpha", "diverse"}


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


def unsupported(settings: Collection[str], config: DecodeConfig) -> str:
    """Return the first setting in use that a batch engine with these `settings` doesn't support, or ""."""
    ignored = _OF_BEAM_SEARCH if config.sample else _OF_SAMPLING
    if config.beam == 1:
        ignored = ignored | {"alpha"}
    for field in fields(DecodeConfig):
        name, value, neutral = field.name, getattr(config, field.name), getattr(_GREEDY, field.name)
        if value != neutral and name not in {*_HANDLED_BY_US, *ignored, *settings}:
            return name
    return ""


def check_support(engine: str, settings: Collection[str], config: DecodeConfig) -> None:
    """Check that a batch engine supports every setting in use.

    Args:
        engine: the name of the engine, for the message.
        settings: the settings that it supports.
        config: the settings of a search.

    Raises:
        ConfigError: one of them isn't supported.
    """
    if name := unsupported(settings, config):
        value = getattr(config, name)
        what = f"decode.{name}={value!r} isn't supported by decode.engine={engine!r}"
        expected = f"decode.{name}={getattr(_GREEDY, name)!r} with this engine"
        fix = "set decode.engine='torch', which supports every setting"
        raise ConfigError(what, expected=expected, fix=fix, name=f"decode.{name}", value=value)


def decode_batch(engine: BatchEngine, batch: Batch, config: DecodeConfig, rules: Rules) -> Answers:
    """Return the answers to each source, best first. Answers are cut where they meet a stopping criterion.

    Args:
        engine: runs the search.
        batch: the sources (B) and a request for each.
        config: settings of the search.
        rules: give the length penalty of an answer that is cut. They don't constrain the engine.
    """
    found = engine.decode(batch, config)
    cut = [[_cut(answer, request, rules) for answer in some] for some, request in zip(found, batch.requests)]
    return [sorted(some, key=lambda answer: answer.sort_key) for some in cut]


def _cut(answer: Hypothesis, request: Request, rules: Rules) -> Hypothesis:
    """Return the answer up to the first token at which it should stop."""
    if request.should_stop is None:
        return answer
    ids = np.array(answer.ids, np.int64)
    for length in range(1, len(ids) + 1):
        if request.should_stop(ids[:length]):
            parts = answer.token_log_probabilities[:length]
            score = float(sum(parts) / rules.penalty(length))
            return replace(
                answer,
                ids=answer.ids[:length],
                score=score,
                log_probability=sum(parts),
                token_log_probabilities=parts,
                finished=True,
            )
    return answer
