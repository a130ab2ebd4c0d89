"""Decoding sessions, which decode sequences in batches and return the answers in the original order."""

import hashlib
import math
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

import numpy as np

from ..config import DecodeConfig, SpecialTokens
from ..config.front_geometry import audio_positions
from ..errors import ConfigError, DataError
from .beams import Answers, Hypothesis, Observe, Request
from .engine import Batch, BatchEngine, Decoding, Engine, SearchEngine, StepEngine, check_support, decode_batch
from .rules import IntArray, Rules, Sources
from .sampling import Sampler, Sampling
from .search import Search, beam_search

MIN_LENGTH = 8  # shorter sources count as this many tokens in a batch, since the cost of a row doesn't shrink further
MAX_TOKENS = 2**31  # more than any output has
_EVERY = 2**31  # more candidates than any vocabulary has


class Session:
    """Sorts sequences by length, decodes them in batches, and returns the answers in the original order.

    A batch has at most `config.batch_tokens` tokens: sources times beams times the longest source. Batching doesn't
    change the answers, except for rounding in the engine.

    Args:
        engine: see `open_engine`.
        max_len: context length of the model, end token included.
        suppress: tokens that are never generated (default: the special ones); see `Tokenizer.suppressed`.
        detokenize: if given, a search for several answers returns each text only once.

    Raises:
        ConfigError: the engine doesn't support one of the settings.
    """

    def __init__(
        self,
        engine: Engine,
        config: DecodeConfig,
        special: SpecialTokens,
        *,
        max_len: int | None = None,
        suppress: Sequence[int] | None = None,
        detokenize: Callable[[Sequence[int]], str] | None = None,
    ) -> None:
        if isinstance(engine, BatchEngine):
            check_support(engine.name, engine.settings, config)
        self.engine, self.config, self.special, self.max_len = engine, config, special, max_len
        self.scored = True
        """Whether answers need scores, which a batch engine may have to compute separately."""
        self.detokenize = None if config.sample or config.n_best == 1 else detokenize
        self.width = config.n_best if config.sample else config.beam
        self.diverse = config.diverse and config.n_best > 1
        self.rules = Rules(
            eos=special.eos,
            more_eos=special.more_eos,
            suppress=special.never_generated if suppress is None else tuple(suppress),
            beam=self.width,
            alpha=config.alpha,
            n_best=1 if self.diverse else config.n_best,
            detokenize=None if self.diverse else self.detokenize,
            no_repeat_ngram=config.no_repeat_ngram,
            repetition_penalty=config.repetition_penalty,
            pool=(config.top_k or _EVERY) if config.sample else 0,
        )

    def answers(self, sources: Sources, observe: Observe | None = None, prefix: Sequence[int] = ()) -> Answers:
        """Return the hypotheses for each source, best first.

        Args:
            sources: token ids without the end token; a source may be empty.
            prefix: the tokens that every answer starts with.
            observe: called with every step of the search. With `diverse`, the search for first tokens is left out.
        """
        found = dict(self.stream(sources, prefix, observe))
        return [found[place] for place in range(len(sources))]

    def stream(
        self, sources: Sources, prefix: Sequence[int] = (), observe: Observe | None = None
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Yield (index, hypotheses) for each source as soon as its batch is done, longest sources first.

        Args:
            sources: token ids of each source, without an end token.
            prefix: token ids that every answer starts with.
            observe: called with every step of the search.

        Raises:
            DataError: a source or the prefix is too long for the model; raised before anything is decoded.
            ConfigError: `observe` is given, and the engine doesn't expose its steps.
        """
        if observe is not None:
            _check_steps(self.engine)
        _check_length(self.max_len, "the prefix", len(prefix), "shorten it")
        for place, source in enumerate(sources):
            _check_length(self.max_len, f"sequence {place + 1}", self.length(source), "split it")
        rows = self.width * (self.config.n_best if self.diverse else 1)
        for places in _batches([self.length(source) for source in sources], self.config.batch_tokens // rows):
            batch = [sources[place] for place in places]
            requests = [self._request(source, prefix) for source in batch]
            yield from zip(places, self.decode(batch, requests, observe))

    def tokens(self, source: Sequence[int], prefix: Sequence[int] = ()) -> Generator[int, None, Hypothesis]:
        """Yield the tokens of the answer to one source as they are chosen, then return the answer.

        A batch engine chooses all of them before the first one is yielded.

        Raises:
            ConfigError: the settings ask for several beams or samples, of which the best is known only at the end.
            DataError: the source or the prefix is too long for the model.
        """
        self.check_streamable()
        request = self.request(source, prefix)
        if isinstance(self.engine, BatchEngine):
            [[answer, *_]] = self._decode_batch(self.engine, [source], [request])
            yield from answer.ids
            return answer
        with self.search([source], [request], self.sampler([source]) if self.config.sample else None) as search:
            while search.live:
                if (token := search.step().chosen(0)) is not None:
                    yield token
        [[answer]] = search.finished().values()
        return answer

    def successors(
        self, source: Sequence[int], ids: Sequence[int], n: int
    ) -> Generator[tuple[float, dict[int, float]], None, None]:
        """Yield the log-probability of each token of an answer, and those of the n most likely ones in its place.

        The most likely come first. Each takes one step of the engine.

        Args:
            source: token ids that the answer belongs to.
            ids: token ids of the answer (T,), one pair for each.
            n: number of alternatives per token, the token itself included if it's among them.

        Raises:
            ConfigError: the engine doesn't expose its steps.
        """
        _check_steps(self.engine)
        if not ids:
            return
        tokens = self._start([source])
        with self._prefill([source], len(ids)) as decoding:
            for following in np.array(ids, np.int64)[:, None]:
                log_probabilities, known = (it[0, 0] for it in decoding.step(tokens[:, None], max(n, 1), following))
                order = np.argsort(-log_probabilities[:-1], kind="stable")[:n]
                most_likely = dict(zip(known[order].tolist(), log_probabilities[order].tolist()))
                yield float(log_probabilities[-1]), most_likely
                tokens = following

    def check_streamable(self) -> None:
        """Raise ConfigError if the settings ask for several beams or samples."""
        if self.width != 1:
            setting = "decode.n_best" if self.config.sample else "decode.beam"
            what = f"{setting}={self.width} can't be streamed: which answer is best is known only at the end"
            raise ConfigError(what, fix=f"set {setting}=1", name=setting, value=self.width)

    def request(self, source: Sequence[int], prefix: Sequence[int] = ()) -> Request:
        """Return the limits for a source. Raise DataError if the source or the prefix is too long for the model."""
        _check_length(self.max_len, "the prefix", len(prefix), "shorten it")
        _check_length(self.max_len, "sequence 1", self.length(source), "split it")
        return self._request(source, prefix)

    @contextmanager
    def search(
        self,
        sources: Sources,
        requests: Sequence[Request],
        sampler: Sampler | None = None,
        numbers: Sequence[int] | None = None,
    ) -> Iterator[Search]:
        """Begin to decode these sources with a step engine inside the `with` block; see `Search`.

        Args:
            sources: token ids of each source, without an end token.
            requests: one per source.
            sampler: draws the answers (default: search for the most likely ones).
            numbers: a number for each source, ascending (default: 0 to B - 1).
        """
        with self._prefill(sources, max(request.max_steps for request in requests)) as decoding:
            yield Search(decoding, self._start(sources), requests, self.rules, sampler, numbers)

    def decode(self, sources: Sources, requests: Sequence[Request], observe: Observe | None = None) -> Answers:
        """Return the answers to the sources of one batch.

        Args:
            sources: token ids of each source, without an end token.
            requests: one per source.
            observe: called with every step. A batch engine has no steps and ignores it.
        """
        if isinstance(self.engine, BatchEngine):
            return self._decode_batch(self.engine, sources, requests)
        return (self._diverse if self.diverse else self._decode)(sources, requests, observe)

    def sampler(self, sources: Sources = ()) -> Sampler:
        """Return a sampler for some sources; `generator` makes what it needs for another one."""
        config = self.config
        sampling = Sampling(temperature=config.temperature, top_k=config.top_k, top_p=config.top_p, min_p=config.min_p)
        return Sampler(sampling, {place: self.generator(source) for place, source in enumerate(sources)})

    def generator(self, source: Sequence[int], seed: int | None = None) -> "np.random.Generator":
        """Return random numbers seeded by the source, so its answer doesn't depend on its position or batch.

        `seed` replaces decode.seed.
        """
        return np.random.default_rng([self.config.seed if seed is None else seed, *self._key(source)])

    def _inputs(self, sources: Sources) -> list[list[int]]:
        """Return the engine's inputs for the sources."""
        return [self.special.source(source) for source in sources]

    def _start(self, sources: Sources) -> IntArray:
        """Return the token before each output. B sources -> (B,)"""
        return np.full(len(sources), self.special.start, np.int64)

    def length(self, source: Sequence[int]) -> int:
        """Return the length of a source, without an end token."""
        return len(source)

    def _prefill(self, sources: Sources, steps: int) -> AbstractContextManager[Decoding]:
        assert isinstance(self.engine, StepEngine)
        return self.engine.prefill(self._inputs(sources), steps)

    def _decode_batch(self, engine: BatchEngine, sources: Sources, requests: Sequence[Request]) -> Answers:
        batch = Batch(self._inputs(sources), self._start(sources), requests, self.rules.suppress, self.scored)
        return [_distinct(found, self.detokenize) for found in decode_batch(engine, batch, self.config, self.rules)]

    def _decode(self, sources: Sources, requests: Sequence[Request], observe: Observe | None) -> Answers:
        start = self._start(sources)
        if isinstance(self.engine, SearchEngine) and not self.config.sample and observe is None:
            batch = Batch(self._inputs(sources), start, requests, self.rules.suppress)
            if (found := self.engine.search(batch, self.rules)) is not None:
                return found
        with self._prefill(sources, max(request.max_steps for request in requests)) as decoding:
            if self.config.sample:
                return Search(decoding, start, requests, self.rules, self.sampler(sources)).run(observe)
            return beam_search(decoding, start, requests, self.rules, observe)

    def _diverse(self, sources: Sources, requests: Sequence[Request], observe: Observe | None) -> Answers:
        """Return the best answer for each of the `n_best` most likely tokens after the prefix.

        If no token may follow the prefix, search from the prefix alone.
        """
        n, length = self.config.n_best, len(requests[0].prefix)
        with self._prefill(sources, length + 1) as decoding:
            search = Search(decoding, self._start(sources), requests, replace(self.rules, beam=n))
            first_tokens = _first_tokens(search, len(sources), length)
        begun = [
            (place, replace(request, prefix=(*request.prefix, *first)))
            for place, (request, tokens) in enumerate(zip(requests, first_tokens))
            for first in [[token] for token in tokens] or [[]]
        ]
        found = self._decode([sources[place] for place, _ in begun], [request for _, request in begun], observe)
        answers: Answers = [[] for _ in sources]
        for (place, _), hypotheses in zip(begun, found):
            answers[place].append(hypotheses[0])
        return [_distinct(sorted(some, key=lambda it: it.sort_key), self.detokenize) for some in answers]

    def _request(self, source: Sequence[int], prefix: Sequence[int]) -> Request:
        """Return the length limits for a source. If minimum and maximum contradict each other, the maximum wins."""
        config, length = self.config, self.length(source)
        min_len = max(config.min_len, math.ceil(min(config.min_ratio * length, MAX_TOKENS)))
        by_ratio = MAX_TOKENS
        if config.max_ratio is not None:
            by_ratio = max(1, math.floor(min(config.max_ratio * length, MAX_TOKENS)))
        max_len = max(min(config.max_len or MAX_TOKENS, by_ratio), len(prefix))  # a prefix is never cut
        max_steps = max(length + config.max_extra, min_len + 1, len(prefix) + 1)  # the end token takes one more step
        max_steps = min(max_steps, max_len + 1, self.max_len or MAX_TOKENS)
        return Request(max_steps, min(min_len, max_steps - 1), tuple(prefix), max_len)

    def _key(self, source: Sequence[int]) -> Sequence[int]:
        """Return numbers from 0 that identify a source."""
        return source


class AudioSession(Session):
    """A session whose sources are 16-bit samples (N,). Their length counts in positions of the encoder.

    Args:
        sample_rate: samples per second. See `Session` for the others.
    """

    def __init__(
        self,
        engine: Engine,
        config: DecodeConfig,
        special: SpecialTokens,
        *,
        sample_rate: int,
        max_len: int | None = None,
        suppress: Sequence[int] | None = None,
        detokenize: Callable[[Sequence[int]], str] | None = None,
    ) -> None:
        super().__init__(engine, config, special, max_len=max_len, suppress=suppress, detokenize=detokenize)
        self.sample_rate = sample_rate

    def _inputs(self, sources: Sequence[Sequence[int]]) -> list[list[int]]:
        return list(sources)  # type: ignore[arg-type]

    def length(self, source: Sequence[int]) -> int:
        return audio_positions(len(source), self.sample_rate)

    def _key(self, source: Sequence[int]) -> Sequence[int]:
        return [*hashlib.blake2b(np.asarray(source, "<i2").tobytes(), digest_size=16).digest()]


def _check_steps(engine: Engine) -> None:
    if isinstance(engine, BatchEngine):
        what = f"decode.engine={engine.name!r} doesn't expose the steps of its search"
        raise ConfigError(what, fix="set decode.engine='torch'", name="decode.engine", value=engine.name)


def _check_length(most: int | None, name: str, length: int, fix: str) -> None:
    if most is not None and length >= most:
        what = f"{name} has {length:,} tokens, too many for model.max_len={most}, end token included"
        raise DataError(what, expected=f"at most {most - 1:,} tokens", fix=fix, name=name, value=length)


def _batches(lengths: list[int], most: int) -> Iterator[list[int]]:
    """Yield the indices of each batch, longest first, so that running out of memory happens in the first batch.

    `most` is the number of tokens in a batch, counting each source as the longest one.
    """
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        longest = max(lengths[batch[0] if batch else place] + 1, MIN_LENGTH)
        if batch and (len(batch) + 1) * longest > most:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


def _first_tokens(search: Search, count: int, length: int) -> list[list[int]]:
    """Return the most likely tokens after the prefix of each of `count` sources, one for each beam, except EOS.

    All prefixes have the same length.
    """
    found: list[list[int]] = [[] for _ in range(count)]
    steps = [search.step() for _ in range(length + 1) if search.live]
    for step in steps[length:]:
        fits = ~search.rules.ends(step.tokens) & (step.totals > -np.inf)
        for place, tokens, allowed in zip(step.sentences.tolist(), step.tokens, fits):
            found[place] = tokens[allowed][: search.rules.beam].tolist()
    return found


def _distinct(answers: list[Hypothesis], detokenize: Callable[[Sequence[int]], str] | None) -> list[Hypothesis]:
    """Drop answers whose text has occurred before."""
    if detokenize is None:
        return answers
    by_text: dict[str, Hypothesis] = {}
    for answer in answers:
        by_text.setdefault(detokenize(answer.ids), answer)
    return list(by_text.values())
