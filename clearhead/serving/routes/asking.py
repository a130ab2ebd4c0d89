"""Answer a request with a model, as long as its client is there."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar, cast

from starlette.requests import ClientDisconnect, Request

from ..served_models import ModelShelf, ServedModel
from ..work import Work

T = TypeVar("T")


def shelf_of(request: Request) -> ModelShelf:
    """Return the models that the server has loaded."""
    return cast(ModelShelf, request.app.state.shelf)


async def answered(request: Request, model: ServedModel, work: Work, inputs: Sequence[Any]) -> list[Any]:
    """Return an answer to each input.

    Raises:
        ClientDisconnect: the client left. Inputs that aren't answered are dropped.
        RequestError: the queue is full, or there's no answer in time.
        ClearheadError: an input can't be answered.
    """
    request.state.texts.extend(inputs)
    return await while_connected(request, model.answers(work, inputs))


async def while_connected(request: Request, awaited: Awaitable[T]) -> T:
    """Return a result, or raise ClientDisconnect as soon as the client leaves."""
    answer, gone = asyncio.ensure_future(awaited), asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait((answer, gone), return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise ClientDisconnect
        return answer.result()
    finally:
        for task in (answer, gone):
            task.cancel()
        await asyncio.wait((answer, gone))


async def _gone(request: Request) -> None:
    """Wait until the client disconnects."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
