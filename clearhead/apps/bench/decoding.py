"""Measure how many tokens per second a model decodes, by engine, precision, beam and batch."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle

import numpy as np

from ...decode.registry import AUTO, choice_for, open_engine, precisions_of, usable_engines
from ...decode.session import Session
from ...errors import ConfigError
from ...loading import LoadedModel
from .machine import Machine

CELLS = ((1, 1), (4, 1), (1, 32), (4, 32))  # beam, batch
_LENGTHS = (4, 30)  # of the sources, in tokens
_N = 32  # sources
_SECONDS = 0.5  # for each cell, at least


@dataclass(frozen=True)
class Rate:
    """The speed of an engine.

    Attributes:
        engine, precision, beam, batch: what was measured.
        tokens: tokens of the answers per second.
        share: tokens as a share of the machine's limit.
    """

    engine: str
    precision: str
    beam: int
    batch: int
    tokens: float
    share: float


def step_weights(loaded: LoadedModel) -> int:
    """Return the number of weights that each decoding step multiplies: those of the decoder and of the projection.

    Keys and values of the source are computed only once.
    """
    shapes = {name: weight.shape for name, weight in loaded.handle.weights().items()}
    blocks = [name for name in shapes if name.startswith(("decoder.blocks.", "blocks."))]
    count = sum(int(np.prod(shapes[name])) for name in blocks if "cross_attention.kv." not in name)
    return count + loaded.config.model.tgt_vocab_size * loaded.config.model.d_model


def measure(loaded: LoadedModel, machine: Machine, say: Callable[[str], None]) -> Iterator[list[Rate]]:
    """Yield the rates of each engine and precision that can run the model, in the order of `CELLS`.

    Every answer is as long as its source, so all engines have the same work.

    Args:
        loaded: the model, with random sources in place of texts.
        machine: limits measured with the model's `step_weights`.
        say: receives a message before each measurement, which takes some seconds.

    Raises:
        ConfigError: the model doesn't write text, or doesn't read text.
    """
    model = loaded.config.model
    if model.topology == "encoder-only" or model.front != "tokens":
        what, expected = "only the decoding of texts can be measured", "a model that reads text and writes text"
        raise ConfigError(what, expected=expected, name="model.topology", value=model.topology)
    sources = _sources(loaded)
    for name in usable_engines(model, loaded.handle.device, loaded.handle.formats):
        for precision in precisions_of(name, model):
            say(f"measuring {name} in {precision}")
            yield [_rate(loaded, machine, sources, name, precision, beam, batch) for beam, batch in CELLS]


def best(rates: Sequence[Rate]) -> Rate:
    """Return the rate of the fastest engine for a beam of 4 and a batch of 32."""
    return max((it for it in rates if (it.beam, it.batch) == (4, 32)), key=lambda it: it.tokens)


def chosen(loaded: LoadedModel) -> str:
    """Return the name of the engine that `auto` chooses for a beam of 4."""
    decode = loaded.override({"decode.engine": AUTO, "decode.beam": 4, "decode.precision": "fp32"}).config.decode
    return choice_for(loaded.handle, decode).name


def _sources(loaded: LoadedModel) -> list[list[int]]:
    """Return random sources of different lengths."""
    rng, model = np.random.default_rng(0), loaded.config.model
    size = model.tgt_vocab_size if model.topology == "decoder-only" else model.src_vocab_size
    special = set(model.special.ids)
    tokens = [it for it in range(size) if it not in special] or [0]
    longest = min(_LENGTHS[1], model.max_len // 2 - 1)
    lengths = rng.integers(min(_LENGTHS[0], longest), longest + 1, _N).tolist()
    return [rng.choice(tokens, length).tolist() for length in lengths]


def _rate(
    loaded: LoadedModel, machine: Machine, sources: list[list[int]], engine: str, precision: str, beam: int, batch: int
) -> Rate:
    same_length = {"decode.min_ratio": 1.0, "decode.max_ratio": 1.0, "decode.max_extra": 2}
    plain = {"decode.n_best": 1, "decode.diverse": False, "decode.sample": False, "decode.batch_tokens": 10**6}
    settings = {"decode.engine": engine, "decode.precision": precision, "decode.beam": beam}
    decode = loaded.override(same_length | plain | settings).config.decode
    special = loaded.config.model.special
    session = Session(open_engine(loaded.handle, decode), decode, special, max_len=loaded.config.model.max_len)
    session.scored = False
    batches = [sources[i : i + batch] for i in range(0, len(sources), batch)]
    session.answers(batches[0])  # opens the engine's files and compiles what it needs
    tokens, begun, used = 0, time.perf_counter(), 0.0
    for texts in cycle(batches):
        session.answers(texts)
        tokens += sum(map(len, texts)) + len(texts)  # with their end tokens
        used = time.perf_counter() - begun
        if used > _SECONDS:
            break
    limit = machine.limit(precision, batch * beam) * batch
    return Rate(engine, precision, beam, batch, tokens / used, tokens / used / limit)
