"""Worker processes that answer lines. They're forked, so they share one copy of the weights."""

import multiprocessing
import os
import signal
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any, Self, cast

from ...data.encoding import end_with_parent
from ...errors import ModelError
from ..input_lines import Answer, Chunk, Place, Printed
from .measured_engines import Engines, n_bytes

_MOST_LOST = 10  # lines that killed workers; with more of them, the fault isn't in the lines
_PATIENCE = 5  # seconds for a worker to end


class _Worker:
    """A process, the pipe to it, and the chunk that it's answering."""

    def __init__(self, answer: Answer, engine: str, others: Sequence[Connection]) -> None:
        self.connection, far_end = multiprocessing.Pipe()
        near_ends = [*others, self.connection]  # a worker that kept them open wouldn't notice the end of this process
        context = cast(Any, multiprocessing).get_context("fork")
        self.process = context.Process(target=_work, args=(answer, far_end, near_ends, os.getpid()), daemon=True)
        with warnings.catch_warnings():  # about numpy's threads, which survive a fork
            warnings.simplefilter("ignore", DeprecationWarning)
            self.process.start()
        far_end.close()
        self.engine, self.begun = engine, 0.0
        self.chunk: Chunk | None = None


class WorkerPool:
    """Answers chunks in worker processes with one thread each.

    A worker that dies is replaced, and its lines are answered again in two halves. A line that's alone when a second
    worker dies of it gets the result of `unanswered`. `answer` should have answered some lines before, so that the
    weights are in memory. A worker is also replaced for the next lines to be answered with another engine.
    """

    def __init__(self, answer: Answer, size: int, unanswered: Callable[[Place], Printed], engines: Engines) -> None:
        self._answer, self._unanswered, self._engines, self._n_lost = answer, unanswered, engines, 0
        self._queue: deque[Chunk] = deque()
        self._workers: list[_Worker] = []
        for _ in range(size):
            self._workers.append(self._new_worker())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """End the workers. After an error, those that are busy are killed."""
        for worker in self._workers:
            worker.connection.close()
        for worker in self._workers:
            worker.process.join(_PATIENCE if kind is None else 0)
            worker.process.kill()
            worker.process.join()

    @property
    def is_hungry(self) -> bool:
        """True if no chunk is waiting for a worker."""
        return not self._queue

    @property
    def is_idle(self) -> bool:
        """True if no chunk is waiting or being answered."""
        return not self._queue and not any(worker.chunk for worker in self._workers)

    def put(self, chunks: Iterable[Chunk]) -> None:
        """Add chunks to be answered."""
        self._queue.extend(chunks)
        self._dispatch()

    def receive(self, descriptor: int | None = None) -> list[tuple[Chunk, list[Printed]]]:
        """Wait until a chunk is answered, a descriptor can be read or time is up. Return the chunks that are answered.

        Raises ModelError if workers keep dying, and any exception that `answer` raised in a worker.
        """
        busy = {worker.connection: worker for worker in self._workers if worker.chunk}
        found = []
        for ready in wait([*busy, *([] if descriptor is None else [descriptor])], self._engines.patience):
            if ready != descriptor:
                found += self._received(busy[cast(Connection, ready)])
        self._dispatch()
        return found

    def _received(self, worker: _Worker) -> list[tuple[Chunk, list[Printed]]]:
        chunk = cast(Chunk, worker.chunk)
        try:
            answers = worker.connection.recv()
        except (EOFError, OSError):
            self._replace(worker)
            return self._after_death(chunk)
        if isinstance(answers, Exception):
            raise answers
        worker.chunk = None
        self._engines.note(worker.engine, chunk.places, answers, self._engines.clock() - worker.begun)
        return [(chunk, answers)]

    def _dispatch(self) -> None:
        """Give each free worker a chunk, except one if the preparation of an engine needs its core."""
        waiting = sum(n_bytes(it.places) for it in self._queue)
        waits = self._engines.leaves_core(waiting)
        for worker in [it for it in self._workers if not it.chunk][waits:][: len(self._queue)]:
            is_usable = worker.engine == self._engines.next(waiting, len(self._workers)) and worker.process.is_alive()
            free = worker if is_usable else self._replace(worker)
            free.chunk, free.begun = self._queue.popleft(), self._engines.clock()
            with suppress(OSError):  # the worker died just now, which `receive` will notice
                free.connection.send(free.chunk.places)

    def _after_death(self, chunk: Chunk) -> list[tuple[Chunk, list[Printed]]]:
        """Put the lines of a dead worker back into the queue. Return a line that may not be tried again."""
        if len(chunk.rows) > 1 or not chunk.deaths:
            self._queue.extendleft(reversed(chunk.halves()))
            return []
        self._n_lost += 1
        if self._n_lost > _MOST_LOST:
            what = f"workers keep dying: {self._n_lost} lines killed two each"
            fix = "check that there's enough memory, lower --batch-tokens, or use --workers 1"
            raise ModelError(what, fix=fix, name="--workers", value=len(self._workers))
        return [(chunk, [self._unanswered(chunk.places[0])])]

    def _replace(self, worker: _Worker) -> _Worker:
        worker.connection.close()
        worker.process.join()
        new = self._workers[self._workers.index(worker)] = self._new_worker(worker)
        return new

    def _new_worker(self, but: _Worker | None = None) -> _Worker:
        return _Worker(self._answer, self._engines.in_use, [it.connection for it in self._workers if it is not but])


def _work(answer: Answer, connection: Connection, to_close: Sequence[Connection], parent: int) -> None:
    """Answer lines until the other end of the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, too, whose end is noticed
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with_parent(parent)
    for other in to_close:
        other.close()
    os.environ["OMP_NUM_THREADS"] = "1"  # other workers use the other cores
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)
    with suppress(EOFError, OSError):
        while True:
            connection.send(_answer_or_error(answer, connection.recv()))


def _answer_or_error(answer: Answer, places: Sequence[Place]) -> list[Printed] | Exception:
    try:
        return answer(places)
    except Exception as error:
        return error
