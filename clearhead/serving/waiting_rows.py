"""Inputs that wait for their answers, and answers that come in pieces."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

from .limits import RequestError
from .work import Work

OnPiece: TypeAlias = Callable[[str], None]


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


class Stream:
    """Asynchronous iterator over the pieces of several answers as they come, each with the index of its input.

    A piece of None ends an answer. The whole answer is then in `answer(index)`.

    Raises:
        RequestError: there's no answer in time.
        ClearheadError: an input can't be answered.

    Args:
        rows: the inputs.
        pieces: a queue of the pieces.
        deadline: time of the event loop at which the answers are given up.
        late: returns the error for that.
    """

    def __init__(
        self,
        rows: list[Row],
        pieces: "asyncio.Queue[tuple[int, str | None]]",
        deadline: float,
        late: Callable[[list[Row]], RequestError],
    ) -> None:
        self._rows, self._pieces, self._deadline, self._late = rows, pieces, deadline, late
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
            raise self._late(self._rows) from None
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


def settle_all(done: list[tuple[Row, Any]]) -> None:
    """Pass answers on in the event loop that waits for them."""

    def settle() -> None:
        for row, answer in done:
            row.settle(answer)

    if done:
        call_in(done[0][0].future.get_loop(), settle)


def call_in(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *arguments: Any) -> None:
    """Call a function in an event loop, unless the server has stopped."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *arguments)
