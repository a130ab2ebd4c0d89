"""POST /v1/embeddings, shaped like OpenAI's."""

import base64
from typing import Annotated, Any, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ...apps.answers import Embedded
from ..bodies import expect_json, from_json, json_response
from ..work import Work
from .asking import answered, shelf_of
from .uploads import expect_text


class Embeddings(msgspec.Struct, forbid_unknown_fields=True):
    """Body of /v1/embeddings."""

    model: str
    input: str | Annotated[list[str], msgspec.Meta(min_length=1)]
    encoding_format: Literal["float", "base64"] | None = None
    user: str | None = None


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
