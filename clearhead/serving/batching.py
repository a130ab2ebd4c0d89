"""A queue in front of a model. One thread answers what waits, inputs with the same work together.

While some inputs are being answered, the next ones gather, so that batches grow with the load and nobody waits without
it.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeAlias

from ..errors import ClearheadError
from .limits import RequestError
from .work import Work

OnPiece: TypeAlias = Callable[[str], None]
_WEIGHT = 0.1  # of the newest time per input in the average


class Group(Protocol):
    """Inputs with the same work that are being answered. Only the thread of a `Batcher` uses it."""

    def __len__(self) -> int: ...

    def has_room(self) -> bool:
        """Return whether another input may join now."""

    def add(self, value: Any, on_piece: OnPiece | None) -> int:
        """Let an input join, and return its number. Raise ClearheadError if it can't be read.

        Args:
            value: the input.
            on_piece: called with each piece of the answer.
        """

    def drop(self, number: int) -> None:
        """Give up an input."""

    def step(self) -> list[tuple[int, Any]]:
        """Compute for a while, and return the numbers and answers, or exceptions, of those that are done."""

    def close(self) -> None:
        """Give up all inputs."""


@dataclass(eq=False)
class Row:
    """One input of a request, and the future of its answer."""

    work: Work
    value: Any
    future: "asyncio.Future[Any]"
    on_piece: OnPiece | None = None
    begun: bool = False

    def settle(self, answer: Any) -> None:
        """Pass the answer or the exception on to who waits for it."""
        if self.future.done():
            return
        if isinstance(answer, Exception):
            self.future.set_exception(answer)
        else:
            self.future.set_result(answer)


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
        self._groups: dict[Work, tuple[Group, dict[int, Row]]] = {}
        self._changed, self._closed = threading.Condition(), False
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
        return sum(len(rows) for _, rows in list(self._groups.values()))

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
            found = Row(work, value, loop.create_future(), lambda it: _call(loop, pieces.put_nowait, (place, it)))
            found.future.add_done_callback(lambda _: pieces.put_nowait((place, None)))
            return found

        rows = [row(place, value) for place, value in enumerate(inputs)]
        self._add(rows)
        return Stream(self, rows, pieces, loop.time() + seconds)

    @asynccontextmanager
    async def _answering(self, rows: list[Row], seconds: float) -> AsyncIterator[None]:
        """Let rows wait for their turn. Those that aren't answered at the end of the `with` block are dropped."""
        self._add(rows)
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            raise self.late(begun=all(row.begun for row in rows)) from None
        finally:
            for row in rows:
                row.future.cancel()

    def close(self) -> None:
        """End the thread when everything that waits is answered."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _add(self, rows: list[Row]) -> None:
        with self._changed:
            if self._closed:
                raise RequestError(503, "the model is being replaced", fix="try again", headers={"Retry-After": "1"})
            if len(self._waiting) + len(rows) > self._most:
                what = f"{self.waiting:,} texts wait already, so there's no room for {len(rows):,} more"
                raise RequestError(
                    429, what, expected=f"at most {self._most:,}", fix="try again later", headers=self._later()
                )
            self._waiting.extend(rows)
            self._changed.notify()

    def late(self, *, begun: bool) -> RequestError:
        """Return the error for a request that took too long."""
        what = "there was no answer in time"
        if begun:
            return RequestError(504, what, fix="ask for less at a time")
        return RequestError(429, what, fix="try again later", headers=self._later())

    def _later(self) -> dict[str, str]:
        return {"Retry-After": str(max(1, round(self.waiting * self._seconds_per_row)))}

    # --- on the thread

    def _answer_all(self) -> None:
        while True:
            with self._changed:
                while not (self._waiting or self._groups or self._closed):
                    self._changed.wait()
                waiting, self._waiting = self._waiting, deque()
                if self._closed and not (waiting or self._groups):
                    return
            left = self._begin_all(waiting)
            with self._changed:
                self._waiting.extendleft(reversed(left))
            for work in list(self._groups):
                self._step(work)

    def _begin_all(self, waiting: Iterable[Row]) -> list[Row]:
        """Let rows join their groups, and return those for which there's no room."""
        left, full = [], set[Work]()
        for row in waiting:
            if row.future.cancelled():
                continue
            if row.work in full or not self._begin(row):
                full.add(row.work)
                left.append(row)
        return left

    def _begin(self, row: Row) -> bool:
        """Let a row join its group. Return False if there's no room."""
        try:
            group, rows = self._groups.get(row.work) or (self._open(row.work), {})
            if not group.has_room():
                return False
            rows[group.add(row.value, row.on_piece)] = row
        except Exception as error:
            _settle([(row, error)])
            return True
        self._groups[row.work], row.begun = (group, rows), True
        return True

    def _step(self, work: Work) -> None:
        """Drop what nobody waits for, compute for a while, and pass on what is done."""
        group, rows = self._groups[work]
        for number in [number for number, row in rows.items() if row.future.cancelled()]:
            group.drop(number)
            del rows[number]
        if rows:
            started = time.perf_counter()
            try:
                done = [(rows.pop(number), answer) for number, answer in group.step()]
            except Exception as error:
                done = [(row, error) for row in rows.values()]
                rows.clear()
            self._measure(time.perf_counter() - started, len(done))
            _settle(done)
        if not rows:
            group.close()
            del self._groups[work]

    def _measure(self, seconds: float, done: int) -> None:
        """Update the average time between answers."""
        self._seconds += seconds
        if done:
            self._seconds_per_row += _WEIGHT * (self._seconds / done - self._seconds_per_row)
            self._seconds = 0.0


