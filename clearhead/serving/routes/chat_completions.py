"""POST /v1/chat/completions, shaped like OpenAI's."""

import time
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ...apps.language_model import LanguageModel
from ...apps.token_scores import Completed
from ...tokenization.chat_template import ASSISTANT
from ..bodies import from_json, json_response
from ..limits import RequestError, RequestLimits
from ..served_models import ServedModel
from ..work import Work
from .asking import answered, event_stream, shelf_of
from .completions import Sampling, finish_reason, usage_of


class Message(msgspec.Struct, forbid_unknown_fields=True):
    """A message of a conversation."""

    role: str
    content: str


class ChatCompletion(Sampling, kw_only=True):
    """Body of /v1/chat/completions."""

    messages: Annotated[list[Message], msgspec.Meta(min_length=1)]
    max_completion_tokens: Annotated[int, msgspec.Meta(ge=0)] | None = None

    def check(self, limits: RequestLimits) -> None:
        self.check_options(limits)
        if self.max_completion_tokens is not None:  # the later name of the same field
            limits.check("max_completion_tokens", self.max_completion_tokens, limits.tokens)
            self.max_tokens = self.max_completion_tokens
        limits.check_lengths([it.content for it in self.messages], "messages")

    def work(self, model: ServedModel) -> Work:
        """Return the work for the conversation. By default, an answer is as long as the limit and the model allow.

        Raises:
            RequestError: the model has no chat template.
        """
        if not has_template(model):
            what = f"the model {model.name!r} has no chat template, so it can't answer messages"
            fix = "use POST /v1/completions, or a model trained on messages"
            raise RequestError(404, what, expected="a text to continue", fix=fix, name="model", value=model.name)
        tokens = min(model.limits.tokens, model.app.config.model.max_len)
        options = self.search(tokens if self.max_tokens is None else self.max_tokens, self.stops)
        return Work.of(
            "completions", cast(LanguageModel, model.app).answering(**options) | {"top": None, "echo": False}
        )

    def conversation(self) -> list[dict[str, str]]:
        return [{"role": it.role, "content": it.content} for it in self.messages]


def has_template(model: ServedModel) -> bool:
    """Return whether a model can answer messages."""
    return bool(model.app.config.data.template)


async def chat_completions(request: Request) -> Response:
    """Answer a conversation."""
    body = from_json(await request.body(), ChatCompletion)
    shelf = shelf_of(request)
    body.check(shelf.limits)
    model = shelf.find(body.model, "generate")
    work = body.work(model)
    if body.stream:
        return await event_stream(request, _events(request, model, body, work), b"[DONE]")
    found = await answered(request, model, work, body.seeded([body.conversation()]))
    choices = [
        _choice(number, finish_reason(it, body), message={"role": ASSISTANT, "content": it.continuation.text})
        for number, it in enumerate(found)
    ]
    return json_response(_head(model, "chat.completion") | {"choices": choices, "usage": usage_of(found, body)})


async def _events(
    request: Request, model: ServedModel, body: ChatCompletion, work: Work
) -> AsyncGenerator[dict[str, Any], None]:
    """Yield the pieces of all choices as they come. A choice's first event has the role, the last one the reason."""
    rows, found = body.seeded([body.conversation()]), dict[int, Completed]()
    head = _head(model, "chat.completion.chunk")
    request.state.texts.extend(rows)
    async with aclosing(model.stream(work, rows)) as stream:
        begun = set[int]()
        async for number, piece, answer in stream:
            if number not in begun:
                begun.add(number)
                yield head | {"choices": [_choice(number, None, delta={"role": ASSISTANT, "content": ""})]}
            if piece is None:
                found[number] = answer
                yield head | {"choices": [_choice(number, finish_reason(answer, body), delta={})]}
            else:
                yield head | {"choices": [_choice(number, None, delta={"content": piece})]}
    if body.stream_options is not None and body.stream_options.include_usage:
        yield head | {"choices": [], "usage": usage_of([found[number] for number in range(len(rows))], body)}


def _head(model: ServedModel, kind: str) -> dict[str, Any]:
    created = int(time.time())
    return {"id": f"chatcmpl-{uuid.uuid4().hex}", "object": kind, "created": created, "model": model.name}


def _choice(number: int, reason: str | None, **content: Any) -> dict[str, Any]:
    return {"index": number, **content, "logprobs": None, "finish_reason": reason}
