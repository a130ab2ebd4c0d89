"""Answer a request with a model, as long as its client is there."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

from starlette.requests import ClientDisconnect, Request

from ..served_models import ModelShelf, ServedModel
from ..work import Work


def shelf_of(request: Request) -> ModelShelf:
    """Return the models that the server has loaded."""
    return cast(ModelShelf, request.app.state.shelf)


async def answered(request: Request, model: ServedModel, work: Work, inputs: Sequence[Any]) -> list[Any]:
    """Return an answer to each input.

    Raises:
        ClientDisconnect: the client left. Inputs that still wait are dropped.
        RequestError: the queue is full, or there's no answer in time.
        ClearheadError: an input can't be answered.
    """
    request.state.texts.extend(inputs)
    answers = asyncio.ensure_future(model.answers(work, inputs))
    gone = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait((answers, gone), return_when=asyncio.FIRST_COMPLETED)
        if not answers.done():
            raise ClientDisconnect
        return answers.result()
    finally:
        for task in (answers, gone):
            task.cancel()
        await asyncio.wait((answers, gone))


async def _gone(request: Request) -> None:
    """Wait until the client disconnects."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