class Stream:
    """Asynchronous iterator over the pieces of several answers as they come, each with the index of its input.

    A piece of None ends an answer. The whole answer is then in `answer(index)`.

    Raises:
        RequestError: there's no answer in time.
        ClearheadError: an input can't be answered.
    """

    def __init__(
        self, batcher: Batcher, rows: list[Row], pieces: "asyncio.Queue[tuple[int, str | None]]", deadline: float
    ) -> None:
        self._batcher, self._rows, self._pieces, self._deadline = batcher, rows, pieces, deadline
        self._left = len(rows)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> tuple[int, str | None]:
        if not self._left:
            raise StopAsyncIteration
        left = self._deadline - asyncio.get_running_loop().time()
        try:
            place, piece = await asyncio.wait_for(self._pieces.get(), max(left, 0))
        except TimeoutError:
            raise self._batcher.late(begun=all(row.begun for row in self._rows)) from None
        if piece is None:
            self._left -= 1
            self.answer(place)  # raises the error, if there was one
        return place, piece

    def answer(self, index: int) -> Any:
        """Return a whole answer, or raise its error."""
        return self._rows[index].future.result()

    def close(self) -> None:
        """Give up the answers that aren't complete."""
        for row in self._rows:
            row.future.cancel()


class AtOnce:
    """A group whose inputs are all answered in one step.

    Args:
        run: returns the answers to some inputs, in the same order.
        most: maximum number of inputs at a time.
    """

    def __init__(self, run: Callable[[list[Any]], Sequence[Any]], *, most: int) -> None:
        self._run, self._most, self._next = run, most, 0
        self._inputs: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self._inputs)

    def has_room(self) -> bool:
        """Return whether another input may join now."""
        return len(self._inputs) < self._most

    def add(self, value: Any, on_piece: OnPiece | None) -> int:
        """Let an input join, and return its number. There are no pieces."""
        self._next += 1
        self._inputs[self._next] = value
        return self._next

    def drop(self, number: int) -> None:
        """Give up an input."""
        self._inputs.pop(number, None)

    def step(self) -> list[tuple[int, Any]]:
        """Answer all inputs. One that can't be answered fails no other."""
        inputs, self._inputs = self._inputs, {}
        return list(zip(inputs, self._answers(list(inputs.values())), strict=True))

    def _answers(self, inputs: list[Any]) -> list[Any]:
        try:
            return list(self._run(inputs))
        except ClearheadError as error:
            if len(inputs) == 1:
                return [error]
            return [answer for value in inputs for answer in self._answers([value])]

    def close(self) -> None:
        """Give up all inputs."""
        self._inputs.clear()


def _settle(done: list[tuple[Row, Any]]) -> None:
    """Pass answers on in the event loop that waits for them."""

    def settle() -> None:
        for row, answer in done:
            row.settle(answer)

    if done:
        _call(done[0][0].future.get_loop(), settle)


def _call(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *arguments: Any) -> None:
    """Call a function in an event loop, unless the server has stopped."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *arguments)
