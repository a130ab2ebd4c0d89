"""Bodies of requests and responses: strict JSON, and forms."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ..config.values import finite
from .limits import RequestError

T = TypeVar("T")
JSON = "application/json"


def from_json(body: bytes, kind: type[T]) -> T:
    """Decode a JSON body.

    Raises:
        RequestError: it isn't strictly valid JSON, or not of this kind.
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        what = str(error).replace("`", "'").replace("$.", "")
        raise RequestError(400, f"the body doesn't fit: {what}", name=_field(str(error))) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        what = f"the body isn't valid JSON: {error}"
        raise RequestError(400, what, expected="a JSON object in UTF-8, without lone surrogates") from error


def as_object(value: object, kind: type[T]) -> T:
    """Check the fields of a form, whose numbers are strings. Raise RequestError if they don't fit."""
    try:
        return msgspec.convert(value, type=kind, strict=False)
    except msgspec.ValidationError as error:
        what = str(error).replace("`", "'").replace("$.", "")
        raise RequestError(400, f"the form doesn't fit: {what}", name=_field(str(error))) from error


def _field(message: str) -> str:
    return message.partition("$.")[2].partition("`")[0].partition("[")[0]


async def fields_of(request: Request, kind: type[T]) -> T:
    """Return the body of a request, which is JSON or a form.

    Raises:
        RequestError: the body can't be read.
    """
    form = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if form in ("application/x-www-form-urlencoded", "multipart/form-data"):
        async with form_of(request, max_files=0, max_fields=1_000) as given:
            values: dict[str, Any] = {name: given.getlist(name) for name in given}
        return as_object({name: it if len(it) > 1 else it[0] for name, it in values.items()}, kind)
    expect_json(form)
    return from_json(await request.body(), kind)


@asynccontextmanager
async def form_of(request: Request, *, max_files: int, max_fields: int) -> AsyncIterator[FormData]:
    """Yield the form of a request. Its files exist inside the `with` block.

    Raises:
        RequestError: the form is malformed, or has too many fields or files.
    """
    try:
        form = await request.form(max_files=max_files, max_fields=max_fields)
    except HTTPException as error:
        what, files = f"the form can't be read: {error.detail}", f"at most {max_files}" if max_files else "no"
        raise RequestError(400, what, expected=f"a complete form with {files} files", name="body") from error
    try:
        yield form
    finally:
        await form.close()


def expect_json(content_type: str) -> None:
    """Raise RequestError for a content type other than JSON. None at all counts as JSON."""
    if content_type not in ("", JSON) and not content_type.endswith("+json"):
        what = f"the content type {content_type!r} isn't supported here"
        raise RequestError(415, what, expected=JSON, name="content-type", value=content_type)


def json_bytes(value: Any) -> bytes:
    """Return strictly valid JSON. NaN and infinity become null."""
    return msgspec.json.encode(finite(value))


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a JSON response."""
    return Response(json_bytes(value), status, headers, JSON)
