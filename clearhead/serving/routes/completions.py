"""POST /v1/completions and /v1/chat/completions, shaped like OpenAI's."""

import secrets
import time
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Annotated, Any, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ...apps.language_model import LanguageModel
from ...apps.token_scores import Completed, TokenScores
from ...tokenization.chat_template import ASSISTANT
from ..bodies import from_json, json_response
from ..groups import Seeded
from ..limits import RequestError, RequestLimits
from ..served_models import ServedModel
from ..work import Work
from .asking import answered, event_stream, shelf_of

_AT_MOST_5 = msgspec.Meta(ge=0, le=5)
_Stop = Annotated[str, msgspec.Meta(min_length=1)]
_TOKENS = 16  # OpenAI's default
UNUSED: Mapping[str, Any] = {"presence_penalty": 0, "frequency_penalty": 0, "suffix": None, "logit_bias": None}


class StreamOptions(msgspec.Struct, forbid_unknown_fields=True):
    """Options of a stream."""

    include_usage: bool = False
    include_obfuscation: bool = False  # has no effect


class Sampling(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Fields of both bodies: the model, and how it answers."""

    model: str
    max_tokens: Annotated[int, msgspec.Meta(ge=0)] | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    n: Annotated[int, msgspec.Meta(ge=1)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    stop: _Stop | Annotated[list[_Stop], msgspec.Meta(max_length=4)] | None = None
    seed: int | None = None
    user: str | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None

    @property
    def stops(self) -> tuple[str, ...]:
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    @property
    def choices(self) -> int:
        """The number of choices per prompt."""
        return self.n or 1

    def check_options(self, limits: RequestLimits) -> None:
        """Raise RequestError for what isn't supported, or exceeds a limit."""
        for name, neutral in UNUSED.items():
            if (value := getattr(self, name, None)) and value != neutral:
                raise RequestError(400, f"{name} isn't supported", fix="leave it out", name=name, value=value)
        limits.check("n", self.choices, limits.n)
        limits.check("max_tokens", self.max_tokens or 0, limits.tokens)
        limits.check_texts([*self.stops], "stop")

    def search(self, tokens: int, stop: Sequence[str]) -> dict[str, Any]:
        """Return the options of a writer. Without temperature, the most likely tokens are taken."""
        options: dict[str, Any] = {"max_len": max(tokens, 1), "n_best": 1, "stop": stop, "writes": tokens > 0}
        temperature = 1.0 if self.temperature is None else self.temperature
        options |= {"beam": 1, "sample": False} if temperature == 0 else {"sample": True, "temperature": temperature}
        if options["sample"] and self.top_p is not None:
            options["top_p"] = self.top_p
        return options

    def seeded(self, prompts: Sequence[Any]) -> list[Seeded]:
        """Return all choices of the first prompt, then those of the second, and so on, each with its seed."""
        seed = secrets.randbits(31) if self.seed is None else self.seed % 2**63
        return [Seeded(prompt, seed + n) for prompt in prompts for n in range(self.choices)]


class Completion(Sampling, kw_only=True):
    """Body of /v1/completions."""

    prompt: str | Annotated[list[str], msgspec.Meta(min_length=1)] = ""
    best_of: int | None = None
    logprobs: Annotated[int, _AT_MOST_5] | None = None
    echo: bool | None = None
    suffix: str | None = None

    @property
    def prompts(self) -> list[str]:
        return [self.prompt] if isinstance(self.prompt, str) else self.prompt

    def check(self, limits: RequestLimits) -> None:
        self.check_options(limits)
        if self.best_of not in (None, self.choices):
            raise RequestError(400, "best_of isn't supported", expected=f"n={self.choices}", name="best_of")
        limits.check_texts(self.prompts, "prompt")
        limits.check_count(len(self.prompts) * self.choices, "prompt")

    def work(self) -> Work:
        """Return what to do with each prompt."""
        options = self.search(_TOKENS if self.max_tokens is None else self.max_tokens, self.stops)
        scored = {"top": self.logprobs, "echo": self.logprobs is not None and bool(self.echo)}
        return Work.of("completions", options | scored)

    def rows(self) -> list[Seeded]:
        """Return all choices of all prompts; see `seeded`."""
        return self.seeded(self.prompts)


async def completions(request: Request) -> Response:
    """Complete prompts."""
    body = from_json(await request.body(), Completion)
    shelf = shelf_of(request)
    body.check(shelf.limits)
    model, work = shelf.find(body.model, "generate"), body.work()
    if body.stream:
        return await event_stream(request, _events(request, model, body), b"[DONE]")
    found = await answered(request, model, work, body.rows())
    choices = [_choice(number, it, it.continuation.text, body) for number, it in enumerate(found)]
    return json_response(
        _head(model, "cmpl", "text_completion") | {"choices": choices, "usage": _usage_of(found, body)}
    )


async def _events(request: Request, model: ServedModel, body: Completion) -> AsyncGenerator[dict[str, Any], None]:
    """Yield the pieces of all choices as they come. A choice's last event has its log-probabilities and reason."""
    rows, head, found = body.rows(), _head(model, "cmpl", "text_completion"), dict[int, Completed]()
    request.state.texts.extend(body.prompts)
    async with aclosing(model.stream(body.work(), rows)) as stream:
        echoes = [_piece(number, row.text) for number, row in enumerate(rows) if body.echo]
        async for number, piece, answer in stream:
            while echoes:
                yield head | {"choices": [echoes.pop(0)]}
            if piece is None:
                found[number] = answer
                yield head | {"choices": [_choice(number, answer, "", body)]}
            else:
                yield head | {"choices": [_piece(number, piece)]}
    if body.stream_options is not None and body.stream_options.include_usage:
        yield head | {"choices": [], "usage": _usage_of([found[number] for number in range(len(rows))], body)}


def _head(model: ServedModel, prefix: str, kind: str) -> dict[str, Any]:
    return {"id": f"{prefix}-{uuid.uuid4().hex}", "object": kind, "created": int(time.time()), "model": model.name}


def _piece(number: int, text: str) -> dict[str, Any]:
    return {"index": number, "text": text, "logprobs": None, "finish_reason": None}


def _choice(number: int, found: Completed, text: str, body: Completion) -> dict[str, Any]:
    prompt = body.prompts[number // body.choices]
    whole = prompt + text if body.echo and not body.stream else text
    logprobs = None if body.logprobs is None else _logprobs(found.scores, body.logprobs)
    return {"index": number, "text": whole, "logprobs": logprobs, "finish_reason": _finish_reason(found, body)}


def _finish_reason(found: Completed, body: Sampling) -> str:
    """Return why an answer ended."""
    return "length" if found.continuation.why == "tokens" or body.max_tokens == 0 else "stop"


def _logprobs(scores: TokenScores, top: int) -> dict[str, Any]:
    """Return the log-probability of each token, its alternatives and itself, and where it begins."""
    places = zip(scores.alternatives, scores.tokens, scores.logprobs)
    said = [None if most is None else {token: value, **most} for most, token, value in places]
    return {
        "tokens": scores.tokens,
        "token_logprobs": scores.logprobs,
        "top_logprobs": said if top else None,
        "text_offset": scores.offsets,
    }


def _usage_of(found: Sequence[Completed], body: Sampling) -> dict[str, int]:
    """Count tokens. Each prompt counts once, and so does an end token."""
    prompt = sum(it.prompt_tokens for it in found[:: body.choices])
    written = sum(len(it.continuation.logprobs) for it in found)
    return {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written}


# --- chat


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
        return await event_stream(request, _chat_events(request, model, body, work), b"[DONE]")
    found = await answered(request, model, work, body.seeded([body.conversation()]))
    choices = [
        _chat_choice(number, _finish_reason(it, body), message={"role": ASSISTANT, "content": it.continuation.text})
        for number, it in enumerate(found)
    ]
    return json_response(
        _head(model, "chatcmpl", "chat.completion") | {"choices": choices, "usage": _usage_of(found, body)}
    )


async def _chat_events(
    request: Request, model: ServedModel, body: ChatCompletion, work: Work
) -> AsyncGenerator[dict[str, Any], None]:
    """Yield the pieces of all choices as they come. A choice's first event has the role, the last one the reason."""
    rows, found = body.seeded([body.conversation()]), dict[int, Completed]()
    head = _head(model, "chatcmpl", "chat.completion.chunk")
    request.state.texts.extend(rows)
    async with aclosing(model.stream(work, rows)) as stream:
        begun = set[int]()
        async for number, piece, answer in stream:
            if number not in begun:
                begun.add(number)
                yield head | {"choices": [_chat_choice(number, None, delta={"role": ASSISTANT, "content": ""})]}
            if piece is None:
                found[number] = answer
                yield head | {"choices": [_chat_choice(number, _finish_reason(answer, body), delta={})]}
            else:
                yield head | {"choices": [_chat_choice(number, None, delta={"content": piece})]}
    if body.stream_options is not None and body.stream_options.include_usage:
        yield head | {"choices": [], "usage": _usage_of([found[number] for number in range(len(rows))], body)}


def _chat_choice(number: int, reason: str | None, **content: Any) -> dict[str, Any]:
    return {"index": number, **content, "logprobs": None, "finish_reason": reason}
