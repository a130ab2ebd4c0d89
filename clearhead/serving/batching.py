"""A queue in front of a model. One thread answers the waiting inputs, those with the same work together.

While some inputs are being answered, the next ones gather, so that batches grow with the load and none waits without
it.
"""

import asyncio
import threading
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Collection, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from .groups import Group, OnPiece
from .limits import RequestError

_SHARE, _PATIENCE = 0.25, 8  # of a group's size, and in steps: inputs wait until so many can join together
_MOMENT = 0.2  # seconds
_WEIGHT = 0.1  # of the newest time per input in the average


class AbandonedError(Exception):
    """No client waits for the current computation any more."""


@dataclass(eq=False)
class _Row:
    """One input of a request, and the future of its answer."""

    work: Hashable
    value: Any
    future: "asyncio.Future[Any]"
    on_piece: OnPiece | None = None
    begun: bool = False


@dataclass
class _Active:
    """A group with its rows by number, and the steps since one joined."""

    group: Group
    rows: dict[int, _Row]
    steps: int = 0


class Batcher:
    """Answers inputs on a separate thread, those with equal work together, while at most `most` others wait.

    `open_group` returns an empty group for some work. It raises ClearheadError if the model can't do it.
    """

    def __init__(self, open_group: Callable[[Any], Group], *, most: int, name: str) -> None:
        self._open, self._most = open_group, most
        self._waiting: deque[_Row] = deque()
        self._groups: dict[Hashable, _Active] = {}
        self._computing: list[_Row] = []
        self._changed, self._closed, self._ended = threading.Condition(), False, False
        self._seconds, self._seconds_per_row = 0.0, 0.0
        self._thread = threading.Thread(target=self._answer_all, name=name, daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """The number of waiting inputs."""
        return len(self._waiting)

    @property
    def busy(self) -> int:
        """The number of inputs that are being answered."""
        return sum(len(it.rows) for it in list(self._groups.values()))

    async def answers(self, work: Hashable, inputs: Sequence[Any], seconds: float) -> list[Any]:
        """Return an answer to each input. If the caller is cancelled, the inputs are dropped.

        Args:
            work: what to do with the inputs. Those with equal work are answered together.
            inputs: N inputs, such as texts.
            seconds: time until the answers must be there.

        Raises:
            RequestError: the queue is full, or there's no answer in time.
            ClearheadError: one of the inputs can't be answered.
        """
        rows = [_Row(work, value, asyncio.get_running_loop().create_future()) for value in inputs]
        self._add(rows)
        try:
            async with asyncio.timeout(seconds):
                return list(await asyncio.gather(*(row.future for row in rows)))
        except TimeoutError:
            raise self._late(rows) from None
        finally:
            for row in rows:
                row.future.cancel()

    async def stream(
        self, work: Hashable, inputs: Sequence[Any], seconds: float
    ) -> AsyncGenerator[tuple[int, str | None, Any], None]:
        """Yield the pieces of several answers as they come, each with the index of its input: (index, piece, None).

        At the end of an answer, yield (index, None, answer). When the generator is closed, the inputs are dropped.

        Args:
            work: what to do with the inputs. Those with equal work are answered together.
            inputs: N inputs, such as texts.
            seconds: time until the last answer must be there.

        Raises:
            RequestError: the queue is full, or there's no answer in time.
            ClearheadError: an input can't be answered.
        """
        loop, pieces = asyncio.get_running_loop(), asyncio.Queue[tuple[int, str | None]]()

        def row(place: int, value: Any) -> _Row:
            found = _Row(work, value, loop.create_future(), lambda it: call_in(loop, pieces.put_nowait, (place, it)))
            found.future.add_done_callback(lambda _: pieces.put_nowait((place, None)))
            return found

        rows = [row(place, value) for place, value in enumerate(inputs)]
        left, deadline = len(rows), loop.time() + seconds
        self._add(rows)
        try:
            while left:
                try:
                    place, piece = await asyncio.wait_for(pieces.get(), max(deadline - loop.time(), 0))
                except TimeoutError:
                    raise self._late(rows) from None
                left -= piece is None
                yield place, piece, rows[place].future.result() if piece is None else None
        finally:
            for each in rows:
                each.future.cancel()

    def close(self) -> None:
        """End the thread when everything that waits is answered, and nothing has come for a moment."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _add(self, rows: list[_Row]) -> None:
        with self._changed:
            if self._ended:
                raise RequestError(503, "the model is being replaced", fix="try again", headers={"Retry-After": "1"})
            if len(rows) > self._most:
                what, expected = f"the request has {len(rows):,} lines or texts", f"at most {self._most:,}"
                raise RequestError(400, what, expected=expected, fix="send several requests")
            if len(self._waiting) + len(rows) > self._most:
                what = f"{self.waiting:,} texts wait already, so there's no room for {len(rows):,} more"
                expected, fix = f"at most {self._most:,}", "try again later"
                raise RequestError(429, what, expected=expected, fix=fix, headers=self._later())
            self._waiting.extend(rows)
            self._changed.notify()

    def _late(self, rows: list[_Row]) -> RequestError:
        """Return the error for inputs that took too long."""
        what = "there was no answer in time"
        if all(row.begun for row in rows):
            return RequestError(504, what, fix="ask for less at a time")
        return RequestError(429, what, fix="try again later", headers=self._later())

    def _later(self) -> dict[str, str]:
        return {"Retry-After": str(max(1, round(self.waiting * self._seconds_per_row)))}

    # --- on the thread

    def check_wanted(self) -> None:
        """Raise AbandonedError if no client waits for the current computation any more."""
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

    def _begin_all(self, waiting: Collection[_Row]) -> list[_Row]:
        """Let rows join their groups, and return those that still wait."""
        counts = Counter(row.work for row in waiting)
        left, full = [], {work for work, count in counts.items() if self._waits_for_company(work, count)}
        for row in waiting:
            if row.future.cancelled():
                continue
            if row.work in full or not self._begin(row):
                full.add(row.work)
                left.append(row)
        return left

    def _waits_for_company(self, work: Hashable, count: int) -> bool:
        """Return whether rows wait for others, because joining costs a running group about as much as a step."""
        active = self._groups.get(work)
        return active is not None and count < _SHARE * len(active.rows) and active.steps < _PATIENCE

    def _begin(self, row: _Row) -> bool:
        """Let a row join its group. Return False if there's no room."""
        try:
            active = self._groups.get(row.work) or _Active(self._open(row.work), {})
            if not active.group.has_room():
                return False
            active.rows[active.group.add(row.value, row.on_piece)] = row
        except Exception as error:
            _settle_all([(row, error)])
            return True
        self._groups[row.work], active.steps, row.begun = active, 0, True
        return True

    def _step(self, work: Hashable) -> None:
        """Drop abandoned inputs, compute for a while, and hand out finished answers."""
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
            _settle_all(done)
        if not rows:
            group.close()
            del self._groups[work]

    def _measure(self, seconds: float, done: int) -> None:
        """Update the average time between answers."""
        self._seconds += seconds
        if done:
            self._seconds_per_row += _WEIGHT * (self._seconds / done - self._seconds_per_row)
            self._seconds = 0.0


def _settle_all(done: list[tuple[_Row, Any]]) -> None:
    """Pass answers and exceptions on in the event loop that waits for them."""

    def settle() -> None:
        for row, answer in done:
            if not row.future.done():
                row.future.set_exception(answer) if isinstance(answer, Exception) else row.future.set_result(answer)

    if done:
        call_in(done[0][0].future.get_loop(), settle)


def call_in(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *arguments: Any) -> None:
    """Call a function in an event loop, unless the server has stopped.

    Args:
        loop: an event loop in another thread.
        function: called there, at its next turn.
        arguments: the arguments of the function.
    """
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *arguments)
