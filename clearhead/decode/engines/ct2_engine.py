"""Batch engine that runs greedy and beam search in CTranslate2, without torch.

CTranslate2 searches without a length penalty and returns every hypothesis of the beam. They're ranked here, as
`beam_search` ranks its own.
"""

import importlib.util
import math
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Self

from ...config import DecodeConfig, ModelConfig
from ...config.custom_code import is_custom
from ...errors import DataError
from ..beams import Answers, Hypothesis
from ..engine import Batch, cpu_obstacle, engine_threads
from ..model_handle import ModelHandle
from ..rules import Rules
from ..search import nan_error

SOURCE_END = "end"  # name of EOS in a source: one that has only its usual name would be skipped as empty
_TOPOLOGIES = ("encoder-decoder", "decoder-only")
ACTIVATIONS: Mapping[str, int] = MappingProxyType(
    {"relu": 0, "gelu_tanh": 1, "silu": 2, "gelu": 3, "swiglu": 2, "geglu": 1}
)  # numbers of activations; those of gated networks are the gate's
_POSITIONS = ("sinusoidal", "sinusoidal_halves", "learned", "rotary")
_TYPES = {"fp32": "float32", "int8": "int8_float32"}  # what CTranslate2 computes in, by precision


@dataclass(frozen=True)
class _Found:
    """A hypothesis. Its total leaves out tokens that CTranslate2 didn't choose: a prefix, or an end that was forced."""

    place: int
    ids: tuple[int, ...]
    total: float
    finished: bool
    incomplete: bool


class _Scored(NamedTuple):
    """Tokens to score: a source, and an output, with its end token if it's finished."""

    source: Sequence[int]
    start: int
    output: tuple[int, ...]


