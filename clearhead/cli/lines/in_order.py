"""Answer groups of lines in chunks of similar length, and return the answers in input order."""

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from ..input_lines import Answer, Chunk, Place, Printed
from .measured_engines import Engines

if TYPE_CHECKING:
    from .worker_pool import WorkerPool

_MOST = 512  # lines per chunk
_PER_GROUP = 8  # chunks, unless they'd have too few or too many lines
_FEWEST = 64  # this process answers as many faster than it starts workers
_OPEN = 3  # groups being answered, which limits the memory for lines and answers

Answers: TypeAlias = Iterator[tuple[Sequence[Place], list[Printed]]]


class _Group:
    def __init__(self, places: Sequence[Place]) -> None:
        self.places, self.answers = places, [Printed("")] * len(places)
        self.n_missing = len(places)

    def add(self, chunk: Chunk, answers: Sequence[Printed]) -> None:
        for row, answer in zip(chunk.rows, answers):
            self.answers[row] = answer
        self.n_missing -= len(chunk.rows)


class InOrder:
    """Answers lines in this process or in workers.

    Args:
        workers: returns the number of worker processes, which may depend on what answering the first lines has loaded.
            If it's 1, this process answers all lines.
        unanswered: returns the output for a line that killed two workers.
        count: called with lines that have been answered.
        engines: chooses the engine of the workers.
    """

    def __init__(
        self,
        answer: Answer,
        workers: Callable[[], int],
        unanswered: Callable[[Place], Printed],
        count: Callable[[Sequence[Place]], object] = lambda _: None,
        engines: Engines | None = None,
    ) -> None:
        self.answer, self.workers, self.unanswered, self.count = answer, workers, unanswered, count
        self.engines = engines or Engines()

    def run(self, groups: Iterator[Sequence[Place]], descriptor: int | None = None) -> Answers:
        """Yield each group with its answers, in order. Taking the next group may block.

        While the descriptor that groups are read from can't be read, none is taken unless those before are answered.
        """
        for places in groups:
            group = _Group(places)
            *chunks, shortest = self._chunks(group)
            first = self.engines.sample(self.answer, shortest.places) if chunks else self.answer(shortest.places)
            self._add(shortest, first)  # this has loaded the model, which the workers will share
            if chunks and (size := self.workers()) > 1:
                from .worker_pool import WorkerPool  # imports multiprocessing, which few lines need

                with WorkerPool(self.answer, size, self.unanswered, self.engines) as pool:
                    pool.put(chunks)
                    yield from self._in_workers(pool, deque([group]), groups, descriptor)
                return
            for chunk in chunks:
                self._add(chunk, self.answer(chunk.places))
            yield places, group.answers

    def _in_workers(
        self, pool: "WorkerPool", opened: deque[_Group], groups: Iterator[Sequence[Place]], descriptor: int | None
    ) -> Answers:
        from multiprocessing.connection import wait

        ended = False
        while opened or not ended:
            wants_more = not ended and pool.is_hungry and len(opened) < _OPEN
            if wants_more and (pool.is_idle or descriptor is None or wait([descriptor], 0)):
                places = next(groups, None)
                ended = places is None
                if places is not None:
                    opened.append(_Group(places))
                    pool.put(self._chunks(opened[-1]))
            else:
                for chunk, answers in pool.receive(descriptor if wants_more else None):
                    self._add(chunk, answers)
            while opened and not opened[0].n_missing:
                done = opened.popleft()
                yield done.places, done.answers

    def _chunks(self, group: _Group) -> list[Chunk]:
        """Divide a group into chunks of lines of similar length, longest first, so that all workers finish together.

        They don't depend on the number of workers, since the last digits of a result can depend on its batch.
        """
        rows = sorted(range(len(group.places)), key=lambda row: -len(group.places[row][1].text))
        size = min(_MOST, max(_FEWEST, math.ceil(len(rows) / _PER_GROUP)))
        parts = [rows[start : start + size] for start in range(0, len(rows), size)]
        return [Chunk([group.places[row] for row in part], part, group) for part in parts]

    def _add(self, chunk: Chunk, answers: Sequence[Printed]) -> None:
        chunk.group.add(chunk, answers)
        self.count(chunk.places)
