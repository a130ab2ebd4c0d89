"""Routes shaped like OpenAI's: the list of models, transcriptions, and what isn't served."""

import time
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from ..bodies import json_response
from ..limits import RequestError
from ..served_models import ServedModel
from ..work import Work
from .asking import answered, shelf_of
from .fields import Fields
from .uploads import expect_modality, is_upload, uploaded_files

_STARTED = int(time.time())


def _described(model: ServedModel) -> dict[str, Any]:
    return {"id": model.name, "object": "model", "created": _STARTED, "owned_by": "clearhead", "task": model.verb}


async def list_models(request: Request) -> Response:
    """List all models."""
    models = shelf_of(request).models.values()
    return json_response({"object": "list", "data": [_described(model) for model in models]})


async def show_model(request: Request) -> Response:
    """Describe one model."""
    return json_response(_described(shelf_of(request).find(request.path_params["name"])))


async def chat(_: Request) -> Response:
    """Answer that there's no chat."""
    raise RequestError(
        404, "Clearhead serves no chat models", expected="a text to continue", fix="use POST /v1/completions"
    )


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
            raise RequestError(
                400, f"response_format={form!r} isn't supported", expected="json or text", name="response_format"
            )
        for name in (
            "language",
            "temperature",
            "prompt",
        ):  # without effect here
            given.take(name, str)
        if len(files) > 1:
            raise RequestError(400, f"there are {len(files)} files", expected="one", name="file")
        work = Work.of("results", given.search(model))
        [found] = await answered(request, model, work, [str(it.path) for it in files])
    return PlainTextResponse(found.text + "\n") if form == "text" else json_response({"text": found.text})
