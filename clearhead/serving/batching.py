"""A queue in front of a model. One thread answers what waits, rows with the same settings together.

While a batch is computed, the next one gathers, so that batches grow with the load and nobody waits without it.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..errors import ClearheadError
from .limits import RequestError

Run: TypeAlias = Callable[[Any, list[Any]], Sequence[Any]]
_TOGETHER = 128  # rows of a batch; more don't make it faster
_MEMORY = 0.9  # of the average time per row, at each batch


@dataclass
class Row:
    """One input of a request, and the future of its answer. `work` says what to do; equal ones go together."""

    work: Hashable
    value: Any
    future: "asyncio.Future[Any]"
    loop: asyncio.AbstractEventLoop
    begun: bool = False


class Batcher:
    """Answers rows on a thread of its own.

    Args:
        run: takes what to do and the inputs, and returns the answers in the same order.
        most: maximum number of rows that wait.
        name: name of the thread.
    """

    def __init__(self, run: Run, *, most: int, name: str) -> None:
        self._run, self._most = run, most
        self._waiting: deque[Row] = deque()
        self._changed, self._closed = threading.Condition(), False
        self.seconds_per_row = 0.0
        self._thread = threading.Thread(target=self._answer_all, name=name, daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """The number of rows that wait."""
        return len(self._waiting)

    async def answers(self, work: Hashable, inputs: Sequence[Any], seconds: float) -> list[Any]:
        """Return an answer to each input. If the caller is cancelled, rows that still wait are dropped.

        Raises:
            RequestError: the queue is full, or there's no answer in time.
            ClearheadError: what `run` raised for one of the inputs.
        """
        rows = self._add(work, inputs)
        try:
            async with asyncio.timeout(seconds):
                return list(await asyncio.gather(*(row.future for row in rows)))
        except TimeoutError:
            raise self._late(seconds, begun=all(row.begun for row in rows)) from None
        finally:
            for row in rows:
                row.future.cancel()

    def close(self) -> None:
        """End the thread once everything that waits is answered."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _add(self, work: Hashable, inputs: Sequence[Any]) -> list[Row]:
        loop = asyncio.get_running_loop()
        rows = [Row(work, value, loop.create_future(), loop) for value in inputs]
        with self._changed:
            if self._closed:
                raise RequestError(503, "the model is being replaced", fix="try again", headers={"Retry-After": "1"})
            if len(self._waiting) + len(rows) > self._most:
                raise self._full(len(rows))
            self._waiting.extend(rows)
            self._changed.notify()
        return rows

    def _full(self, count: int) -> RequestError:
        what = f"{len(self._waiting):,} texts wait already, so the queue has no room for {count:,} more"
        return RequestError(429, what, expected=f"at most {self._most:,}", fix="try again later", headers=self._later())

    def _late(self, seconds: float, *, begun: bool) -> RequestError:
        what = f"there was no answer within {seconds:g} seconds"
        if begun:
            return RequestError(504, what, fix="ask for less at a time")
        return RequestError(429, what, fix="try again later", headers=self._later())

    def _later(self) -> dict[str, str]:
        return {"Retry-After": str(max(1, round(self.waiting * self.seconds_per_row)))}

    def _answer_all(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._closed:
                    self._changed.wait()
                rows = self._next()
            if rows:
                self._answer(rows)
            elif self._closed:
                return

    def _next(self) -> list[Row]:
        """Take the oldest row and those like it. Drop rows that nobody waits for."""
        rows: list[Row] = []
        others: deque[Row] = deque()
        for row in self._waiting:
            if row.future.cancelled():
                continue
            if len(rows) < _TOGETHER and (not rows or row.work == rows[0].work):
                rows.append(row)
            else:
                others.append(row)
        self._waiting = others
        return rows

    def _answer(self, rows: list[Row]) -> None:
        for row in rows:
            row.begun = True
        started = time.perf_counter()
        answers = self._results(rows)
        rows[0].loop.call_soon_threadsafe(_deliver, rows, answers)
        each = (time.perf_counter() - started) / len(rows)
        self.seconds_per_row = _MEMORY * self.seconds_per_row + (1 - _MEMORY) * each

    def _results(self, rows: list[Row]) -> list[Any]:
        """Return the answer or the exception for each row. An input that can't be read fails no other."""
        try:
            return list(self._run(rows[0].work, [row.value for row in rows]))
        except ClearheadError as error:
            if len(rows) == 1:
                return [error]
            return [found for row in rows for found in self._results([row])]
        except Exception as error:
            return [error] * len(rows)


def _deliver(rows: list[Row], answers: list[Any]) -> None:
    for row, answer in zip(rows, answers, strict=True):
        if row.future.done():
            continue
        if isinstance(answer, Exception):
            row.future.set_exception(answer)
        else:
            row.future.set_result(answer)
