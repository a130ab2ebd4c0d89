"""Responses of server-sent events."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from ...errors import ClearheadError
from ..bodies import json_bytes
from ..error_shapes import error_body
from .asking import while_connected

Events = AsyncGenerator[Any, None]


class EventStream(StreamingResponse):
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
        events: the events. The generator is closed when the client leaves.
        done: data that is sent at the end.
    """
    first = await while_connected(request, anext(events, None))  # None: the request has no texts

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

    return EventStream(events, lines())


def _line(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"
