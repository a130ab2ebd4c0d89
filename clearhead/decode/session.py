"""A model ready to decode: many sequences in any order go in, answers in the same order come out."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from ..config import DecodeConfig
from ..errors import ConfigError, DataError
from ..text.tokenizer import BOS, EOS, PAD, UNK
from .engine import Engine
from .rules import Rules
from .sampling import Draws, Sampling, sample
from .search import Choose, Hypothesis, Request, beam_search, best, steps

SHORTEST = 8  # tokens that a shorter source counts as in a batch: what a row costs does not shrink with its source
_EVERY = 2**31  # candidates: more than any vocabulary has


class Session:
    """Sorts sequences by length, decodes them in batches, and gives the answers in the order of the sequences.

    A batch holds at most `config.batch_tokens` tokens: sources times beams times the longest source. Which sequences
    share a batch changes no answer, but for the rounding of the engine.
    """

    def __init__(
        self,
        engine: Engine,
        config: DecodeConfig,
        *,
        max_len: int | None = None,
        suppress: Sequence[int] = (),
        text: Callable[[Sequence[int]], str] | None = None,
    ) -> None:
        """`max_len`: the most tokens of a sequence that the model reads or writes, the end included.

        `suppress`: tokens that are never generated, besides the special ones. `text`: of answers that it makes the same
        of, though their tokens differ, a search gives only the best.
        """
        self.engine, self.config, self.max_len = engine, config, max_len
        self.text = None if config.sample or config.n_best == 1 else text
        self.width = config.n_best if config.sample else config.beam
        self.diverse = config.diverse and config.n_best > 1
        self.rules = Rules(
            end=EOS,
            never=(PAD, BOS, UNK, *suppress),
            beam=self.width,
            alpha=config.alpha,
            n_best=1 if self.diverse else config.n_best,
            text=None if self.diverse else self.text,
            no_repeat_ngram=config.no_repeat_ngram,
            repetition_penalty=config.repetition_penalty,
            pool=(config.top_k or _EVERY) if config.sample else 0,
        )

    def answers(self, sources: Sequence[Sequence[int]]) -> list[list[Hypothesis]]:
        """The hypotheses for every source, best first. Sources are ids without special tokens, and may be empty."""
        found = dict(self.stream(sources))
        return [found[place] for place in range(len(sources))]

    def stream(
        self, sources: Sequence[Sequence[int]], prefix: Sequence[int] = ()
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """(place, hypotheses) of every source as soon as its batch is done, longest sources first.

        Every answer begins with the tokens of `prefix`. A source or prefix that needs more positions than the model has
        is a DataError, before anything is decoded.
        """
        self._check("the prefix", prefix)
        for place, source in enumerate(sources):
            self._check(f"sequence {place + 1}", source)
        for places in self._batches([len(source) for source in sources]):
            batch = [sources[place] for place in places]
            found = self._diverse(batch, prefix) if self.diverse else self._decode(batch, [prefix] * len(batch))
            yield from zip(places, found)

    def tokens(self, source: Sequence[int], prefix: Sequence[int] = ()) -> Iterator[int]:
        """The tokens of the one answer to a source, each as soon as it is chosen: greedily, or drawn.

        A beam of several is a ConfigError: which of them wins is known only in the end.
        """
        if self.width != 1:
            wide = "n_best" if self.config.sample else "beam"
            raise ConfigError(
                f"decode.{wide} = {self.width} cannot be used here: which answer is the best is known only in the end; "
                f"expected decode.{wide} = 1"
            )
        self._check("the prefix", prefix)
        self._check("sequence 1", source)
        request = self._request(source, prefix)
        choose: Choose = self._draws([source]) if self.config.sample else best
        with self.engine.prefill([[*source, EOS]], request.limit) as decoding:
            for step in steps(decoding, np.array([BOS]), [request], self.rules, choose):
                if step.ended.any():
                    return
                yield int(step.tokens[0, step.kept[0, 0]])

    def _decode(self, sources: Sequence[Sequence[int]], prefixes: Sequence[Sequence[int]]) -> list[list[Hypothesis]]:
        """The hypotheses for a batch, with a prefix for each source."""
        requests = [self._request(source, prefix) for source, prefix in zip(sources, prefixes)]
        start, longest = np.full(len(sources), BOS, np.int64), max(request.limit for request in requests)
        with self.engine.prefill([[*source, EOS] for source in sources], longest) as decoding:
            if self.config.sample:
                return sample(decoding, start, requests, self.rules, self._draws(sources))
            return beam_search(decoding, start, requests, self.rules)

    def _diverse(self, sources: Sequence[Sequence[int]], prefix: Sequence[int]) -> list[list[Hypothesis]]:
        """For each source, what follows best after each of the `n_best` likeliest tokens behind the prefix."""
        n, start = self.config.n_best, np.full(len(sources), BOS, np.int64)
        request, rules = Request(len(prefix) + 2, 0, tuple(prefix)), replace(self.rules, beam=n)
        with self.engine.prefill([[*source, EOS] for source in sources], request.limit) as decoding:
            first = next(
                step
                for step in steps(decoding, start, [request] * len(sources), rules, best)
                if step.number == len(prefix) + 1
            )
        fits = (first.tokens != EOS) & (first.totals > -np.inf)
        begun = [(place, first.tokens[place][fits[place]][:n].tolist()) for place in range(len(sources))]
        expanded = [(place, [*prefix, token]) for place, tokens in begun for token in tokens]
        found = self._decode([sources[place] for place, _ in expanded], [forced for _, forced in expanded])
        answers: list[list[Hypothesis]] = [[] for _ in sources]
        for (place, _), hypotheses in zip(expanded, found):
            answers[place].append(hypotheses[0])
        return [self._distinct(sorted(some, key=lambda answer: -answer.score)) for some in answers]

    def _distinct(self, answers: list[Hypothesis]) -> list[Hypothesis]:
        """The first answer of each text."""
        if self.text is None:
            return answers
        by_text: dict[str, Hypothesis] = {}
        for answer in answers:
            by_text.setdefault(self.text(answer.ids), answer)
        return list(by_text.values())

    def _request(self, source: Sequence[int], prefix: Sequence[int]) -> Request:
        config, length = self.config, len(source)
        shortest = max(config.min_len, math.ceil(config.min_ratio * length))
        limit = max(length + config.max_extra, shortest + 1)  # the end token is no part of the output
        if config.max_len is not None:
            limit = min(limit, config.max_len + 1)
        if config.max_ratio is not None:
            limit = min(limit, math.ceil(config.max_ratio * length) + 1)
        limit = max(limit, len(prefix) + 1)
        if self.max_len is not None:
            limit = min(limit, self.max_len)
        return Request(limit, min(shortest, limit - 1), tuple(prefix))

    def _draws(self, sources: Sequence[Sequence[int]]) -> Draws:
        """Each source has a generator of its own, made from its tokens: its answer is the same wherever it stands."""
        config = self.config
        sampling = Sampling(temperature=config.temperature, top_k=config.top_k, top_p=config.top_p, min_p=config.min_p)
        return Draws(sampling, [np.random.default_rng([config.seed, *source]) for source in sources])

    def _check(self, what: str, tokens: Sequence[int]) -> None:
        if self.max_len is not None and len(tokens) >= self.max_len:
            raise DataError(
                f"{what} has {len(tokens)} tokens; expected at most {self.max_len - 1}, "
                f"since model.max_len = {self.max_len}, the end included: split it"
            )

    def _batches(self, lengths: list[int]) -> Iterator[list[int]]:
        """Places, longest first, so that a machine with too little memory fails at once and not in the end."""
        batch: list[int] = []
        for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
            longest = max(lengths[batch[0] if batch else place] + 1, SHORTEST)
            tokens = (len(batch) + 1) * self.width * longest * (self.config.n_best if self.diverse else 1)
            if batch and tokens > self.config.batch_tokens:
                yield batch
                batch = []
            batch.append(place)
        if batch:
            yield batch
