"""Batches that sequences join and leave between steps, as in a server.

with LiveBatch(session) as batch:
    first = batch.add(source)
    while batch:
        for number, answers in batch.step():
            ...
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Self

from .beams import Hypothesis, Request, SearchStep
from .engine import BatchEngine, JoinableDecoding, SearchEngine
from .search import Search
from .session import Session

Found = list[tuple[int, list[Hypothesis]]]


@dataclass(frozen=True)
class _Entry:
    source: Sequence[int]
    request: Request
    on_token: Callable[[int], None] | None
    seed: int | None


class LiveBatch:
    """Sequences being decoded together. New ones join with the next step, and a dropped one is gone before it.

    An answer is the one that `session.answers` gives: neither the other sequences nor the moment when it joins
    changes it, except for rounding. `add`, `drop` and `step` must not run at the same time.

    With the engine `torch`, all sequences share the products of a step. An engine without `JoinableDecoding` decodes
    each group that arrived together as a batch of its own. Engines that run their own search, and searches with
    `diverse`, decode all waiting sequences to the end in one step, except those with `on_token` if the engine can also
    take single steps.

    Args:
        session: the settings, the same for all sequences. The caller limits their number, `len(batch)`.
    """

    def __init__(self, session: Session) -> None:
        self.session, self._sampler = session, session.sampler() if session.config.sample else None
        self._never_steps = isinstance(session.engine, BatchEngine) or session.diverse
        self._searches_whole = isinstance(session.engine, SearchEngine) and self._sampler is None
        self._waiting: dict[int, _Entry] = {}
        self._streams: dict[int, Callable[[int], None]] = {}
        self._searches: list[tuple[Search, ExitStack]] = []
        self._next = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        """Return the number of sequences that wait or are being decoded."""
        return len(self._waiting) + sum(len(search.live) for search, _ in self._searches)

    def add(
        self,
        source: Sequence[int],
        prefix: Sequence[int] = (),
        on_token: Callable[[int], None] | None = None,
        seed: int | None = None,
    ) -> int:
        """Let a sequence join at the next step, and return its number.

        Args:
            source: token ids, as in `Session.answers`.
            prefix: tokens that the answer must start with.
            on_token: called with each token of the answer as it's chosen, without the end token.
            seed: random seed for this sequence (default: decode.seed).

        Raises:
            DataError: the source or the prefix is too long for the model.
            ConfigError: `on_token` is given, and the settings ask for several beams or samples.
        """
        if on_token is not None:
            self.session.check_streamable()
        entry = _Entry(source, self.session.request(source, prefix), on_token, seed)
        self._next += 1
        self._waiting[self._next] = entry
        return self._next

    def drop(self, number: int) -> None:
        """Give up a sequence. Its row is free before the next step. One that has its answer is ignored."""
        self._waiting.pop(number, None)
        self._forget(number)
        for search, _ in self._searches:
            search.drop([number])
        self._close_finished()

    def step(self) -> Found:
        """Let the waiting sequences join, take one step, and return the numbers and answers of those that are done.

        Answers come best first. After an error, such as weights that are NaN, close the batch.
        """
        waiting, self._waiting = self._waiting, {}
        whole = {number: entry for number, entry in waiting.items() if self._at_once(entry)}
        found = self._decode(whole)
        self._begin({number: entry for number, entry in waiting.items() if number not in whole})
        for search, _ in self._searches:
            self._stream(search.step())
            found += search.finished().items()
        for number, _ in found:
            self._forget(number)
        self._close_finished()
        return found

    def close(self) -> None:
        """Drop all sequences, and release the model."""
        while self._searches:
            self._searches.pop()[1].close()
        self._waiting, self._streams = {}, {}

    def _at_once(self, entry: _Entry) -> bool:
        """Return whether a sequence is decoded to its end in one step."""
        return self._never_steps or (self._searches_whole and entry.on_token is None)

    def _decode(self, entries: dict[int, _Entry]) -> Found:
        if not entries:
            return []
        found = self.session.decode([it.source for it in entries.values()], [it.request for it in entries.values()])
        for entry, answers in zip(entries.values(), found):
            if entry.on_token is not None:
                for token in answers[0].ids:
                    entry.on_token(token)
        return list(zip(entries, found))

    def _begin(self, entries: dict[int, _Entry]) -> None:
        """Read the sources, and append them to the search in progress if the engine can do that."""
        if not entries:
            return
        sources, requests = [it.source for it in entries.values()], [it.request for it in entries.values()]
        self._streams |= {number: it.on_token for number, it in entries.items() if it.on_token is not None}
        if self._sampler is not None:
            for number, it in entries.items():
                self._sampler.generators[number] = self.session.generator(it.source, it.seed)
        with ExitStack() as stack:
            search = stack.enter_context(self.session.search(sources, requests, self._sampler, list(entries)))
            if self._searches and isinstance(search.decoding, JoinableDecoding):
                self._searches[0][0].join(search)
            else:
                self._searches.append((search, stack.pop_all()))

    def _stream(self, step: SearchStep) -> None:
        for row, number in enumerate(step.sentences.tolist()) if self._streams else ():
            if number in self._streams and (token := step.chosen(row)) is not None:
                self._streams[number](token)

    def _forget(self, number: int) -> None:
        self._streams.pop(number, None)
        if self._sampler is not None:
            self._sampler.generators.pop(number, None)

    def _close_finished(self) -> None:
        for search, stack in self._searches:
            if not search.live:
                stack.close()
        self._searches = [it for it in self._searches if it[0].live]