class Ct2Engine:
    """Runs encoder-decoder and decoder-only models on the CPU. Each core decodes different sources.

    Args:
        runner: a `Translator` or a `Generator`. The names of its tokens are their ids.
        cores: number of batches that the runner decodes at the same time.
    """

    name: ClassVar[str] = "ct2"
    settings: ClassVar[frozenset[str]] = frozenset({"beam", "alpha", "n_best", "min_len", "min_ratio", "suppress"})
    exact: ClassVar[frozenset[str]] = settings - {"beam"}
    precisions: ClassVar[tuple[str, ...]] = tuple(_TYPES)
    own_threads: ClassVar[bool] = True

    def __init__(self, config: ModelConfig, runner: Any, cores: int) -> None:
        self.runner, self.cores, self.max_len = runner, cores, config.max_len
        self.eos, self.prompts = config.special.eos, config.topology == "decoder-only"
        self.names = [str(i) for i in range(max(config.src_vocab_size, config.tgt_vocab_size))]

    @classmethod
    def obstacle(cls, config: ModelConfig, device: str, formats: Container[str]) -> str:
        """Return the reason why a model can't run here, or "".

        Args:
            config: the model's architecture.
            device: a torch device; the engine runs on "cpu" only.
            formats: formats that the model can be converted to. It needs that of CTranslate2.
        """
        if importlib.util.find_spec("ctranslate2") is None:
            return "it needs CTranslate2: pip install ctranslate2"
        return (
            cpu_obstacle(device)
            or ct2_obstacle(config)
            or (f"it doesn't support model.more_eos_ids={config.more_eos_ids}" if config.more_eos_ids else "")
            or ("" if _format("fp32") in formats else "it needs a model folder")
        )

    @classmethod
    def waits(cls, decode: DecodeConfig, is_converted: Callable[[str], bool]) -> str:
        return "" if is_converted(_format(decode.precision)) else "its first use converts the model"

    @classmethod
    def open(cls, model: ModelHandle, precision: str = "fp32") -> Self:
        """Return an engine for the model. It uses all cores, or OMP_NUM_THREADS."""
        folder, cores = model.converted(_format(precision)), engine_threads()
        return cls(model.config, load_runner(model.config, folder, cores, precision), cores)

    @property
    def overflow(self) -> str:
        return "not at all"

    def decode(self, batch: Batch, config: DecodeConfig) -> Answers:
        self._check_room(batch)
        limits = [min(it.max_steps, it.max_len or it.max_steps) for it in batch.requests]
        # If prompts differed in length, CTranslate2 would repeat the ends of longer ones in their answers.
        lengths = map(len, batch.sources) if self.prompts else [0] * len(limits)
        alike = [(it.min_len, len(it.prefix), length) for it, length in zip(batch.requests, lengths)]
        begun = [
            (places, limit := max(limits[i] for i in places), self._begin(batch, places, config.beam, limit))
            for places in _grouped(range(len(limits)), alike)
        ]
        found: dict[int, list[_Found]] = {}
        for places, limit, results in begun:
            found |= self._read(batch, places, limit, results)
            late = [i for i in places if limits[i] < limit and any(len(it.ids) >= limits[i] for it in found[i])]
            for again in _grouped(late, limits):  # with their own limit
                own = limits[again[0]]
                found |= self._read(batch, again, own, self._begin(batch, again, config.beam, own))
        return self._answers(batch, found, config)

    def _check_room(self, batch: Batch) -> None:
        """Raise DataError if a text and its continuation are longer than the context window."""
        for source, request in zip(batch.sources, batch.requests):
            if self.prompts and len(source) + request.max_steps > self.max_len:
                length, new = len(source) + 1, request.max_steps
                raise DataError(
                    f"a prompt of {length:,} tokens with {new:,} new ones is too long for model.max_len={self.max_len}",
                    expected=f"at most {self.max_len + 1:,} tokens together with decode.engine='ct2'",
                    fix="set decode.max_len to a smaller number, or decode.engine='torch'",
                    name="prompt",
                    value=length,
                )

    def _begin(self, batch: Batch, places: Sequence[int], beam: int, limit: int) -> list[Any]:
        """Start a search for answers of at most `limit` steps to similar sources. Return the pending results."""
        request = batch.requests[places[0]]
        options: dict[str, Any] = {
            "beam_size": beam,
            "num_hypotheses": beam,
            "length_penalty": 0,
            "suppress_sequences": [[self.names[i]] for i in batch.suppress],
            "return_scores": True,
            "max_batch_size": -(-len(places) // self.cores),
            "asynchronous": True,
        }
        prefixes = [batch.requests[i].prefix for i in places]
        if not self.prompts:
            options |= {"max_decoding_length": limit, "min_decoding_length": request.min_len, "max_input_length": 0}
            options |= {"target_prefix": [self._named(it) for it in prefixes]} if request.prefix else {}
            sources = [self._source(batch.sources[i]) for i in places]
            return list(self.runner.translate_batch(sources, **options))
        new, least = limit - len(request.prefix), max(0, request.min_len - len(request.prefix))
        if not new:  # CTranslate2 would generate a token
            return []
        options |= {"max_length": new, "min_length": least, "include_prompt_in_result": False}
        texts = [self._named([*batch.sources[i], batch.start[i], *it]) for i, it in zip(places, prefixes)]
        return list(self.runner.generate_batch(texts, **options))

    def _named(self, ids: Iterable[int]) -> list[str]:
        return [self.names[i] for i in ids]

    def _source(self, ids: Iterable[int]) -> list[str]:
        return [SOURCE_END if i == self.eos else self.names[i] for i in ids]

    def _read(self, batch: Batch, places: Sequence[int], limit: int, results: Sequence[Any]) -> dict[int, list[_Found]]:
        """Wait for the results of a search, and return the hypotheses by their places."""
        if not results:
            return {i: [self._found(batch, i, batch.requests[i].prefix, 0.0, limit)] for i in places}
        found: dict[int, list[_Found]] = {}
        for i, it in zip(places, (result.result() for result in results)):
            before = batch.requests[i].prefix if self.prompts else ()
            outputs = [(*before, *map(int, it)) for it in (it.sequences if self.prompts else it.hypotheses)]
            found[i] = [self._found(batch, i, ids, total, limit) for ids, total in zip(outputs, it.scores)]
        return found

    def _found(self, batch: Batch, place: int, ids: tuple[int, ...], total: float, limit: int) -> _Found:
        request = batch.requests[place]
        cut = next((at for at, token in enumerate(ids) if token in batch.suppress), None)
        # Every token was forbidden. If probabilities are NaN, scoring the answer raises an error.
        if cut is not None and cut >= len(request.prefix) and not math.isnan(total):
            return _Found(place, ids[:cut], total, finished=False, incomplete=True)
        forced = len(ids) == request.max_len == limit < request.max_steps  # to end, and not cut off
        return _Found(place, ids, total, len(ids) < limit or forced, forced or bool(request.prefix))

    def _answers(self, batch: Batch, found: dict[int, list[_Found]], config: DecodeConfig) -> Answers:
        """Keep the best hypotheses of each source, with the model's own scores if they're needed.

        CTranslate2's totals are of the tokens that weren't suppressed, as if the model gave the others nothing.
        """
        rules, width = Rules(eos=self.eos, alpha=config.alpha), config.beam if config.n_best > 1 else 1
        every = [it for some in found.values() for it in some]
        if not any(it.incomplete for it in every):
            best = (sorted(some, key=lambda it: _rank(it, rules))[:width] for some in found.values())
            every = [it for some in best for it in some]
        answers = Answers([] for _ in batch.sources)
        if not batch.scored and len(every) == len(answers) and not any(math.isnan(it.total) for it in every):
            for it in every:
                score = float(it.total / rules.penalty(len(it.ids) + it.finished))
                answers[it.place].append(Hypothesis(it.ids, score, it.total, (), it.finished))
            return answers
        for it, parts in zip(every, self._score([_scored(batch, it, self.eos) for it in every])):
            total = sum(parts) if parts else -math.inf  # without a token, every one was forbidden
            score = float(total / rules.penalty(len(parts)))
            answers[it.place].append(Hypothesis(it.ids, score, total, parts, it.finished))
        return [sorted(some, key=lambda answer: answer.sort_key)[:width] for some in answers]

    def _score(self, rows: Sequence[_Scored]) -> list[tuple[float, ...]]:
        """Return the log-probabilities of outputs. Raise ModelError if one of them is NaN."""
        size = -(-len(rows) // self.cores)
        if self.prompts:
            texts = [self._named((*row.source, row.start, *row.output)) for row in rows]
            results = self.runner.score_batch(texts, max_input_length=0, max_batch_size=size)
            found = [it.log_probs[len(it.log_probs) - len(row.output) :] for it, row in zip(results, rows)]
        else:
            sources = [self._source(row.source) for row in rows]
            outputs = [self._named(row.output[: len(row.output) - (row.output[-1:] == (self.eos,))]) for row in rows]
            results = self.runner.score_batch(sources, outputs, max_input_length=0, max_batch_size=size)
            found = [it.log_probs[: len(row.output)] for it, row in zip(results, rows)]
        for place, parts in enumerate(found):
            if any(map(math.isnan, parts)):
                raise nan_error(next(i for i, it in enumerate(parts, 1) if math.isnan(it)), place)
        return [tuple(map(float, parts)) for parts in found]


def _rank(it: _Found, rules: Rules) -> tuple[bool, float]:
    return not it.finished, -it.total / float(rules.penalty(len(it.ids) + it.finished))


def _scored(batch: Batch, it: _Found, eos: int) -> _Scored:
    output = (*it.ids, eos) if it.finished else it.ids
    return _Scored(batch.sources[it.place], int(batch.start[it.place]), output)


def _grouped(places: Iterable[int], keys: Sequence[Hashable]) -> list[list[int]]:
    """Return the places with equal keys together."""
    groups: dict[Hashable, list[int]] = {}
    for place in places:
        groups.setdefault(keys[place], []).append(place)
    return list(groups.values())


def load_runner(config: ModelConfig, folder: Path, cores: int, precision: str = "fp32") -> Any:
    """Load a model in CTranslate2's form, a `Translator` or a `Generator`.

    Args:
        config: the model's architecture.
        folder: the converted model.
        cores: number of batches that it decodes at the same time, with one thread each.
        precision: what it computes in, "fp32" or "int8".
    """
    import ctranslate2

    kind = ctranslate2.Generator if config.topology == "decoder-only" else ctranslate2.Translator
    return kind(str(folder), compute_type=_TYPES[precision], inter_threads=cores, intra_threads=1)


def _format(precision: str) -> str:
    """Return the name of the format that the model is converted to."""
    return f"ct2-{precision}"


def ct2_obstacle(config: ModelConfig) -> str:
    """Return the reason why CTranslate2 can't run a model with this config, or "" if it can."""
    if config.topology not in _TOPOLOGIES:
        return f"it doesn't support model.topology={config.topology!r}"
    for setting, supported in (
        ("front", config.front == "tokens"),
        ("copy", not config.copy),
        ("attention", config.attention == "softmax"),
        ("positions", config.positions in _POSITIONS),
        ("feed_forward", config.feed_forward in ACTIVATIONS),
        ("norm", not is_custom(config.norm)),
        ("window", config.window is None),
        ("rotary", ":" not in config.rotary),
    ):
        if not supported:
            return f"it doesn't support model.{setting}={getattr(config, setting)!r}"
    return ""
