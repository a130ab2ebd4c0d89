"""Answer a request with a model while its client is connected, in one piece or as server-sent events."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Sequence
from typing import Any, TypeVar, cast

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from ...errors import ClearheadError
from ..bodies import error_body, json_bytes
from ..served_models import ModelShelf, ServedModel
from ..work import Work

T = TypeVar("T")
Events = AsyncGenerator[Any, None]


def shelf_of(request: Request) -> ModelShelf:
    """Return the models that the server has loaded."""
    return cast(ModelShelf, request.app.state.shelf)


async def answered(request: Request, model: ServedModel, work: Work, inputs: Sequence[Any]) -> list[Any]:
    """Return an answer to each input; see `Batcher.answers`. Raise ClientDisconnect as soon as the client leaves.

    Args:
        request: the request, whose inputs may be logged.
        model: the model to ask.
        work: what it does with the inputs.
        inputs: N inputs, such as texts.
    """
    request.state.texts.extend(inputs)
    return await _while_connected(request, model.answers(work, inputs))


async def _while_connected(request: Request, awaited: Awaitable[T]) -> T:
    """Return a result, or raise ClientDisconnect as soon as the client leaves."""
    asking, waits = cast("asyncio.Task[Any]", asyncio.current_task()), True

    def leave(_: "asyncio.Task[None]") -> None:
        if waits:
            asking.cancel()

    gone = asyncio.ensure_future(_gone(request))
    gone.add_done_callback(leave)
    try:
        return await awaited
    except asyncio.CancelledError:
        if gone.done() and asking.uncancel() == 0:  # cancelled by nobody else
            raise ClientDisconnect from None
        raise
    finally:
        waits = False
        gone.cancel()


async def _gone(request: Request) -> None:
    """Wait until the client disconnects."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


class _EventStream(StreamingResponse):
    """A response that closes its generator at the end, also if the client leaves earlier."""

    def __init__(self, events: Events, lines: AsyncIterator[bytes]) -> None:
        super().__init__(lines, media_type="text/event-stream")
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._events.aclose()


async def event_stream(request: Request, events: Events, done: bytes = b"") -> Response:
    """Return a response that sends events as JSON.

    An error before the first event is raised. A later one is sent as the last event.

    Args:
        request: the request to answer.
        events: values for JSON. The generator is closed when the client leaves.
        done: data of an additional last event, such as [DONE].
    """
    first = await _while_connected(request, anext(events, None))  # None: the request has no texts

    async def lines() -> AsyncIterator[bytes]:
        if first is not None:
            yield _line(json_bytes(first))
        try:
            async for event in events:
                yield _line(json_bytes(event))
        except ClearheadError as error:
            yield _line(json_bytes(error_body(request.url.path, error)))
        else:
            if done:
                yield _line(done)

    return _EventStream(events, lines())


def _line(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"
