"""A queue in front of a model. One thread answers what waits, inputs with the same work together.

While some inputs are being answered, the next ones gather, so that batches grow with the load and nobody waits without
it.
"""

import asyncio
import threading
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from .groups import Group
from .limits import RequestError
from .waiting_rows import Row, Stream, call_in, settle_all
from .work import Work

_SHARE, _PATIENCE = 0.25, 8  # of a group's size, and in steps: inputs wait until so many can join together
_MOMENT = 0.2  # seconds
_WEIGHT = 0.1  # of the newest time per input in the average


class AbandonedError(Exception):
    """Nobody waits any more for what is being computed."""


@dataclass
class _Active:
    """A group with its rows by number, and the steps since one joined."""

    group: Group
    rows: dict[int, Row]
    steps: int = 0


class Batcher:
    """Answers inputs on a thread of its own.

    Args:
        open_group: returns an empty group for some work. Raises ClearheadError if the model can't do it.
        most: maximum number of inputs that wait.
        name: name of the thread.
    """

    def __init__(self, open_group: Callable[[Work], Group], *, most: int, name: str) -> None:
        self._open, self._most = open_group, most
        self._waiting: deque[Row] = deque()
        self._groups: dict[Work, _Active] = {}
        self._computing: list[Row] = []
        self._changed, self._closed, self._ended = threading.Condition(), False, False
        self._seconds, self._seconds_per_row = 0.0, 0.0
        self._thread = threading.Thread(target=self._answer_all, name=name, daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """The number of inputs that wait."""
        return len(self._waiting)

    @property
    def busy(self) -> int:
        """The number of inputs that are being answered."""
        return sum(len(it.rows) for it in list(self._groups.values()))

    async def answers(self, work: Work, inputs: Sequence[Any], seconds: float) -> list[Any]:
        """Return an answer to each input. If the caller is cancelled, the inputs are dropped.

        Raises:
            RequestError: the queue is full, or there's no answer in time.
            ClearheadError: one of the inputs can't be answered.
        """
        rows = [Row(work, value, asyncio.get_running_loop().create_future()) for value in inputs]
        async with self._answering(rows, seconds):
            return list(await asyncio.gather(*(row.future for row in rows)))

    def stream(self, work: Work, inputs: Sequence[Any], seconds: float) -> "Stream":
        """Return the answers to some inputs as a stream. Raise RequestError if the queue is full."""
        loop, pieces = asyncio.get_running_loop(), asyncio.Queue[tuple[int, str | None]]()

        def row(place: int, value: Any) -> Row:
            found = Row(work, value, loop.create_future(), lambda it: call_in(loop, pieces.put_nowait, (place, it)))
            found.future.add_done_callback(lambda _: pieces.put_nowait((place, None)))
            return found

        rows = [row(place, value) for place, value in enumerate(inputs)]
        self._add(rows)
        return Stream(rows, pieces, loop.time() + seconds, self._late)

    @asynccontextmanager
    async def _answering(self, rows: list[Row], seconds: float) -> AsyncIterator[None]:
        """Let rows wait for their turn. Those that aren't answered at the end of the `with` block are dropped."""
        self._add(rows)
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            raise self._late(rows) from None
        finally:
            for row in rows:
                row.future.cancel()

    def close(self) -> None:
        """End the thread when everything that waits is answered, and nothing has come for a moment."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _add(self, rows: list[Row]) -> None:
        with self._changed:
            if self._ended:
                raise RequestError(503, "the model is being replaced", fix="try again", headers={"Retry-After": "1"})
            if len(rows) > self._most:
                what, expected = f"the request has {len(rows):,} lines or texts", f"at most {self._most:,}"
                raise RequestError(400, what, expected=expected, fix="send several requests")
            if len(self._waiting) + len(rows) > self._most:
                what = f"{self.waiting:,} texts wait already, so there's no room for {len(rows):,} more"
                raise RequestError(
                    429, what, expected=f"at most {self._most:,}", fix="try again later", headers=self._later()
                )
            self._waiting.extend(rows)
            self._changed.notify()

    def _late(self, rows: list[Row]) -> RequestError:
        """Return the error for inputs that took too long."""
        what = "there was no answer in time"
        if all(row.begun for row in rows):
            return RequestError(504, what, fix="ask for less at a time")
        return RequestError(429, what, fix="try again later", headers=self._later())

    def _later(self) -> dict[str, str]:
        return {"Retry-After": str(max(1, round(self.waiting * self._seconds_per_row)))}

    # --- on the thread

    def check_wanted(self) -> None:
        """Raise AbandonedError if nobody waits any more for what is being computed."""
        if all(row.future.cancelled() for row in self._computing):
            raise AbandonedError

    def _answer_all(self) -> None:
        while True:
            with self._changed:
                while not (self._waiting or self._groups or self._closed):
                    self._changed.wait()
                if not (self._waiting or self._groups) and not self._changed.wait(_MOMENT):
                    self._ended = True  # requests that found the model before it was replaced have come by now
                    return
                waiting, self._waiting = self._waiting, deque()
            left = self._begin_all(waiting)
            with self._changed:
                self._waiting.extendleft(reversed(left))
            for work in list(self._groups):
                self._step(work)

    def _begin_all(self, waiting: Collection[Row]) -> list[Row]:
        """Let rows join their groups, and return those that wait for room or for company."""
        counts = Counter(row.work for row in waiting)
        left, full = [], {work for work, count in counts.items() if self._waits_for_company(work, count)}
        for row in waiting:
            if row.future.cancelled():
                continue
            if row.work in full or not self._begin(row):
                full.add(row.work)
                left.append(row)
        return left

    def _waits_for_company(self, work: Work, count: int) -> bool:
        """Return whether rows wait for others, because joining costs a running group about as much as a step."""
        active = self._groups.get(work)
        return active is not None and count < _SHARE * len(active.rows) and active.steps < _PATIENCE

    def _begin(self, row: Row) -> bool:
        """Let a row join its group. Return False if there's no room."""
        try:
            active = self._groups.get(row.work) or _Active(self._open(row.work), {})
            if not active.group.has_room():
                return False
            active.rows[active.group.add(row.value, row.on_piece)] = row
        except Exception as error:
            settle_all([(row, error)])
            return True
        self._groups[row.work], active.steps, row.begun = active, 0, True
        return True

    def _step(self, work: Work) -> None:
        """Drop what nobody waits for, compute for a while, and pass on what is done."""
        active = self._groups[work]
        group, rows = active.group, active.rows
        for number in [number for number, row in rows.items() if row.future.cancelled()]:
            group.drop(number)
            del rows[number]
        if rows:
            started, active.steps, self._computing = time.perf_counter(), active.steps + 1, list(rows.values())
            try:
                done = [(rows.pop(number), answer) for number, answer in group.step()]
            except Exception as error:
                done = [(row, error) for row in rows.values()]
                rows.clear()
            self._measure(time.perf_counter() - started, len(done))
            settle_all(done)
        if not rows:
            group.close()
            del self._groups[work]

    def _measure(self, seconds: float, done: int) -> None:
        """Update the average time between answers."""
        self._seconds += seconds
        if done:
            self._seconds_per_row += _WEIGHT * (self._seconds / done - self._seconds_per_row)
            self._seconds = 0.0
