"""The page at /, and the answers that it shows. docs/architecture.md describes what it asks for."""

import asyncio
import base64
import binascii
from collections.abc import Iterable
from tempfile import TemporaryDirectory

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from ...inspection.page.document import served_document
from ..bodies import JSON, expect_json, from_json
from ..limits import RequestError
from ..served_models import ServedModel
from ..work import Work
from .asking import answered, shelf_of
from .uploads import check_pixels, expect_modality, saved


class File(msgspec.Struct):
    """An image or a recording."""

    name: str
    b64: str


class PageQuestion(msgspec.Struct, forbid_unknown_fields=True):
    """Body of /api/page."""

    model: str | None = None
    text: str = ""
    context: str = ""
    file: File | None = None
    prefix: list[int] = []
    off: list[str] = []


async def home(request: Request) -> Response:
    """Return the page, which asks /api/page for answers."""
    models = shelf_of(request).models.values()
    document = await asyncio.to_thread(_home, models)
    return HTMLResponse(document, headers={"Content-Security-Policy": "frame-ancestors 'none'"})


def _home(models: Iterable[ServedModel]) -> str:
    return served_document(
        [{"name": it.name, "task": it.verb, "reads": it.modality, "examples": it.examples} for it in models]
    )


async def page(request: Request) -> Response:
    """Return everything that the page shows about one answer."""
    expect_json(request.headers.get("content-type", ""))
    asked = from_json(await request.body(), PageQuestion)
    shelf = shelf_of(request)
    model = shelf.find(asked.model)
    shelf.limits.check_texts([asked.text], "text")
    shelf.limits.check("the number of parts off", len(asked.off), shelf.limits.tokens)
    shelf.limits.check("the length of prefix", len(asked.prefix), shelf.limits.tokens)
    options = {"name": model.name, "off": asked.off, "prefix": asked.prefix, "context": asked.context}
    work = Work.of("pages", {name: value for name, value in options.items() if value})
    if asked.file is None:
        return await _answer(request, model, work, _text(model, asked))
    expect_modality(model)
    with TemporaryDirectory(prefix="clearhead-") as folder:
        content = await asyncio.to_thread(_decoded, asked.file)
        file = await saved(asked.file.name, content, folder)
        with file.named():
            await check_pixels(model, file)
            return await _answer(request, model, work, str(file.path))


async def _answer(request: Request, model: ServedModel, work: Work, source: str) -> Response:
    [found] = await answered(request, model, work, [source])
    return Response(found, media_type=JSON)


def _text(model: ServedModel, asked: PageQuestion) -> str:
    if model.modality != "text":  # a path in the body would be read on this machine
        raise RequestError(400, f"the model {model.name!r} reads {model.reads}", expected="a file", name="file")
    return asked.text


def _decoded(file: File) -> bytes:
    try:
        return base64.b64decode(file.b64, validate=True)
    except (binascii.Error, ValueError) as error:
        what, expected = "the file isn't base64", "letters, digits, + and /, padded with ="
        raise RequestError(400, what, expected=expected, name="file") from error
