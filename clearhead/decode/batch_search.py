"""Check a batch engine's settings, and convert its answers to the form that `beam_search` returns."""

from collections.abc import Collection
from dataclasses import fields, replace

import numpy as np

from ..config import DecodeConfig
from ..errors import ConfigError
from .beams import Answers, Hypothesis, Request
from .engine import Batch, BatchEngine
from .rules import Rules

_GREEDY = DecodeConfig(beam=1, alpha=0.0)  # values that every engine supports
_HANDLED_BY_US = {
    "engine",
    "precision",
    "batch_tokens",
    "unknown",
    "max_extra",
    "max_len",
    "max_ratio",
    "suppress_special",
}
_OF_SAMPLING = {"temperature", "top_k", "top_p", "min_p", "seed"}
_OF_BEAM_SEARCH = {"beam", "alpha", "diverse"}


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
        settings: the settings that it supports.

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
