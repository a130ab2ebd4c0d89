"""Routes shaped like OpenAI's: the list of models, embeddings, transcriptions and speech."""

import asyncio
import base64
import time
from typing import Annotated, Any, Literal, cast

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from ...apps.answers import Embedded
from ...apps.translator import Speaker
from ...readers.media.audio import wav_bytes
from ..bodies import expect_json, from_json, json_response
from ..limits import RequestError
from ..served_models import ServedModel
from ..work import Work
from .asking import answered, shelf_of
from .task_routes import Fields
from .uploads import expect_modality, expect_text, is_upload, uploaded_files

_STARTED = int(time.time())


class Embeddings(msgspec.Struct, forbid_unknown_fields=True):
    """Body of /v1/embeddings."""

    model: str
    input: str | Annotated[list[str], msgspec.Meta(min_length=1)]
    encoding_format: Literal["float", "base64"] | None = None
    user: str | None = None


class Speech(msgspec.Struct, forbid_unknown_fields=True):
    """Body of /v1/audio/speech. Clients have to send a voice, which has no effect if the model has none."""

    model: str
    input: str
    voice: str | None = None
    response_format: Literal["wav"] = "wav"


def _described(model: ServedModel) -> dict[str, Any]:
    return {"id": model.name, "object": "model", "created": _STARTED, "owned_by": "clearhead", "task": model.verb}


async def list_models(request: Request) -> Response:
    """List all models."""
    models = shelf_of(request).models.values()
    return json_response({"object": "list", "data": [_described(model) for model in models]})


async def show_model(request: Request) -> Response:
    """Describe one model."""
    return json_response(_described(shelf_of(request).find(request.path_params["name"])))


async def transcriptions(request: Request) -> Response:
    """Transcribe an uploaded recording."""
    if not is_upload(request):
        raise RequestError(415, "the recording is missing", expected="multipart/form-data with a file", name="file")
    async with uploaded_files(request) as (values, files):
        given = Fields(values)
        model = shelf_of(request).find(given.take("model", str | None), "transcribe")
        expect_modality(model, "audio")
        form = given.take("response_format", str, "json")
        if form not in ("json", "text"):
            what = f"response_format={form!r} isn't supported"
            raise RequestError(400, what, expected="json or text", name="response_format")
        for name in ("language", "temperature", "prompt"):  # without effect here
            given.take(name, str)
        if len(files) > 1:
            raise RequestError(400, f"there are {len(files)} files", expected="one", name="file")
        work = Work.of("results", given.search(model))
        [found] = await answered(request, model, work, [str(it.path) for it in files])
    return PlainTextResponse(found.text + "\n") if form == "text" else json_response({"text": found.text})


async def speech(request: Request) -> Response:
    """Speak a text, as a WAV file."""
    expect_json(request.headers.get("content-type", ""))
    body = from_json(await request.body(), Speech)
    model = shelf_of(request).find(body.model, "speak")
    if not body.input.strip():
        raise RequestError(400, "the text is blank", expected="a text to speak", name="input", value=body.input)
    model.limits.check_texts([body.input], "input")
    app, text = cast(Speaker, model.app), body.input
    if body.voice is not None and app.voices:
        text = app.voiced(text, body.voice)
    [found] = await answered(request, model, Work.of("results", {"n_best": 1}), [text])
    sound = await asyncio.to_thread(app.sound, found.text)
    return Response(wav_bytes(*sound), media_type="audio/wav")


async def embeddings(request: Request) -> Response:
    """Embed texts, as vectors."""
    expect_json(request.headers.get("content-type", ""))
    body = from_json(await request.body(), Embeddings)
    model = shelf_of(request).find(body.model)
    expect_text(model)
    texts = [body.input] if isinstance(body.input, str) else body.input
    model.limits.check_texts(texts, "input")
    found: list[tuple[Embedded, int]] = await answered(request, model, Work.of("counted_embeddings", {}), texts)
    data = [
        {"object": "embedding", "index": place, "embedding": _encoded(it, body.encoding_format)}
        for place, (it, _) in enumerate(found)
    ]
    tokens = sum(count for _, count in found)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return json_response({"object": "list", "data": data, "model": model.name, "usage": usage})


def _encoded(found: Embedded, form: str | None) -> Any:
    """Return a vector as numbers, or as the base64 form of little-endian float32 numbers."""
    if form == "base64":
        return base64.b64encode(found.embedding.astype("<f4").tobytes()).decode()
    return found.to_dict()["embedding"]
