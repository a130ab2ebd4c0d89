"""A model ready to decode: many sequences in any order go in, answers in the same order come out."""

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import islice

import numpy as np

from ..config import DecodeConfig
from ..errors import ConfigError, DataError
from ..tokenization.tokenizer import BOS, EOS, PAD, UNK
from .beams import Hypothesis, Request, Step
from .engine import Decoding, Engine
from .rules import IntArray, Rules
from .sampling import Draws, Sampling, sample
from .search import Choose, beam_search, best, steps

SHORTEST = 8  # tokens that a shorter source counts as in a batch: what a row costs does not shrink with its source
_EVERY = 2**31  # candidates: more than any vocabulary has
MOST = 2**31  # tokens: more than any output has


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

    def answers(
        self, sources: Sequence[Sequence[int]], observe: Callable[[Step], None] | None = None
    ) -> list[list[Hypothesis]]:
        """The hypotheses for every source, best first. Sources are ids without special tokens, and may be empty.

        `observe` is shown every step of the search; with `diverse`, the steps of that behind the first tokens.
        """
        found = dict(self.stream(sources, observe=observe))
        return [found[place] for place in range(len(sources))]

    def stream(
        self,
        sources: Sequence[Sequence[int]],
        prefix: Sequence[int] = (),
        observe: Callable[[Step], None] | None = None,
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """(place, hypotheses) of every source as soon as its batch is done, longest sources first.

        Every answer begins with the tokens of `prefix`. A source or prefix that needs more positions than the model has
        is a DataError, before anything is decoded.
        """
        self._check("the prefix", prefix, "shorten it")
        for place, source in enumerate(sources):
            self._check(f"sequence {place + 1}", source, "split it")
        for places in self._batches([self._length(source) for source in sources]):
            batch = [sources[place] for place in places]
            requests = [self._request(source, prefix) for source in batch]
            decode = self._diverse if self.diverse else self._decode
            found = decode(batch, requests, observe)
            yield from zip(places, found)

    def tokens(self, source: Sequence[int], prefix: Sequence[int] = ()) -> Generator[int, None, Hypothesis]:
        """The tokens of the one answer to a source, each as soon as it is chosen: greedily, or drawn; then the answer.

        A beam of several is a ConfigError: which of them wins is known only in the end.
        """
        if self.width != 1:
            wide = "n_best" if self.config.sample else "beam"
            raise ConfigError(
                f"decode.{wide} = {self.width} cannot be used here: which answer is the best is known only in the end; "
                f"expected decode.{wide} = 1"
            )
        self._check("the prefix", prefix, "shorten it")
        self._check("sequence 1", source, "split it")
        request = self._request(source, prefix)
        choose: Choose = self._draws([source]) if self.config.sample else best
        with self._prefill([source], request.limit) as decoding:
            search = steps(decoding, self._start([source]), [request], self.rules, choose)
            while True:
                try:
                    step = next(search)
                except StopIteration as end:
                    [[answer]] = end.value
                    return answer
                chosen = step.kept[0, 0]
                if not step.ended.any() and step.totals[0, chosen] > -np.inf:
                    yield int(step.tokens[0, chosen])

    def _prefill(self, sources: Sequence[Sequence[int]], steps: int) -> AbstractContextManager[Decoding]:
        """The engine with these sources read."""
        return self.engine.prefill([[*source, EOS] for source in sources], steps)

    def _start(self, sources: Sequence[Sequence[int]]) -> IntArray:
        """The token that each answer follows. B sources -> (B,)"""
        return np.full(len(sources), BOS, np.int64)

    def _length(self, source: Sequence[int]) -> int:
        """What a source counts as in a batch, less one, in tokens."""
        return len(source)

    def _decode(
        self, sources: Sequence[Sequence[int]], requests: Sequence[Request], observe: Callable[[Step], None] | None
    ) -> list[list[Hypothesis]]:
        """The hypotheses for a batch, with a request for each source."""
        start = self._start(sources)
        with self._prefill(sources, max(request.limit for request in requests)) as decoding:
            if self.config.sample:
                return sample(decoding, start, requests, self.rules, self._draws(sources), observe)
            return beam_search(decoding, start, requests, self.rules, observe)

    def _diverse(
        self, sources: Sequence[Sequence[int]], requests: Sequence[Request], observe: Callable[[Step], None] | None
    ) -> list[list[Hypothesis]]:
        """For each source, what follows best after each of the `n_best` likeliest tokens behind the prefix.

        Where no token may stand there, it is what the prefix alone leads to.
        """
        begun = [
            (place, replace(request, forced=(*request.forced, *first)))
            for place, (request, tokens) in enumerate(zip(requests, self._first_tokens(sources, requests)))
            for first in [[token] for token in tokens] or [[]]
        ]
        found = self._decode([sources[place] for place, _ in begun], [request for _, request in begun], observe)
        answers: list[list[Hypothesis]] = [[] for _ in sources]
        for (place, _), hypotheses in zip(begun, found):
            answers[place].append(hypotheses[0])
        return [self._distinct(sorted(some, key=lambda answer: answer.order)) for some in answers]

    def _first_tokens(self, sources: Sequence[Sequence[int]], requests: Sequence[Request]) -> list[list[int]]:
        """The `n_best` likeliest tokens that may follow each prefix, the end aside; all prefixes are equally long."""
        n, start, length = self.config.n_best, self._start(sources), len(requests[0].forced)
        found: list[list[int]] = [[] for _ in sources]
        with self._prefill(sources, length + 1) as decoding:
            search = steps(decoding, start, requests, replace(self.rules, beam=n), best)
            for step in islice(search, length, length + 1):
                fits = (step.tokens != EOS) & (step.totals > -np.inf)
                for place, tokens, allowed in zip(step.sentences.tolist(), step.tokens, fits):
                    found[place] = tokens[allowed][:n].tolist()
        return found

    def _distinct(self, answers: list[Hypothesis]) -> list[Hypothesis]:
        """The first answer of each text."""
        if self.text is None:
            return answers
        by_text: dict[str, Hypothesis] = {}
        for answer in answers:
            by_text.setdefault(self.text(answer.ids), answer)
        return list(by_text.values())

    def _request(self, source: Sequence[int], prefix: Sequence[int]) -> Request:
        """How long the answer to a source may be; where minimum and maximum contradict each other, the maximum."""
        config, length = self.config, len(source)
        shortest = max(config.min_len, math.ceil(min(config.min_ratio * length, MOST)))
        by_ratio = MOST if config.max_ratio is None else max(1, math.floor(min(config.max_ratio * length, MOST)))
        longest = max(min(config.max_len or MOST, by_ratio), len(prefix))  # a prefix stands whole
        limit = max(length + config.max_extra, shortest + 1, len(prefix) + 1)  # the end token is no part of the output
        limit = min(limit, longest + 1, self.max_len or MOST)
        return Request(limit, min(shortest, limit - 1), tuple(prefix), longest)

    def _draws(self, sources: Sequence[Sequence[int]]) -> Draws:
        """Each source has a generator of its own, made from its tokens: its answer is the same wherever it stands."""
        config = self.config
        sampling = Sampling(temperature=config.temperature, top_k=config.top_k, top_p=config.top_p, min_p=config.min_p)
        return Draws(sampling, [np.random.default_rng([config.seed, *source]) for source in sources])

    def _check(self, what: str, tokens: Sequence[int], advice: str) -> None:
        if self.max_len is not None and len(tokens) >= self.max_len:
            raise DataError(
                f"{what} has {len(tokens)} tokens; expected at most {self.max_len - 1}, "
                f"since model.max_len = {self.max_len}, the end included: {advice}"
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
